"""Parses `sasl.jaas.config`: the login module and its options.

Invariant: an option's value is returned only to a caller that asks for that option. No error and no repr holds a value.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aggregator.count_text import format_count

_OPTION = re.compile(
    r"""(?<![\w.$-])([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""",
    re.ASCII,
)
_MODULE = re.compile(r"\s*([\w.$]+)", re.ASCII)
_ESCAPED = re.compile(r"\\(.)")
# Option names that may be shown. Any other name may be a piece of a password that was not quoted.
_KNOWN = frozenset(
    {"awsRoleArn", "awsRoleExternalId", "awsRoleSessionName", "awsStsRegion", "awsProfileName", "awsDebugCreds",
     "awsMaxRetries", "awsMaxBackOffTimeMs", "debug", "doNotPrompt", "isInitiator", "keyTab", "principal",
     "refreshKrb5Config", "renewTicket", "serviceName", "storeKey", "storePass", "ticketCache", "tokenauth",
     "tryFirstPass", "useFirstPass", "useKeyTab", "useTicketCache", "clientId", "clientSecret", "scope",
     "oauth.access.token", "oauth.audience", "oauth.check.access.token.type", "oauth.client.assertion",
     "oauth.client.id", "oauth.client.secret", "oauth.password.grant.username", "oauth.refresh.token", "oauth.scope",
     "oauth.ssl.endpoint.identification.algorithm", "oauth.ssl.truststore.location", "oauth.ssl.truststore.type",
     "oauth.token.endpoint.uri", "oauth.username.claim"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Login:
    """Describes a login module with its options.

    Attributes:
        module: Class of the login module without the package: `PlainLoginModule`.
        options: The options by name; never shown.
    """

    module: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_jaas(text: str) -> Login:
    """The first login module of the text; one without a name where there is none."""
    module = _MODULE.match(text)
    options = {
        found[1]: _ESCAPED.sub(r"\1", next(one for one in found.groups()[1:] if one is not None))
        for found in _OPTION.finditer(text)
    }
    return Login(module[1].rpartition(".")[2] if module else "", options)


def without(login: Login, used: Collection[str]) -> str:
    """The login options, in words, that the hub does not take over; empty if it takes all.

    Args:
        login: The login module.
        used: Options that are carried over.
    """
    rest = login.options.keys() - set(used)
    named, others = sorted(rest & _KNOWN), len(rest - _KNOWN)
    words = [f"`{name}`" for name in named] + ([format_count(others, "other option")] if others else [])
    return f"without {', '.join(words)}, which the hub does not have" if words else ""
