"""Which certificate authorities a client trusts where its configuration names none.

Invariant: the machine's own, never none. confluent-kafka's wheel checks a token server's certificate by a file that
only some systems have, and gets no token on the others.
"""

from collections.abc import Mapping
from pathlib import Path

from aggregator.config.secrets import SecretRef

# Where systems keep them: Fedora and its like, Debian and its like, SUSE, Alpine and macOS.
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
