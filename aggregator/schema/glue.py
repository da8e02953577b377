"""Reads a schema registry of AWS Glue through boto3: it finds schema versions by the UUIDs that records carry.

Invariants: the registry is only read, and nothing is ever registered there. A version of another registry than the
configured one is unknown. Addresses come from AWS's own rules, never from the environment or a profile. No text of AWS
is copied into an error. A schema `orders` stands for the subjects `orders-value` and `orders-key`, because AWS's
serialisers name a schema after its topic.
Source: https://docs.aws.amazon.com/glue/latest/dg/schema-registry.html
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from aggregator.budgets import SUBJECT_VERSIONS
from aggregator.config.glue import PROFILE, glue_place
from aggregator.config.secrets import SecretRef
from aggregator.errors import AggregatorError, ConfigError, HoldError, Unreachable
from aggregator.schema.listings import Named
from aggregator.schema.registry import SchemaOrigin, SchemaVersion
from aggregator.schema.remote_registry import AVRO, WAIT_S, FetchedSchema, RemoteRegistry
from aggregator.schema.wire import Framing

_TIMEOUT_S = 5.0
_PARTS = ("-value", "-key")
_KINDS = ("JSON", "PROTOBUF")


class GlueRegistry(RemoteRegistry):
    """Reads a schema registry of AWS Glue.

    Args:
        reference: `glue:<region>/<registry>`.
        options: A block `schemas_client`.
        wait_s: Longest that a question holds up who asks.

    Raises:
        ConfigError: boto3 is not installed, or has no such region or profile.
    """

    framing = Framing.GLUE

    def __init__(self, reference: str, options: Mapping[str, str | SecretRef], *, wait_s: float = WAIT_S) -> None:
        super().__init__(reference, wait_s)
        region, self._name = glue_place(reference)
        self._client = _client(reference, region, options.get(PROFILE))

    def register(self, subject: str, text: str) -> int:
        """Refuse as `register_compatible` does."""
        return self.register_compatible(subject, text)

    def register_compatible(self, subject: str, text: str) -> int:
        """Refused; central's records are in Confluent's wire format."""
        del text
        raise HoldError(
            f"subject {subject} cannot be registered at {self._where}, which is only read",
            hint="name a registry with Confluent's REST API, or a directory, under `schemas`",
        )

    # All methods below run as a question, in another thread.

    def _fetch_schema(self, schema_id: int, guid: UUID | None) -> FetchedSchema | None:
        del schema_id
        found = None if guid is None else self._found(SchemaVersionId=str(guid))
        if found is None or self._schema_of(found) is None:
            return None
        kind = str(found.get("DataFormat"))
        if kind != AVRO:
            return FetchedSchema(kind if kind in _KINDS else "unknown")
        return FetchedSchema(AVRO, _text(found))

    def _fetch_origin(self, schema_id: int) -> SchemaOrigin:
        guid = self._guids.guid(schema_id)
        found = None if guid is None else self._found(SchemaVersionId=str(guid))
        name = None if found is None else self._schema_of(found)
        if found is None or name is None:
            return SchemaOrigin({}, (), str(guid or schema_id))
        return SchemaOrigin(dict.fromkeys(_subjects(name), _number(found)), (), str(guid))

    def _fetch_history(self, subject: str) -> Mapping[int, SchemaVersion]:
        return self._gathered(subject, self._fetch_version_numbers(subject), lambda at: self._registered(subject, at))

    def _versions(self, subject: str) -> list[SchemaVersion]:
        """Version by version: deleted ones are gone."""
        return [
            one for at in self._fetch_version_numbers(subject) if (one := self._registered(subject, at)) is not None
        ]

    def _registered(self, subject: str, at: int) -> SchemaVersion | None:
        one = self._fetch_version(subject, at)
        if one is None or one.get("DataFormat") != AVRO:
            return None
        return SchemaVersion(subject, at, self._guids.number(_guid(one), self._texts), _text(one))

    def _fetch_version_numbers(self, subject: str, *, newest: bool = False) -> list[int]:
        name = _schema(subject)
        found = None if name is None else self._asked(self._client.get_schema, SchemaId=self._of(name))
        if found is None:
            return []
        count = _integer(found.get("LatestSchemaVersion"))
        if newest:
            return list(range(max(1, count + 1 - SUBJECT_VERSIONS.limit), count + 1))
        if count > SUBJECT_VERSIONS.limit:
            raise HoldError(
                f"schema {name} in {self._where} has more than {SUBJECT_VERSIONS.limit:,} versions",
                hint="let the topic's records name a schema of fewer versions",
            )
        return list(range(1, count + 1))

    def _fetch_version_ids(self, subject: str, number: int) -> Named | None:
        """Versions that were deleted leave their numbers behind, and no record that names them can be read."""
        one = self._fetch_version(subject, number)
        return None if one is None else Named(None, _guid(one))

    def _fetch_version(self, subject: str, number: int) -> Mapping[str, Any] | None:
        name = _schema(subject)
        at = {"VersionNumber": number}
        return None if name is None else self._found(SchemaId=self._of(name), SchemaVersionNumber=at)

    def _fetch_subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        del prefix, deleted  # AWS has no prefix, and those are gone
        pages = self._client.get_paginator("list_schemas").paginate(RegistryId={"RegistryName": self._name})
        names = (str(one["SchemaName"]) for page in pages for one in page["Schemas"])
        return sorted({subject for name in names for subject in _subjects(name)})

    def _of(self, name: str) -> Mapping[str, str]:
        return {"RegistryName": self._name, "SchemaName": name}

    def _found(self, **which: object) -> Mapping[str, Any] | None:
        found = self._asked(self._client.get_schema_version, **which)
        return found if found is not None and found.get("Status", "AVAILABLE") == "AVAILABLE" else None

    def _asked(self, question: Any, **which: object) -> Mapping[str, Any] | None:
        """None where Glue itself says that there is no such thing."""
        try:
            answer: Mapping[str, Any] = question(**which)
        except self._client.exceptions.EntityNotFoundException:
            return None
        return answer

    def _schema_of(self, found: Mapping[str, Any]) -> str | None:
        """The name of a version's schema; None where it is another registry's."""
        place = str(found.get("SchemaArn")).rpartition(":schema/")[2]
        registry, _, name = place.partition("/")
        return name if registry == self._name and name else None

    @contextlib.contextmanager
    def _boundary(self) -> Iterator[None]:
        try:
            yield
        except AggregatorError:
            raise
        except Exception as error:  # noqa: BLE001 - boto3 makes its errors at run time, and lets its HTTP library's through
            code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
            said = code if isinstance(code, str) and code.isascii() and code.isalnum() else type(error).__name__
            raise Unreachable(
                f"registry {self._where} gives no answer ({said})",
                hint="check the region, the network, and that the AWS identity may call glue:GetSchemaVersion, "
                "glue:GetSchema and glue:ListSchemas",
            ) from None


def _client(reference: str, region: str, profile: object) -> Any:
    try:
        import boto3  # noqa: PLC0415 - an extra
        from botocore.config import Config  # noqa: PLC0415 - as above
    except ImportError:
        raise ConfigError(
            f"registry {reference}: boto3 is not installed", hint="pip install 'aggregator[glue]', on executors too"
        ) from None
    try:
        session = boto3.Session(region_name=region, profile_name=profile)
        bounds = {"connect_timeout": _TIMEOUT_S, "read_timeout": _TIMEOUT_S, "retries": {"max_attempts": 1}}
        return session.client("glue", config=Config(ignore_configured_endpoint_urls=True, **bounds))
    except Exception as error:  # noqa: BLE001 - as above; a profile's text may be quoted
        raise ConfigError(
            f"registry {reference}: its client cannot be set up ({type(error).__name__})",
            hint=f"check the region, and `{PROFILE}` under `schemas_client`",
        ) from None


def _subjects(name: str) -> tuple[str, ...]:
    return tuple(f"{name}{part}" for part in _PARTS)


def _schema(subject: str) -> str | None:
    """What a subject's schema is called; None: no schema has such a subject."""
    part = next((one for one in _PARTS if subject.endswith(one)), None)
    return subject.removesuffix(part) if part else None


def _text(found: Mapping[str, Any]) -> str:
    text = found.get("SchemaDefinition")
    if not isinstance(text, str):
        raise ValueError("no definition")  # noqa: TRY004 - of an answer, and not of an argument
    return text


def _guid(found: Mapping[str, Any]) -> UUID:
    return UUID(str(found.get("SchemaVersionId")))


def _number(found: Mapping[str, Any]) -> int:
    return _integer(found.get("VersionNumber"))


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError("no number")  # noqa: TRY004 - as above
    return value
