"""Finds settings that leave a connection open to others, and checks the reason that the configuration gives for them.

Invariant: connections are closed by default. Three kinds of settings need `insecure: "<reason>"` beside them: a
password in clear, a certificate or a host that nobody checks, and credentials that are never used. This also holds on
loopback and in a private network. A reason without an open setting is refused, because it would excuse a setting that
is added later.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aggregator.config.contexts import CONTEXT, context_fault
from aggregator.config.glue import PROFILE, is_glue
from aggregator.config.secrets import SecretRef
from aggregator.reasons import says_something

INSECURE = "insecure"
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_YES = ("true", "t", "1")
_LONGEST_REASON = 200
_NO_REASONS = ("true", "false", "yes", "no", "on", "off", "1", "0")
_REMEDY = '; or say why this may be so, beside it: `insecure: "<reason>"`, which status, page and metrics show'
_CERTIFICATE = "enable.ssl.certificate.verification"
_HOST = "ssl.endpoint.identification.algorithm"
_TOKENS = "sasl.oauthbearer.token.endpoint.url"
ISSUER = "bearer.auth.issuer.endpoint.url"
_TOKENS_AUTHORITY = "https.ca.location"
# The hub authenticates to a registry with exactly one of these credentials.
CREDENTIALS = ("basic.auth.user.info", "bearer.auth.token", "bearer.auth.client.id")
# A client of a token server needs all of these. The other two lists are options for getting a token and for using one.
_OF_A_CLIENT = ("bearer.auth.client.id", "bearer.auth.client.secret", ISSUER)
_FOR_TOKENS = ("bearer.auth.scope", _TOKENS_AUTHORITY)
_BESIDE_A_TOKEN = ("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id")
Options = Mapping[str, str | SecretRef]


class InsecureSetting(NamedTuple):
    """A setting that leaves a connection open.

    Attributes:
        setting: The setting's name.
        what: The effect, in words.
        instead: The remedy, in words.
    """

    setting: str
    what: str
    instead: str

    @property
    def fault(self) -> str:
        """The fault for an insecure setting without a reason."""
        return f"{self.what}: {self.instead}{_REMEDY}"


def properties(options: Options) -> dict[str, str | SecretRef]:
    """The block as a client takes it: without the reason, which is ours."""
    return {name: value for name, value in options.items() if name != INSECURE}


def insecure_client_settings(options: Options) -> tuple[InsecureSetting, ...]:
    """The insecure settings of a cluster's `client:` block."""
    return tuple(
        _insecure_client_settings({name: value for name, value in options.items() if isinstance(value, str)}, options)
    )


def _insecure_client_settings(plain: Mapping[str, str], options: Options) -> Iterator[InsecureSetting]:
    protocol = plain.get("security.protocol", "plaintext").lower()
    if protocol == "sasl_plaintext":
        yield InsecureSetting("security.protocol", "sends password and records in clear", "write SASL_SSL")
    if not protocol.startswith("sasl_") and (idle := _first(options, "sasl.")):
        yield InsecureSetting(
            idle, "is never used, and nobody signs in", "write `security.protocol: SASL_SSL` beside it"
        )
    if not protocol.endswith("ssl") and (idle := _first(options, "ssl.")):
        yield InsecureSetting(
            idle, "is never used, and nothing is encrypted", "write `security.protocol: SSL` or SASL_SSL"
        )
    if plain.get(_CERTIFICATE, "true").lower() not in _YES:
        yield InsecureSetting(_CERTIFICATE, "takes any certificate", "name the right `ssl.ca.location`")
    if plain.get(_HOST, "https").lower() != "https":
        yield InsecureSetting(
            _HOST,
            "takes the certificate of any host",
            "leave it out, and use the names that the certificates hold",
        )
    if not plain.get(_TOKENS, "https://").lower().startswith("https://"):
        yield InsecureSetting(_TOKENS, "sends the client's secret in clear", "write an https:// address")


def insecure_registry_settings(address: str, options: Options) -> tuple[InsecureSetting, ...]:
    """What is insecure about a registry's address and its `schemas_client:` block.

    Args:
        address: Or several, with commas.
        options: The block.
    """
    return tuple(_insecure_registry_settings(options, is_plain="http://" in address.lower()))


def _insecure_registry_settings(options: Options, *, is_plain: bool) -> Iterator[InsecureSetting]:
    if is_plain:
        for name in CREDENTIALS:
            if name in options:
                what = "goes" if name in CREDENTIALS[:2] else "gets tokens, which go"
                yield InsecureSetting(name, f"{what} over the network in clear", "write an https:// address")
        if idle := _first(options, "ssl."):
            yield InsecureSetting(idle, "is never used, and nothing is encrypted", "write an https:// address")
    if not str(options.get(ISSUER, "https://")).lower().startswith("https://"):
        yield InsecureSetting(ISSUER, "sends the client's secret in clear", "write an https:// address")


def registry_faults(address: str, options: Options) -> Iterator[tuple[str, str]]:
    """Settings of a registry's block that are refused, each with why: together, or beside this address."""
    if is_glue(address):
        yield from ((name, "is for a registry behind an http(s) address") for name in options if name != PROFILE)
        return
    if PROFILE in options:
        yield PROFILE, "is for a registry of AWS Glue: glue:<region>/<registry>"
    if misfit := _misfit(options):
        yield misfit
    if why := context_fault(address, options):
        yield CONTEXT, why
    yield from unreasoned(insecure_registry_settings(address, options), options)


def _misfit(options: Options) -> tuple[str, str] | None:
    ways = [name for name in CREDENTIALS if name in options]
    if len(ways) > 1:
        return ways[1], f"is a second way to sign in beside `{ways[0]}`: leave one of the two out"
    present = [name for name in (*_OF_A_CLIENT, *_FOR_TOKENS) if name in options]
    missing = [name for name in _OF_A_CLIENT if name not in options]
    if present and missing:
        return present[0], f"needs `{missing[0]}` beside it"
    beside = [name for name in _BESIDE_A_TOKEN if name in options]
    if beside and not {"bearer.auth.token", *_OF_A_CLIENT} & options.keys():
        return beside[0], "is told beside a token only: give `bearer.auth.token`, or the settings of a token server"
    return None


def _first(options: Options, prefix: str) -> str:
    return min((name for name in options if name.startswith(prefix)), default="")


def reason_refusal(value: str | SecretRef) -> str | None:
    """Why the value is not a valid reason; None if it is. Terminals, pages and metrics need one plain line."""
    if not isinstance(value, str) or not says_something(value) or value.strip().lower() in _NO_REASONS:
        return "is the reason why this connection may be open, in words"
    if len(value) > _LONGEST_REASON or not value.isprintable():
        return f"is one line of at most {_LONGEST_REASON} characters"
    return None


def unreasoned(settings: tuple[InsecureSetting, ...], options: Options) -> Iterator[tuple[str, str]]:
    """Settings that are refused, each with why: insecure ones without a reason, or a reason without one."""
    if INSECURE not in options:
        yield from ((one.setting, one.fault) for one in settings)
    elif not settings:
        yield INSECURE, "excuses nothing: this connection is closed; leave it out"
