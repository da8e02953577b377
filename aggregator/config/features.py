"""Finds settings of a `client:` block that need a part of librdkafka which this build does not have.

Invariant: pure. The version and the features of the installed library are an argument. A setting that needs more is
reported by its name, together with an alternative.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from aggregator.config.secrets import SecretRef

Options = Mapping[str, str | SecretRef]
# A judge of a block yields the settings that this build cannot carry out, each with the reason.
FeatureCheck = Callable[[Options], Iterator[tuple[str, str]]]


class LibrdkafkaBuild(NamedTuple):
    """Describes a build of librdkafka.

    Attributes:
        version: The version that the library reports.
        features: Features of the build, as its `builtin.features` names them.
    """

    version: str
    features: frozenset[str]


MECHANISM = "sasl.mechanism"
# Each mechanism that librdkafka knows, with the name of the part that it needs.
MECHANISMS: Mapping[str, str] = {
    "PLAIN": "sasl_plain",
    "SCRAM-SHA-256": "sasl_scram",
    "SCRAM-SHA-512": "sasl_scram",
    "OAUTHBEARER": "sasl_oauthbearer",
    "GSSAPI": "sasl_gssapi",
}
_KERBEROS = "sasl.kerberos."
_CODECS = ("gzip", "snappy", "lz4", "zstd")
_INSTEAD = "use SCRAM-SHA-512, OAUTHBEARER, or a client's certificate (`security.protocol: SSL`)"


def mechanism_of(options: Options) -> str:
    """The SASL mechanism by which a client signs in; empty where it does not. librdkafka's default is Kerberos."""
    if not str(options.get("security.protocol", "")).lower().startswith("sasl_"):
        return ""
    return str(options.get(MECHANISM) or options.get("sasl.mechanisms") or "GSSAPI")


def token_fault(options: Options, *, msk_iam: bool) -> str | None:
    """Why a cluster would get no token, or two; None if all is well.

    Args:
        options: Options of the cluster's `client:` block.
        msk_iam: Whether AWS signs one.
    """
    by_oidc = options.get("sasl.oauthbearer.method") == "oidc"
    if msk_iam and (mechanism_of(options) != "OAUTHBEARER" or by_oidc):
        return (
            "msk_iam needs `security.protocol: SASL_SSL` and `sasl.mechanism: OAUTHBEARER` in `client:`, "
            "and no `sasl.oauthbearer.method`"
        )
    if mechanism_of(options) == "OAUTHBEARER" and not (by_oidc or msk_iam):
        return "OAUTHBEARER needs `sasl.oauthbearer.method: oidc` in `client:`, or `msk_iam` beside it"
    return None


def lacking(options: Options, library: LibrdkafkaBuild) -> Iterator[tuple[str, str]]:
    """Settings that this librdkafka cannot carry out, each with why and what to do.

    Args:
        options: A cluster's `client:` block.
        library: The library that runs.
    """
    absent = f"is not in this librdkafka ({library.version})"
    mechanism = mechanism_of(options)
    needed = MECHANISMS.get(mechanism, "")
    if needed and needed not in library.features:
        yield _at(options), f"{_called(mechanism)} {absent}: {_INSTEAD}"
    elif "sasl_gssapi" not in library.features and (idle := _first(options, _KERBEROS)):
        yield idle, f"Kerberos (GSSAPI) {absent}: leave it out, or {_INSTEAD}"
    if options.get("sasl.oauthbearer.method") == "oidc" and "oidc" not in library.features:
        yield "sasl.oauthbearer.method", f"oidc {absent}: {_INSTEAD}"
    if str(options.get("security.protocol", "")).lower().endswith("ssl") and "ssl" not in library.features:
        yield "security.protocol", f"TLS {absent}: install confluent-kafka's own wheel"
    for name in ("compression.codec", "compression.type"):
        if (codec := str(options.get(name))) in _CODECS and codec not in library.features:
            yield name, f"{codec} {absent}: use another codec"


def _first(options: Options, prefix: str) -> str:
    return min((name for name in options if name.startswith(prefix)), default="")


def _at(options: Options) -> str:
    """The key of the mechanism in the block, or the key of the protocol where no mechanism is set."""
    return next((name for name in (MECHANISM, "sasl.mechanisms") if name in options), "security.protocol")


def _called(mechanism: str) -> str:
    return "Kerberos (GSSAPI, also meant where no `sasl.mechanism` stands)" if mechanism == "GSSAPI" else mechanism
