"""Runs the fixtures of a policy: files with records and their expected results, which pass through the real strip.

    policy: retail.yaml            # or what the file's name says: retail.tests.yaml, retail.tests/*.yaml
    today: 2026-11-21              # decides which `keep` has expired
    keys: {customer: <base64>}     # for these tests only
    tests:
      - {name: an order, topic: orders, schema: orders.avsc, key: C-1, headers: {traceparent: 00-1}, record: {…},
         expect: {key: v1_…, headers: {…}, record: {…}}}
      - {name: no consent, topic: orders, schema: orders.avsc, record: {…}, expect: {suppressed: true}}

Invariant: a fixture reads no key of the hub and asks no registry. A fault is reported with its line and without a
value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from aggregator.config.closed_model import Model
from aggregator.config.document import Document, read_document, show_place
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.errors import ConfigError, DeadLetterError
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.factory import topic_strip
from aggregator.privacy.policy.file import Policy, load_policy
from aggregator.privacy.review.fixture_expectations import Expectation, HeaderTexts, Mismatch, mismatches
from aggregator.regular_files import read_text
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.plain_json import Misfit, encoded
from aggregator.schema.wire import frame

_SUFFIX = ".tests"


@dataclass(frozen=True, slots=True)
class WrittenKey(SecretRef):
    """A key that protects nothing: of a fixture, or drawn for one call. Its text form does not show it."""

    def __str__(self) -> str:
        return "a key written out"

    def resolve(self, environ: Mapping[str, str] | None = None) -> str:
        """The key itself, which is no secret."""
        del environ
        return self.target


def written_ring(versions: Mapping[int, str]) -> KeyRing:
    """A ring of written keys, base64 by version; the highest version is the current one."""
    return KeyRing(max(versions), tuple((one, WrittenKey("written", key)) for one, key in sorted(versions.items())))


def _ring(value: Any) -> Any:
    versions = value if isinstance(value, dict) else {"1": value}
    if not versions or not all(isinstance(key, str) and str(number).isdecimal() for number, key in versions.items()):
        raise ValueError("a key is base64, or versions of it by number")
    return written_ring({int(number): key for number, key in versions.items()})


class Case(Model):
    """One record and its expectation; `record` left out is a tombstone, and without `schema` it is the value's text."""

    name: Annotated[str, Field(min_length=1)]
    topic: Annotated[str, Field(min_length=1)]
    edge: str | None = None
    schema_file: Annotated[Path | None, Field(alias="schema")] = None
    key: str | None = None
    headers: HeaderTexts
    record: Any = None
    expect: Expectation


class _File(Model, arbitrary_types_allowed=True):
    policy: Path | None = None
    today: date
    keys: dict[str, Annotated[KeyRing, BeforeValidator(_ring)]] = Field(default_factory=dict)
    tests: Annotated[tuple[Case, ...], Field(min_length=1)]


class Fixtures:
    """Runs the fixtures of one file.

    Args:
        path: The path of the file.
        policy: The policy to test, when another than the one that the file names.

    Raises:
        ConfigError: every fault of the file, with its line.
    """

    def __init__(self, path: Path, policy: Path | None = None) -> None:
        self.path = path
        self._document = read_document(_text(path))
        self._file = self._checked()
        self.policy_path = policy or path.parent / (self._file.policy or policy_name(path))
        self.cases = self._file.tests

    @cached_property
    def policy(self) -> Policy:
        """The policy that is tested."""
        return load_policy(self.policy_path)

    def run(self, number: int) -> list[Mismatch]:
        """Strip one case's record and compare.

        Raises:
            ConfigError: its schema cannot be read, its record does not fit, or a key is missing.
        """
        case = self.cases[number]
        missing = sorted(self.policy.keys() - self._file.keys.keys())
        if missing:
            raise self._fault(("keys",), f"the policy uses key {missing[0]}, which is not here")
        central = MemoryRegistry()
        edge = MemoryRegistry()
        strip = topic_strip(
            policy=self.policy,
            edge_topic=case.topic,
            central_topic=case.topic,
            edge_registry=edge,
            central_registry=central,
            key_rings=self._file.keys,
            today=lambda: self._file.today,
            now_s=lambda: 0.0,  # nothing is waited for: both registries are in memory
            edge=case.edge,
        )
        value = None if case.record is None else self._value(case, number, edge)
        key = None if case.key is None else case.key.encode()
        headers = [(name, text.encode()) for name, text in case.headers.items()]
        stripped = strip.strip(Batch([key], [value], [headers]))
        try:
            return list(mismatches(case.expect, stripped, central, self.policy.view(case.topic).value_format))
        except (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError) as error:
            raise self._fault(
                ("tests", number, "record"), f"what is left of it cannot be shown ({type(error).__name__})"
            ) from None

    def _value(self, case: Case, number: int, edge: MemoryRegistry) -> bytes:
        place = ("tests", number, "record")
        if case.schema_file is None:
            if not isinstance(case.record, str):
                raise self._fault(
                    place[:2], "a record needs `schema`, unless it is written as one text, as the value is"
                )
            return case.record.encode()
        try:
            schema = read_text(self.path.parent / case.schema_file)
            return frame(edge.register(f"{case.topic}-value", schema), encoded(schema, case.record))
        except (OSError, UnicodeDecodeError):
            raise self._fault((*place[:2], "schema"), "cannot be read") from None
        except DeadLetterError as error:
            raise self._fault((*place[:2], "schema"), error.message) from None
        except Misfit as misfit:
            raise self._fault(place, str(misfit)) from None

    def _checked(self) -> _File:
        if self._document.faults:
            raise _error(self.path, self._document, [(one.place, one.message) for one in self._document.faults])
        try:
            return _File.model_validate(self._document.data)
        except ValidationError as error:
            faults = [
                (_place(item["loc"], self._document), item["msg"].removeprefix("Value error, "))
                for item in error.errors(include_url=False, include_context=False, include_input=False)
            ]
            raise _error(self.path, self._document, faults) from None

    def _fault(self, place: tuple[str | int, ...], message: str) -> ConfigError:
        return _error(self.path, self._document, [(place, message)])


def policy_name(path: Path) -> Path:
    """The policy that a fixture file's name speaks of, relative to its folder.

    Raises:
        ConfigError: the name speaks of none.
    """
    if path.stem.endswith(_SUFFIX):
        return Path(f"{path.stem.removesuffix(_SUFFIX)}{path.suffix}")
    if path.parent.name.endswith(_SUFFIX):
        return Path("..") / f"{path.parent.name.removesuffix(_SUFFIX)}{path.suffix}"
    raise ConfigError(
        f"{path}:1: the file does not say which policy it tests", hint="write `policy: <file>` at its top"
    )


def fixture_files(policy: Path) -> list[Path]:
    """The fixture files beside a policy: `<name>.tests.yaml` and `<name>.tests/*.yaml`."""
    beside = policy.with_name(f"{policy.stem}{_SUFFIX}{policy.suffix}")
    inside = sorted(policy.with_name(f"{policy.stem}{_SUFFIX}").glob(f"*{policy.suffix}"))
    return [*([beside] if beside.exists() else []), *inside]


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", hint="name a readable fixture file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8", hint="save the file as UTF-8") from None


def _place(loc: tuple[str | int, ...], document: Document) -> tuple[str | int, ...]:
    """As much of a fault's place as is written, and the name of what is missing."""
    place: tuple[str | int, ...] = ()
    for step in loc:
        place = (*place, step)
        if place not in document.lines:
            break
    return place


def _error(path: Path, document: Document, faults: list[tuple[tuple[str | int, ...], str]]) -> ConfigError:
    lines = sorted({(document.line(place), f"{show_place(place)}: {message}") for place, message in faults})
    return ConfigError([f"{path}:{line}: {text}" for line, text in lines], hint="correct the lines named above")
