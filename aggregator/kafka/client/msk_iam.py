"""This module makes sign-in tokens for Amazon MSK's IAM: AWS's own package signs them with this machine's credentials.

Invariant: a token is made when librdkafka asks for one, which it does before the last token ends. No token is kept here
or logged. If no token can be made, the next request tries again.
"""

import importlib
import logging
from collections.abc import Callable
from typing import Any

from aggregator.config.model import ClusterConfig, MskIam
from aggregator.errors import ConfigError

PACKAGE = "aws_msk_iam_sasl_signer"
# A token, and when it expires, in seconds since 1970.
Token = tuple[str, float]
log = logging.getLogger(__name__)


def token_options(cluster: ClusterConfig) -> dict[str, Any]:
    """The properties by which a client gets tokens that a program makes; none where it needs none.

    Raises:
        ConfigError: AWS's package is not installed.
    """
    if cluster.msk_iam is None:
        return {}
    return {"oauth_cb": _signer(cluster.msk_iam, cluster.bootstrap_servers)}


def _signer(iam: MskIam, where: str) -> Callable[[str], Token]:
    try:
        package: Any = importlib.import_module(PACKAGE).MSKAuthTokenProvider
    except ImportError:
        raise ConfigError(
            f"msk_iam of {where} needs AWS's package, which is not installed",
            hint="pip install 'aggregator[msk]', on the executors, too",
        ) from None

    def token(_config: str) -> Token:
        try:
            if iam.role_arn is not None:
                made, until_ms = package.generate_auth_token_from_role_arn(iam.region, iam.role_arn)
            elif iam.profile is not None:
                made, until_ms = package.generate_auth_token_from_profile(iam.region, iam.profile)
            else:
                made, until_ms = package.generate_auth_token(iam.region)
        except Exception as error:
            log.warning("%s: AWS signs no token for region %s: %s", where, iam.region, type(error).__name__)
            raise
        return made, until_ms / 1000

    return token
