"""The client of a registry with Confluent's REST API (Confluent's own, Apicurio's); it uses confluent-kafka's client.

Invariants: an id is unknown only if the registry itself says so. Any other fault (the registry is down or slow, rights
are missing, a proxy answers) is `Unreachable`, which holds the flow and loses nothing. An answer counts until the
registry gives another one, so that records with known ids flow on. Deleted versions still count for their tags.
Questions and answers are about one context, whose subjects have their plain names here. No text of a server is copied
into an error. JSON Schema and Protobuf are refused by name. For one thread.
Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

import contextlib
import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NoReturn, TypeVar
from uuid import UUID

from confluent_kafka.schema_registry import SchemaRegistryError

from aggregator.budgets import SCHEMA_CHARACTERS, SCHEMA_REFERENCES, SUBJECT_VERSIONS
from aggregator.config.contexts import CONTEXT
from aggregator.config.secrets import SecretRef
from aggregator.errors import AggregatorError, ConfigError, DeadLetterError, HoldError, Reason, Unreachable
from aggregator.schema.compatibility import breaking, same_type, standing
from aggregator.schema.connection import RegistryConnection, connect, shown, signs_in_by
from aggregator.schema.contexts import located
from aggregator.schema.entries import (
    SchemaAnswer,
    entry,
    homes,
    identifier,
    ids_by_context,
    is_compatible,
    names,
    numbers,
)
from aggregator.schema.listings import Named
from aggregator.schema.references import self_contained
from aggregator.schema.registry import NO_REQUESTER, Requester, SchemaOrigin, SchemaVersion, TagPaths
from aggregator.schema.remote_registry import AVRO, WAIT_S, FetchedSchema, RemoteRegistry
from aggregator.schema.tokens import TokenRefused
from aggregator.schema.version_order import DELETE_VERSIONS

_NOT_FOUND = 404
_CONFLICT = 409
_UNPROCESSABLE = 422
_DELETED = {"deleted": "true"}
_DENIED = (401, 403)
_NO_SCHEMA = 40403
_ABSENT = (40401, 40402, _NO_SCHEMA)  # subject, version, schema
_MAX_DAMAGED = 2
# Making a client takes time in the thread of the loop.
_RENEW_AGAIN_S = 5.0
T = TypeVar("T")


class ConfluentRegistry(RemoteRegistry):
    """The registry at an address.

    Args:
        address: http(s), without credentials; several of one registry with commas. `/contexts/<name>` may end it.
        options: A block `schemas_client`; references are resolved here.
        wait_s: Longest that a question holds up who asks.

    Raises:
        ConfigError: a secret or a certificate cannot be read.
    """

    def __init__(self, address: str, options: Mapping[str, str | SecretRef], *, wait_s: float = WAIT_S) -> None:
        super().__init__(shown(address), wait_s)
        self._address, self._context = located(address, str(options.get(CONTEXT, "")))
        self._options = options
        self._use(connect(self._address, self._where, self._options))
        self._renew_from_s = 0.0
        self._ids: dict[tuple[str, str], int] = {}
        self._within = threading.local()

    def register(self, subject: str, text: str) -> int:
        """Give the text an id; the registry does so once."""
        return self._id(subject, text, self._registered)

    def register_compatible(self, subject: str, text: str) -> int:
        """Register, after the registry's own compatibility check; which rule holds is set there."""
        return self._id(subject, text, self._admitted)

    def _id(self, subject: str, text: str, way: Callable[[str, str], int]) -> int:
        if (subject, text) not in self._ids:
            self._requester = NO_REQUESTER if way == self._registered else Requester(subject)
            self._ids[subject, text] = self._ask((way.__name__, subject, text), lambda: way(subject, text))
        return self._ids[subject, text]

    # The methods below run as a question, in another thread.

    def _fetch_schema(self, schema_id: int, guid: UUID | None) -> FetchedSchema | None:
        answer = self._of_id(schema_id) if guid is None else self._of_guid(guid)
        if answer is None:
            return None
        found = self._entry(answer)
        return FetchedSchema(AVRO, *self._whole(found)) if found.kind == AVRO else FetchedSchema(_kind(found.kind))

    def _of_id(self, schema_id: int) -> object:
        return self._found(lambda: self._get(f"schemas/ids/{schema_id}", **self._context.query), _NO_SCHEMA)

    def _of_guid(self, guid: UUID) -> object:
        """None also where a registry has no GUIDs at all; that it is one shows in a question that each can answer."""
        try:
            return self._get(f"schemas/guids/{guid}")
        except SchemaRegistryError as error:
            if error.http_status_code != _NOT_FOUND:
                raise
            if error.error_code != _NO_SCHEMA and AVRO not in _of_list(self._get("schemas/types")):
                raise
            return None

    def _fetch_origin(self, schema_id: int) -> SchemaOrigin:
        """Every subject and version that has the schema, those that were deleted among them."""
        guid = self._guids.guid(schema_id)
        ids = [schema_id]
        if guid is not None:
            by_context = ids_by_context(self._get(f"schemas/guids/{guid}/ids"))
            ids = [one for context, one in by_context if self._context.is_called(context)]
        newest: dict[str, int] = {}
        for one in ids:
            newest |= homes(self._list_of(f"schemas/ids/{one}/versions", **_DELETED, **self._context.query))
        versions = {self._context.plain(subject): version for subject, version in newest.items()}
        return SchemaOrigin(versions, self._tags.get(schema_id, ()), str(guid or schema_id))

    def _fetch_history(self, subject: str) -> Mapping[int, SchemaVersion]:
        def asked(number: int) -> SchemaVersion | None:
            one = self._require_version(subject, number)
            is_avro = one.kind == AVRO
            return SchemaVersion(subject, number, one.schema_id, *self._whole(one), one.references) if is_avro else None

        return self._gathered(subject, self._fetch_version_numbers(subject), asked)

    def _fetch_version_numbers(self, subject: str, *, newest: bool = False) -> list[int]:
        there = numbers(self._list_of(f"{self._context.path(subject)}/versions", **_DELETED))
        if len(there) > SUBJECT_VERSIONS.limit and newest:
            return sorted(there)[-SUBJECT_VERSIONS.limit :]
        if len(there) > SUBJECT_VERSIONS.limit:
            raise HoldError(
                f"subject {subject} in {self._where} has more than {SUBJECT_VERSIONS.limit:,} versions",
                hint=DELETE_VERSIONS,
            )
        return there

    def _fetch_version_ids(self, subject: str, number: int) -> Named:
        one = self._require_version(subject, number)
        if not 0 <= one.schema_id < self.ids_end:
            raise ValueError("no id")
        return Named(one.schema_id, UUID(one.guid) if one.guid else None)

    def _require_version(self, subject: str, number: int) -> SchemaAnswer:
        """A version that is listed; without it, what it tags or names would be lost in silence."""
        one = self._fetch_version(subject, number)
        if one is None:
            raise Unreachable(
                f"registry {self._where} lists version {number} of subject {subject} and does not have it",
                hint="see what answers at this address, and whether a proxy keeps old answers",
            )
        return one

    def _fetch_version(self, subject: str, number: int | str, *, deleted: bool = True) -> SchemaAnswer | None:
        """A version may be deleted and still be needed to read what was written under it."""
        answers: dict[tuple[str, int | str, bool], SchemaAnswer | None] = self._within.answers
        if (subject, number, deleted) not in answers:
            answers[subject, number, deleted] = self._retry_damaged(subject, number, deleted=deleted)
        return answers[subject, number, deleted]

    def _retry_damaged(self, subject: str, number: int | str, *, deleted: bool) -> SchemaAnswer | None:
        """A damaged answer among hundreds is asked for again, and the others are not."""
        for _ in range(_MAX_DAMAGED):
            with contextlib.suppress(ValueError):
                return self._request_version(subject, number, deleted=deleted)
        return self._request_version(subject, number, deleted=deleted)

    def _request_version(self, subject: str, number: int | str, *, deleted: bool) -> SchemaAnswer | None:
        query = _DELETED if deleted else {}
        answer = self._found(lambda: self._get(f"{self._context.path(subject)}/versions/{number}", **query))
        if answer is None:
            return None
        found = self._entry(answer)
        if self._context.plain(found.subject) != subject or number not in (found.version, "latest"):
            raise ValueError("an answer about another version")
        return found

    def _entry(self, answer: object) -> SchemaAnswer:
        """The entry that names the subjects of this context plainly."""
        found = entry(answer)
        return replace(found, references=tuple((self._context.referred(name), at) for name, at in found.references))

    def _whole(self, found: SchemaAnswer) -> tuple[str, TagPaths]:
        """A schema's text, and the tags beside it and beside what it refers to."""
        others = list(self._others(found))
        beside = tuple(pair for one in (found, *others) for pair in one.tags)
        return self_contained(found.text, [other.text for other in others]), beside

    def _others(self, found: SchemaAnswer) -> Iterator[SchemaAnswer]:
        """Everything that a schema refers to, directly or not."""
        waiting, seen, room = list(found.references), set[tuple[str, int]](), SCHEMA_CHARACTERS.limit - len(found.text)
        while waiting:
            at = waiting.pop(0)
            if at in seen:
                continue
            seen.add(at)
            if len(seen) > SCHEMA_REFERENCES.limit:
                raise _too_large(f"it refers to more than {SCHEMA_REFERENCES.limit} others")
            other = self._fetch_version(*at)
            if other is None:
                raise Unreachable(
                    f"registry {self._where}: a schema refers to {at[0]} version {at[1]}, which is not there",
                    hint="restore that version; the flow goes on by itself",
                )
            room -= len(other.text)
            if room < 0:
                raise _too_large(f"more than {SCHEMA_CHARACTERS.limit:,} characters, references included")
            yield other
            waiting.extend(other.references)

    def _versions(self, subject: str) -> list[SchemaVersion]:
        there = numbers(self._list_of(f"{self._context.path(subject)}/versions"))
        found = [(number, self._fetch_version(subject, number)) for number in sorted(there)]
        return [
            SchemaVersion(subject, number, one.schema_id, *self._whole(one))
            for number, one in found
            if one is not None and one.kind == AVRO
        ]

    def _fetch_subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """Registries list the subjects of every context; those that do not know a prefix, all of them."""
        query = {
            **(_DELETED if deleted else {}),
            **({"subjectPrefix": self._context.qualified(prefix)} if prefix else {}),
        }
        subjects = map(self._context.plain, names(self._get("subjects", **query)))
        return sorted(name for name in subjects if self._context.holds(name))

    def _list_of(self, path: str, **query: str) -> object:
        """An answer that lists; an empty list where the registry itself says that there is nothing."""
        answer = self._found(partial(self._get, path, **query))
        return [] if answer is None else answer

    def _get(self, path: str, **query: str) -> object:
        """One answer, past the client's memory; one without content, as a gateway gives it, is none."""
        with self._connection.request() as client:
            answer: object = client.get(path, query)
        if answer is None:
            raise ValueError("an answer without content")
        return answer

    def _post(self, path: str, text: str) -> object:
        """The answer to a question about a text, past the client's memory, which keeps a damaged one for ever."""
        with self._connection.request() as client:
            return client.post(path, {"schema": text, "schemaType": AVRO})

    def _admitted(self, subject: str, text: str) -> int:
        path = self._context.path(subject)
        known = self._found(lambda: self._post(path, text))
        if known is not None:
            return identifier(known)
        verdict = self._found(lambda: self._post(f"compatibility/{path}/versions/latest", text))
        if verdict is None or is_compatible(verdict):
            return self._registered(subject, text)
        ids = {one.text: one.schema_id for one in self._versions(subject)}
        newest = next((one for one in reversed(ids) if same_type(text, one)), None)
        before = newest and standing(text, newest, ids)
        if before is None:
            raise self._breaking(subject, text)
        return ids[before]

    def _registered(self, subject: str, text: str) -> int:
        try:
            return identifier(self._post(f"{self._context.path(subject)}/versions", text))
        except SchemaRegistryError as error:
            if error.http_status_code == _CONFLICT:
                raise self._breaking(subject, text) from None
            if error.http_status_code == _UNPROCESSABLE:
                raise HoldError(
                    f"registry {self._where} refuses the schema of subject {subject} ({error.error_code})",
                    hint="see the registry's log, and its rules for this subject",
                ) from None
            raise

    def _breaking(self, subject: str, text: str) -> HoldError:
        newest = self._fetch_version(subject, "latest", deleted=False)
        if newest is None:
            return HoldError(f"registry {self._where} refuses the schema of subject {subject}", hint="see its rules")
        return breaking(subject, newest.version, text, self._whole(newest)[0])

    @staticmethod
    def _found(question: Callable[[], T], *codes: int) -> T | None:
        """None where the registry itself says that there is no such thing; a proxy's 404 is no such word."""
        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and error.error_code in (codes or _ABSENT):
                return None
            raise

    # The methods below ask these questions, in the thread of the loop.

    def _prepare(self) -> None:
        if self._is_denied and time.monotonic() >= self._renew_from_s:  # the secret may have been changed
            self._renew()

    def _give_up(self) -> None:
        if self._connection.exchange.hangs:
            self._connection.close()  # ends the questions that hang
            self._questions, self._lists = self._questions.restarted(), self._lists.restarted()
            self._renew()

    def _renew(self) -> None:
        self._is_denied, self._renew_from_s = True, 0.0  # until there is another client
        try:
            connection = connect(self._address, self._where, self._options)
        except ConfigError as error:
            raise Unreachable(
                f"registry {self._where} needs another client: {error.message}", hint=error.hint
            ) from None
        self._closing.detach()
        self._connection.leave()
        self._use(connection)
        self._renew_from_s = time.monotonic() + _RENEW_AGAIN_S

    def _use(self, connection: RegistryConnection) -> None:
        self._connection, self._is_denied = connection, False
        self._closing = weakref.finalize(self, connection.close)

    @contextlib.contextmanager
    def _boundary(self) -> Iterator[None]:
        """A server's text may quote a schema or a credential. Within a question each version is asked for once."""
        self._within.answers = {}
        try:
            yield
        except TokenRefused:
            self._is_denied = True
            raise
        except AggregatorError:
            raise
        except SchemaRegistryError as error:
            self._raise_refusal(error)
        except json.JSONDecodeError:
            raise Unreachable(
                f"registry {self._where} answers with something that is no JSON, as a login page or a proxy does",
                hint=f"write the address of the registry's API; it answers with a list: curl {self._where}/subjects",
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Unreachable(
                f"registry {self._where} gives an answer that is none of a registry ({type(error).__name__})",
                hint="see what answers at this address, and the registry's log",
            ) from None
        except Exception as error:  # noqa: BLE001 - the client lets its HTTP library's and parser's errors through
            raise Unreachable(
                f"registry {self._where} cannot be reached ({type(error).__name__})",
                hint="check the address, the network and the certificates",
            ) from None

    def _raise_refusal(self, error: SchemaRegistryError) -> NoReturn:
        status = error.http_status_code
        if status in _DENIED:
            self._is_denied = True
            raise Unreachable(
                f"registry {self._where} does not let the hub in ({status})",
                hint=f"check {signs_in_by(self._options)}, and the rights that it gives",
            ) from None
        hint = "is the address a registry's?" if status == _NOT_FOUND else "see the registry's log"
        raise Unreachable(f"registry {self._where} answers with {status}", hint=hint) from None


def _kind(name: str | None) -> str:
    """A schema type's name as the API spells it, and never another text."""
    return name if name in ("JSON", "PROTOBUF") else "unknown"


def _too_large(why: str) -> DeadLetterError:
    return DeadLetterError(Reason.SCHEMA_REFUSED, f"writer schema refused: {why}", hint="register a smaller schema")


def _of_list(answer: object) -> list[object]:
    return answer if isinstance(answer, list) else []
