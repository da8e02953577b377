"""This module finds the certificate authorities that a client trusts if its configuration names none.

Invariant: the client trusts the machine's own authorities, and never goes without any. confluent-kafka's wheel checks a
token server's certificate by a file that exists on some systems only. On the other systems it would get no token.
"""

from collections.abc import Mapping
from pathlib import Path

from aggregator.config.secrets import SecretRef

# The bundles of Fedora and its relatives, Debian and its relatives, SUSE, and Alpine and macOS.
_BUNDLES = (
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def token_server_trust(options: Mapping[str, str | SecretRef]) -> dict[str, str]:
    """The properties by which a token server's certificate is checked, where the block has none."""
    if options.get("sasl.oauthbearer.method") != "oidc" or {"https.ca.location", "https.ca.pem"} & options.keys():
        return {}
    found = next((path for path in _BUNDLES if Path(path).is_file()), None)
    return {"https.ca.location": found} if found else {}
