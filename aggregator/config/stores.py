"""Judges the options of object stores and table catalogues by their effect, under every name, alias and letter case.

Invariant: pure. One table recognises the unsafe options: for example those that open a store to others, that accept any
certificate, or that say where tables and credentials are sent. The table applies to the file, to the value behind a
reference, and to the environment, where no such option may be set.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from aggregator.config.client import IN_CLEAR, is_secret_property
from aggregator.config.secrets import SecretRef
from aggregator.config.transport import INSECURE, InsecureSetting, properties, reason_refusal

Options = Mapping[str, str | SecretRef]

_NO = ("false", "f", "no", "n", "off", "0", "none", "never")
_YES = ("true", "t", "yes", "y", "on", "1")
_CLEAR = "sends tables, and what the store lets the hub in by, in clear"
_HTTPS = "write an https:// address"
_ANYBODY = "cannot be set so: whoever is between would take the store's place, and keys and tables with it"
_TWICE = "cannot be set so: two writers could both commit the same version"
_PART = "cannot be set so: a part of an address is letters, digits and . _ -; more would be another address"
_CODE = "cannot be set: it loads foreign code into the hub and its workers"
_DECIDES = "is no secret, and decides how safe the connection is: write the value itself"
_IN_ADDRESS = "holds a user or a password in clear: write the whole address as a reference, `env:NAME` or `file:path`"
# Names of keys in stores, beside the words that every client uses.
_SECRETS = re.compile(
    r"account.?key|sas.?key|connection.?string|service.?account.?key|application.?credentials.?json|master.?key"
    r"|(customer|encryption).?key|([._-]|^)(sas|key)$|session.?kwargs",
    re.IGNORECASE,
)
# Options about a secret that hold none: its file, its expiry and its type.
_ABOUT_SECRETS = re.compile(r"(token|identity|credentials?)[._-]?(file|type)$|expires[._-]?at$", re.IGNORECASE)
_SECRET_IN_ADDRESS = re.compile(r"://[^?#\s]*@|[?&;][^=]*(pass|pwd|token|sig|secret|key)[^=]*=", re.IGNORECASE)
# Headers that pyiceberg sends with each request to a REST catalogue; all but this one may hold a credential.
_HEADER, _PLAIN_HEADER = "header.", "header.x-iceberg-access-delegation"
# A signed request also sends the session's token.
_SIGNS = re.compile(r"sigv4")
# Link-local addresses where a cloud's own machines get their credentials, always without encryption.
_LINK = frozenset(
    ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23", "metadata.google.internal")
)
_CLOUD = _LINK | {"login.microsoftonline.com", "login.microsoftonline.us", "login.chinacloudapi.cn", "googleapis.com"}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _always(_: str) -> bool:
    return True


def _on(value: str) -> bool:
    return value not in _NO


def _off(value: str) -> bool:
    return value not in _YES


class _Kind(NamedTuple):
    """A kind of option, recognised by its name, and its effect on the connection.

    Attributes:
        names: Matches a name in lower case without separators.
        opens: Whether a value, in lower case, opens something.
        what: The effect of the option, or the reason why it cannot have its value.
        instead: The remedy; empty where no reason excuses the option.
        stands: Whether it stands in the file itself.
    """

    names: re.Pattern[str]
    opens: Callable[[str], bool]
    what: str
    instead: str = ""
    stands: bool = True


def _is_clear(value: str) -> bool:
    """Whether an address names a protocol, and it is not https. Clients drop what nobody can see before they read one,
    and take one slash, or a backslash, for two.
    """
    said = re.match(r"([a-z][a-z0-9+.-]*):(?!\d)", _seen(value))
    return said is not None and said[1] != "https" and _host(value) not in _LINK


def _is_no_name(value: str) -> bool:
    return re.fullmatch(r"[a-z0-9._-]*", value) is None


def _seen(value: str) -> str:
    return re.sub(r"[\x00-\x20\x7f-\xa0]", "", value).replace("\\", "/").lower()


def _host(value: str) -> str | None:
    """The host of an address, or of `host:port` alone; None where there is none."""
    seen = _seen(value)
    try:
        return urlsplit(seen if "://" in seen else f"//{seen}").hostname
    except ValueError:
        return None


# The first kind that matches a name decides.
_ADDRESS = _Kind(
    re.compile(r"(endpoint|ur[il]|host|authority|domain|proxy|metadata(root|ip))$|endpointurl[a-z0-9]*$"),
    _is_clear,
    _CLEAR,
    _HTTPS,
)
_KINDS = (
    _Kind(re.compile(r"impl$"), _always, _CODE),
    _Kind(re.compile(r"(executables?|command)$"), _on, _CODE),
    _Kind(re.compile(r"unsaferename$"), _always, _TWICE),
    _Kind(re.compile(r"(region|accountname|bucket(name)?|container(name)?)$"), _is_no_name, _PART, stands=False),
    _Kind(re.compile(r"conditionalput$"), lambda value: value in ("disabled", *_NO), _TWICE),
    _Kind(
        re.compile(
            r"(allow|accept|trust)(all|any|every|invalid|insecure|unsafe|untrusted|selfsigned)[a-z]*$|insecure[a-z]*$"
            r"|(skip|disable|no|ignore)[a-z]*(verif|validat|certificateerror|(certificate|cert|host|hostname)check)[a-z]*$"
        ),
        _on,
        _ANYBODY,
    ),
    _Kind(
        re.compile(
            r"(verif(y|ication)(ssl|tls|peer|host|hostname|certs?|certificates?)?(enabled)?"
            r"|check(host|hostname|certs?|certificates?)|validate(certs?|certificates?))$"
        ),
        lambda value: value in _NO,
        _ANYBODY,
    ),
    _Kind(
        re.compile(
            r"(allow(http|plaintext|cleartext)|emulator|plaintext|(disable|no|skip)(ssl|tls|https|encryption))$"
        ),
        _on,
        _CLEAR,
        _HTTPS,
    ),
    _Kind(re.compile(r"((ssl|tls|https)(enabled|only|required)?|(?<!in)secure|encrypt(ed)?)$"), _off, _CLEAR, _HTTPS),
    _Kind(
        re.compile(r"sslmode$"), lambda value: value in ("disable", "allow", "prefer"), _CLEAR, "write `verify-full`"
    ),
    _Kind(re.compile(r"scheme$|endpointsprotocol$"), lambda value: value != "https", _CLEAR, _HTTPS),
    _ADDRESS,
)
# Environment variables that the clients read. delta-rs also reads the names of S3's options without a prefix.
_OURS = re.compile(r"(aws|azure|azurite|google|gcs|gce|cloud_storage|identity|msi|imds)_", re.IGNORECASE)
_BARE = re.compile(
    r"allowhttp|allowinvalidcertificates|endpoint|endpointurl(s3|sts)?|metadataendpoint|containercredentialsfulluri"
    r"|proxyurl|conditionalput"
)
_ROOTS = re.compile(r"proxycacertificate$")  # whoever brings a proxy brings the certificate that it is trusted by
_SOURCES = re.compile(r"metadata|identity|msi|imds|containercredentials")


def catalog_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why an option of a table catalogue cannot have this value; None if it can. The text never holds it."""
    if name == INSECURE:
        return reason_refusal(value)
    kind = _kind(name)
    if not isinstance(value, str):
        return _DECIDES if kind and kind.stands and name != "uri" else None
    if why := inexcusable_effect(name, value):
        return why
    if kind is not _ADDRESS and _is_secret(name):
        return IN_CLEAR
    return _IN_ADDRESS if _SECRET_IN_ADDRESS.search(value) else None


def storage_refusal(name: str, value: str | SecretRef) -> str | None:
    """Why an option of an object store cannot have this value; None if it can. The text never holds it."""
    if name == "uri" and not isinstance(value, str):
        return _DECIDES
    return catalog_refusal(name, value)


def inexcusable_effect(name: str, value: str) -> str | None:
    """The effect that makes an option inexcusable; None if a reason excuses it or none is needed."""
    kind = _kind(name)
    return kind.what if kind and not kind.instead and kind.opens(value.strip().lower()) else None


def insecure_catalog_settings(options: Options) -> tuple[InsecureSetting, ...]:
    """The insecure settings among the options of a table catalogue.

    That is the way to every server that it signs in to or that it exchanges a secret with, and the way to the store,
    which it may reach by options of its own.
    """
    plain = {name: value for name, value in options.items() if isinstance(value, str)}
    own = [name for name in plain if re.search(r"ur[il]$", name.lower())]
    signed = any(map(_is_credential, options.items()))
    return (
        *(
            InsecureSetting(name, "sends the catalogue's credential in clear", _HTTPS)
            for name in own
            if signed and _seen(plain[name]).startswith("http:")
        ),
        *(one for name in own for one in _within(name, plain[name])),
        *insecure_storage_settings({name: value for name, value in plain.items() if name not in own}),
    )


def insecure_storage_settings(options: Options) -> tuple[InsecureSetting, ...]:
    """The insecure settings among the literal options of an object store; references are not examined."""
    plain = {name: value for name, value in properties(options).items() if isinstance(value, str)}
    return tuple(one for said in plain.items() for one in (*_insecure_settings(*said), *_within(*said)))


def insecure_environment_settings(environ: Mapping[str, str]) -> tuple[InsecureSetting, ...]:
    """The insecure settings and redirections by variables that the stores' clients read beside the file.

    A cloud's own addresses, a path on them and switches decide nothing.
    """
    return tuple(_said_outside(environ))


def _said_outside(environ: Mapping[str, str]) -> Iterator[InsecureSetting]:
    for name, value in sorted(environ.items()):
        bare = _bare(name)
        if not (_OURS.match(name) or _BARE.fullmatch(bare) or _ROOTS.search(bare)):
            continue
        kind, low = _kind(name), value.strip().lower()
        if kind is _ADDRESS and _goes_elsewhere(bare, low):
            yield InsecureSetting(name, "says where tables or credentials go", "")
        elif kind is not _ADDRESS and kind and kind.opens(low):
            yield InsecureSetting(name, kind.what, "")
        elif _ROOTS.search(bare) and low:
            yield InsecureSetting(name, "says whose certificates are taken", "")


def insecure_profile_settings(name: str, text: str) -> tuple[InsecureSetting, ...]:
    """The clear-text addresses in a file of credentials that a client reads by itself.

    Args:
        name: The file's, for the answer.
        text: JSON, or lines as `endpoint_url = http://…`.
    """
    found = dict(_pairs(text) or re.findall(r"^\s*(\w+)\s*=\s*(\S+)\s*$", text, re.MULTILINE))
    return tuple(
        InsecureSetting(f"{name}: {one.setting}", one.what, one.instead) for one in insecure_storage_settings(found)
    )


def _goes_elsewhere(bare: str, value: str) -> bool:
    if not value or value in (*_YES, *_NO) or value.startswith("/"):
        return False
    host = _host(value)
    is_known = host in _LINK or (host in _CLOUD and not _is_clear(value))
    return not is_known and not (_SOURCES.search(bare) and host in _LOOPBACK)


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _kind(name: str) -> _Kind | None:
    bare = _bare(name)
    return next((kind for kind in _KINDS if kind.names.search(bare)), None)


def _insecure_settings(name: str, value: str) -> Iterator[InsecureSetting]:
    kind = _kind(name)
    if kind and kind.opens(value.strip().lower()):
        yield InsecureSetting(name, kind.what, kind.instead)


def _within(name: str, value: str) -> Iterator[InsecureSetting]:
    """The insecure settings within a value that holds options itself: JSON keys, connection strings, queries."""
    for inner, said in _pairs(value):
        for one in _insecure_settings(inner, said):
            yield InsecureSetting(name, f"holds {one.setting}, which {one.what}", one.instead or "take it out")


def _pairs(value: str) -> list[tuple[str, str]]:
    if value.lstrip().startswith("{"):
        try:
            return list(_leaves(json.loads(value)))
        except (ValueError, RecursionError):
            return []
    parts = [part.partition("=") for part in value.split(";")]
    listed = [(name.strip(), said) for name, _, said in parts if said] if len(parts) > 1 else []
    return listed + (parse_qsl(urlsplit(value).query, keep_blank_values=True) if "://" in value else [])


def _leaves(part: object) -> Iterator[tuple[str, str]]:
    for name, value in part.items() if isinstance(part, dict) else ():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield str(name), str(value)


def _is_secret(name: str) -> bool:
    is_named = is_secret_property(name) or _SECRETS.search(name) is not None
    return (is_named and not _ABOUT_SECRETS.search(name)) or _is_header(name)


def _is_header(name: str) -> bool:
    return name.lower().startswith(_HEADER) and name.lower() != _PLAIN_HEADER


def _is_credential(option: tuple[str, str | SecretRef]) -> bool:
    name, value = option
    in_address = isinstance(value, str) and _SECRET_IN_ADDRESS.search(value) is not None
    signs = isinstance(value, str) and _SIGNS.search(_bare(name)) is not None and _on(value.lower())
    return in_address or signs or _is_secret(name)
