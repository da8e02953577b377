"""Makes a cluster's `client:` block from its TLS stores, `sasl.jaas.config` and Strimzi's secrets.

Invariant: the block holds no password, key or user of a login module; each is a reference. A check that MirrorMaker
turns off is not turned off here, because that needs a reason from a person.
"""

import re
import shlex
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import NamedTuple

from aggregator.config.client import holds_private_key, is_secret_property
from aggregator.config.features import MECHANISMS
from aggregator.config.librdkafka import IDENTITY
from aggregator.config.transport import INSECURE, PROTOCOLS
from aggregator.mirrormaker.client_properties import NAMES
from aggregator.mirrormaker.jaas import Login, parse_jaas, without
from aggregator.mirrormaker.references import (
    TRIED,
    Variables,
    filled,
    has_expression,
    is_expression,
    variable_name,
)
from aggregator.mirrormaker.result import PropertyMappings
from aggregator.mirrormaker.scoped_settings import ScopedSetting
from aggregator.mirrormaker.settings import did_you_mean

REASON = "MirrorMaker signed in without encryption: write SASL_SSL, or say here why this may be so"
_ONE_PRINCIPAL = "all clients of a cluster sign in as one principal; another setting of this name is taken"
_NOT_SASL = "nobody signs in: `security.protocol` is not SASL_SSL"
_NOT_TLS = "nothing is encrypted: `security.protocol` is neither SSL nor SASL_SSL"
_WITH_A_FORM = ("security.protocol", "sasl.mechanism")
# Properties whose names and values only a server interprets.
_MAY_HOLD_SECRETS = ("sasl.oauthbearer.extensions", "sasl.oauthbearer.config")
_TRIED_URL = "https://tried"
# An address in which nothing but names stands: no user, parameter, query or fragment, and no escape that hides one.
_PLAIN_URL = re.compile(r"https?://[\w.:\[\]-]+(?:/[\w.~/-]*)?", re.ASCII | re.IGNORECASE)
_URL = "sasl.oauthbearer.token.endpoint.url"
# Options of `OAuthBearerLoginModule`, in the spelling of Apache Kafka's callback handler and in that of Strimzi's.
_APACHES_OPTIONS = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
_STRIMZIS_OPTIONS = {"oauth.client.id": "client.id", "oauth.client.secret": "client.secret", "oauth.scope": "scope"}
_STRIMZIS_URL = "oauth.token.endpoint.uri"
_PEM = {"ssl.keystore.key": "ssl.key.pem", "ssl.keystore.certificate.chain": "ssl.certificate.pem"}
_PEM_IS_OPEN = "certificates in PEM have no password"
_MSK = "AWS_MSK_IAM"
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]{1,32})\.amazonaws\.com")
_STRIMZIS_CA = "ca.crt"
_PKCS12 = (".p12", ".pfx", ".pkcs12")
_BY_NAME_AND_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Keys of Strimzi's secrets, in the form in which `strimzi.py` names them.
CA, CERTIFICATE, KEY = "@ca", "@certificate", "@key"
_FILES: Mapping[str, tuple[str, str]] = {
    CA: ("ssl.ca.location", "-ca.pem"),
    CERTIFICATE: ("ssl.certificate.location", ".crt"),
    KEY: ("ssl.key.location", ".key"),
}


class ConnectedCluster(NamedTuple):
    """The cluster that is connected to.

    Attributes:
        name: Unique among the clusters of an import; variables and files are named after it.
        place: Place in `hub.yaml`: `central`, `edges.eu`.
        servers: Addresses of the cluster.
        main: The role that counts most here.
        folder: Future folder of the certificates, relative to `hub.yaml`.
    """

    name: str
    place: str
    servers: str
    main: str
    folder: str


class SignIn:
    """Makes the `client:` block of one cluster.

    Args:
        cluster: The cluster to sign in to.
        fates: Receiver of each key's fate.
        variables: Receiver of the variables for secrets.
        commands: Commands to be run, in order.
    """

    def __init__(
        self,
        cluster: ConnectedCluster,
        fates: PropertyMappings,
        variables: Variables,
        commands: MutableMapping[str, None],
    ) -> None:
        self._cluster = cluster
        self._fates = fates
        self._variables = variables
        self._commands = commands
        self._chosen: dict[str, ScopedSetting] = {}
        self.client: dict[str, str] = {}
        self.msk_iam: dict[str, str] = {}

    def read(self, scoped_settings: Sequence[ScopedSetting]) -> None:
        """Take the settings that sign in; `client` and `msk_iam` hold what became of them."""
        rejected = self._choose(scoped_settings)
        protocol = self._protocol()
        is_open = has_expression(protocol)
        signs_in = self._signs_in() if is_open else "SASL" in protocol
        self._part("sasl.", self._sasl, "" if is_open or signs_in else _NOT_SASL)
        self._part("ssl.", self._tls, "" if is_open or protocol.endswith("SSL") else _NOT_TLS)
        if signs_in:
            self._complete()
        for setting, winner in rejected:
            if setting.value == winner.value:
                self._fates.as_other(setting.entry, winner.entry, _ONE_PRINCIPAL)
            else:
                self._fates.not_applicable(setting.entry, _ONE_PRINCIPAL)

    def _choose(self, scoped_settings: Sequence[ScopedSetting]) -> list[tuple[ScopedSetting, ScopedSetting]]:
        """Choose one piece for each setting; return the others, each with the chosen piece."""
        ranks = {"": 0, self._cluster.main: 1}
        rejected = []
        for setting in sorted(
            scoped_settings, key=lambda one: (not one.of_records, ranks.get(one.role, 2), -one.weight)
        ):
            name = setting.name + setting.value if setting.name == CA else setting.name
            winner = self._chosen.setdefault(name, setting)
            if winner is not setting:
                rejected.append((setting, winner))
        return rejected

    def _signs_in(self) -> bool:
        """Whether somebody does, where the protocol stands elsewhere."""
        return any(name.startswith("sasl.") for name in self._chosen)

    def _protocol(self) -> str:
        """The protocol in capital letters, or an expression."""
        setting = self._chosen.pop("security.protocol", None)
        if setting is None:
            return "PLAINTEXT"
        value = setting.value if has_expression(setting.value) else setting.value.upper()
        if value.lower() not in PROTOCOLS and not has_expression(value):
            self._fates.not_applicable(setting.entry, "is none of PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL")
            return "PLAINTEXT"
        why = ""
        if value == "SASL_PLAINTEXT":
            self.client[INSECURE] = REASON
            why = "with `insecure`, whose reason you have to give: password and records go in clear"
        self._set(setting, "security.protocol", why, tried="SASL_SSL" if self._signs_in() else "SSL")
        return value

    def _part(self, prefix: str, read: Callable[[Mapping[str, ScopedSetting]], None], why_not: str) -> None:
        names = [name for name in self._chosen if name.startswith(prefix) or (prefix == "ssl." and name[0] == "@")]
        taken = {name: self._chosen[name] for name in names}
        if why_not:
            for setting in taken.values():
                self._fates.not_applicable(setting.entry, why_not)
        else:
            read(taken)

    def _set(
        self, setting: ScopedSetting, name: str, why: str = "", value: str | None = None, tried: str = TRIED
    ) -> None:
        """Write one property, as a reference where it is secret."""
        text = setting.value if value is None else value
        variable, place = variable_name(self._cluster.name, name), setting.place
        if is_secret_property(name) or holds_private_key(text):
            self.client[name] = self._variables.secret(text, variable, place)
        elif _is_kept_out(name, text):
            self.client[name] = f"${{{self._variables.of(variable, f'what {place} holds', text, tried)}}}"
        else:
            self.client[name] = self._variables.text(text, variable, place, tried)
        self._fates.mapped(setting.entry, self._place_of(name), why)

    def _place_of(self, name: str) -> str:
        return f"{self._cluster.place}.client.{name}"

    # --- SASL

    def _sasl(self, scoped_settings: Mapping[str, ScopedSetting]) -> None:
        if (mechanism := scoped_settings.get("sasl.mechanism")) is not None:
            self._mechanism(mechanism)
        for name, setting in scoped_settings.items():
            if name == "sasl.jaas.config":
                self._login(setting, parse_jaas(setting.value))
            elif name in IDENTITY and name != "sasl.mechanism":
                self._set(setting, name, tried=_TRIED_URL if name.endswith(".url") else TRIED)
            elif name != "sasl.mechanism":
                self._no_client(setting)

    def _mechanism(self, setting: ScopedSetting) -> None:
        if setting.value.upper() == _MSK:
            self._msk(setting, Login(""))
        elif setting.value.upper() in MECHANISMS or has_expression(setting.value):
            upper = setting.value if has_expression(setting.value) else setting.value.upper()
            self._set(setting, "sasl.mechanism", value=upper, tried="PLAIN")
        else:
            self._fates.not_applicable(setting.entry, f"librdkafka has {', '.join(MECHANISMS)} only")

    def _msk(self, setting: ScopedSetting, login: Login) -> None:
        self.client["sasl.mechanism"] = "OAUTHBEARER"
        found = _REGION.search(self._cluster.servers)
        name = variable_name(self._cluster.name, "AWS_REGION")
        region = found[1] if found else f"${{{self._variables.of(name, f'the AWS region of {self._cluster.name}')}}}"
        self.msk_iam.setdefault("region", region)
        used = []
        for option, key in (("awsRoleArn", "role_arn"), ("awsProfileName", "profile")):
            if option in login.options and not {"role_arn", "profile"} & self.msk_iam.keys():
                own = variable_name(self._cluster.name, "AWS", key)
                self.msk_iam[key] = self._variables.text(login.options[option], own, setting.place)
                used.append(option)
        to = f"{self._cluster.place}.msk_iam"
        why = filter(None, ("tokens of AWS: pip install 'aggregator[msk]'", without(login, used)))
        self._fates.mapped(setting.entry, to, "; ".join(why))

    def _login(self, setting: ScopedSetting, login: Login) -> None:
        match login.module:
            case "IAMLoginModule":
                self._msk(setting, login)
            case "PlainLoginModule" | "ScramLoginModule":
                if login.module == "PlainLoginModule":
                    self.client.setdefault("sasl.mechanism", "PLAIN")
                self._options(setting, login, {"username": "sasl.username", "password": "sasl.password"})
            case "OAuthBearerLoginModule":
                names = _STRIMZIS_OPTIONS if _STRIMZIS_OPTIONS.keys() & login.options.keys() else _APACHES_OPTIONS
                self._options(setting, login, {one: f"sasl.oauthbearer.{name}" for one, name in names.items()})
                if (url := login.options.get(_STRIMZIS_URL)) and _URL not in self._chosen:
                    self._set(setting, _URL, value=url, tried=_TRIED_URL)
            case "Krb5LoginModule":
                names = {"keyTab": "keytab", "principal": "principal", "serviceName": "service.name"}
                self._options(setting, login, {one: f"sasl.kerberos.{name}" for one, name in names.items()})
            case _:
                self._fates.not_applicable(setting.entry, "is a login module of Java that librdkafka does not have")

    def _options(self, setting: ScopedSetting, login: Login, names: Mapping[str, str]) -> None:
        """A login module's options; who signs in, and by which secret, become references."""
        place = setting.place
        for option, name in names.items():
            value = login.options.get(option, "")
            variable = variable_name(self._cluster.name, name)
            is_public = name.startswith("sasl.kerberos.") or name.endswith(".scope")
            if not value and is_public:
                continue
            to = place._replace(key=f"`{option}` of {setting.name}")
            if is_public or (is_expression(value) and name == "sasl.username"):
                self.client[name] = self._variables.text(value, variable, to)
            else:
                self.client[name] = self._variables.secret(value, variable, to)
        keys = ", ".join(self._place_of(name) for name in names.values() if name in self.client)
        self._fates.mapped(setting.entry, keys, without(login, [*names, _STRIMZIS_URL]))

    def _complete(self) -> None:
        """Add what a mechanism needs and MirrorMaker's file does not set."""
        mechanism = self.client.get("sasl.mechanism", "")
        if mechanism in _BY_NAME_AND_PASSWORD:
            self._ask("sasl.username", "sasl.password")
        if mechanism == "OAUTHBEARER" and not self.msk_iam:
            self.client["sasl.oauthbearer.method"] = "oidc"
            self._ask("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
            if _URL not in self.client:
                variable = variable_name(self._cluster.name, _URL)
                what = f"the address (https://) of the token server of {self._cluster.name}"
                self.client[_URL] = f"${{{self._variables.of(variable, what, tried=_TRIED_URL)}}}"

    def _ask(self, *names: str) -> None:
        for name in names:
            if name not in self.client:
                what = f"`{name}` of {self._cluster.name}, which MirrorMaker's files do not hold"
                self.client[name] = f"env:{self._variables.of(variable_name(self._cluster.name, name), what)}"

    # --- TLS

    def _tls(self, scoped_settings: Mapping[str, ScopedSetting]) -> None:
        self._trusted(scoped_settings)
        self._own_certificate(scoped_settings)
        self._kubernetes([setting for name, setting in scoped_settings.items() if name[0] == "@"])
        for name, setting in scoped_settings.items():
            if name == "ssl.endpoint.identification.algorithm":
                self._host_check(setting)
            elif name in ("ssl.truststore.type", "ssl.keystore.type"):
                self._fates.not_applicable(setting.entry, "the hub's files are PEM and PKCS12")
            elif not self._fates.is_told(setting.entry):
                self._no_client(setting)

    def _trusted(self, scoped_settings: Mapping[str, ScopedSetting]) -> None:
        location = scoped_settings.get("ssl.truststore.location")
        inline = scoped_settings.get("ssl.truststore.certificates")
        if (password := scoped_settings.get("ssl.truststore.password")) is not None:
            self._fates.not_applicable(password.entry, _PEM_IS_OPEN)
        if inline is not None:
            self._set(inline, "ssl.ca.pem")
        if location is None:
            return
        if _is(scoped_settings, "truststore", "PEM", (".pem", ".crt")):
            self._set(location, "ssl.ca.location")
            return
        made = self._file("-ca.pem")
        self._run(f"keytool -list -rfc -keystore {shlex.quote(location.value)} > {_unfolded(made)}")
        self._set(location, "ssl.ca.location", f"convert it: {made} is made by the command below", made)

    def _own_certificate(self, scoped_settings: Mapping[str, ScopedSetting]) -> None:
        for name, own in _PEM.items():
            if name in scoped_settings:
                self._set(scoped_settings[name], own)
        location, password = scoped_settings.get("ssl.keystore.location"), scoped_settings.get("ssl.keystore.password")
        key_password = scoped_settings.get("ssl.key.password")
        if location is None:
            for setting in (password, key_password):
                if setting is not None:
                    self._set(setting, "ssl.key.password")
            return
        if _is(scoped_settings, "keystore", "PEM", (".pem",)):
            self._set(location, "ssl.certificate.location")
            self._set(location, "ssl.key.location")
            for setting in (key_password, password):
                if setting is not None:
                    self._set(setting, "ssl.key.password")
            return
        self._store(scoped_settings, location, password)
        if key_password is not None:
            self._fates.not_applicable(key_password.entry, "in a PKCS12 store the key has the store's password")

    def _store(
        self, scoped_settings: Mapping[str, ScopedSetting], location: ScopedSetting, password: ScopedSetting | None
    ) -> None:
        if _is(scoped_settings, "keystore", "PKCS12", _PKCS12):
            self._set(location, "ssl.keystore.location")
        else:
            made = self._file(".p12")
            source = shlex.quote(location.value)
            self._run(
                f"keytool -importkeystore -srckeystore {source} -destkeystore {_unfolded(made)} -deststoretype PKCS12"
            )
            self._set(location, "ssl.keystore.location", f"convert it: {made} is made by the command below", made)
        if password is not None:
            self._set(password, "ssl.keystore.password")
        else:
            self._ask("ssl.keystore.password")

    def _kubernetes(self, scoped_settings: Sequence[ScopedSetting]) -> None:
        """Add the commands that write the files of Kubernetes' secrets."""
        for kind, (name, end) in _FILES.items():
            of_kind = [setting for setting in scoped_settings if setting.name == kind]
            if not of_kind:
                continue
            made = self._file(end)
            for number, setting in enumerate(of_kind):
                secret, _, key = setting.value.partition("\n")
                self._run(f"{_of_secret(secret, key)} {'>>' if number else '>'} {_unfolded(made)}")
                self._set(setting, name, f"{made} is made by the command below", made)

    def _host_check(self, setting: ScopedSetting) -> None:
        if setting.value.lower() == "https":
            self._set(setting, setting.name, value="https")
            return
        why = "the hub checks the host in a certificate; docs/connections.md says how to leave that out, with a reason"
        self._fates.not_applicable(setting.entry, why)

    def _file(self, end: str) -> str:
        return f"{self._cluster.folder}/{self._cluster.name}{end}"

    def _run(self, command: str) -> None:
        self._commands["umask 077 && mkdir -p certificates"] = None
        self._commands[command] = None

    def _no_client(self, setting: ScopedSetting) -> None:
        if setting.name in NAMES or setting.name.startswith(("sasl.oauthbearer.", "sasl.server.", "ssl.client.")):
            self._fates.not_applicable(setting.entry, "is none of what a client of the hub can be told")
        elif not self._fates.is_told(setting.entry):  # a guess takes time, and it is needed for each cluster
            self._fates.unknown(setting.entry, did_you_mean(setting.name, NAMES))


def _is_kept_out(name: str, text: str) -> bool:
    """Whether a variable has to hold the whole of a text: it may hold a secret, or a part of it decides its form."""
    if name.endswith(".url"):
        return _PLAIN_URL.fullmatch(filled(text, _TRIED_URL, TRIED)) is None
    return name in _MAY_HOLD_SECRETS or (name in _WITH_A_FORM and has_expression(text) and not is_expression(text))


def _is(scoped_settings: Mapping[str, ScopedSetting], store: str, kind: str, ends: tuple[str, ...]) -> bool:
    """Whether a store is of a kind: by its type, else by its name."""
    declared = scoped_settings.get(f"ssl.{store}.type")
    if declared is not None:
        return declared.value.upper() == kind
    return scoped_settings[f"ssl.{store}.location"].value.lower().endswith(ends)


def _of_secret(secret: str, key: str) -> str:
    """The command that shows what a secret of Kubernetes holds; of a pattern, what Strimzi calls an authority's."""
    name = _STRIMZIS_CA if "*" in key or not key else key.replace('"', "")
    where = '{{index .data "' + name + '" | base64decode}}'
    return f"kubectl get secret {shlex.quote(secret)} -o go-template={shlex.quote(where)}"


def _unfolded(made: str) -> str:
    """The file as seen from the folder in which the commands run."""
    return made.removeprefix("../")
