"""Parses the policy file, which says what happens to data by its place and by the tags of its schema.

Invariants: unknown keys are refused at every level. All faults are reported at once, with their lines, and no fault
quotes a value. The hash depends on the meaning of the file only, not on its order or layout.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from aggregator.config.closed_model import Model
from aggregator.config.document import ConfigFault, Document, Place, read_document, show_place, shown_lines, unknown
from aggregator.config.patterns import full_matches
from aggregator.coordinates import OWN_HEADERS
from aggregator.errors import ConfigError
from aggregator.privacy import operators
from aggregator.privacy.fields import paths
from aggregator.privacy.fields.field_types import worded
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.parameters import each_once
from aggregator.privacy.policy import writable
from aggregator.privacy.policy.conditions import Condition
from aggregator.privacy.policy.rules import AnyRule, Rule, end_of, has_ended, key_name, operator_names
from aggregator.privacy.policy.whole_value import whole_refusal
from aggregator.regular_files import read_text

KeyFormat = Literal["avro", "string", "long", "bytes", "json"]
_KEY_OF_A_TOPIC = 3  # `topics`, its pattern, the key

_OfTag = Annotated[Rule, AfterValidator(writable.of_tag)]
T = TypeVar("T")


def _headers(value: tuple[str, ...]) -> tuple[str, ...]:
    if own := sorted(OWN_HEADERS.intersection(value)):
        raise ValueError(f"{own[0]} is the hub's own header: what an edge writes there never passes")
    return each_once(value)


Reasoned = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(worded)]


class Lift(Model):
    """Tags that earlier versions gave a field, and that do not hold for it: what says so, and who.

    Attributes:
        tags: Their names.
        reason: Why the field is not what they say.
        owner: Who answers for it.
    """

    tags: Annotated[tuple[str, ...], AfterValidator(each_once), Field(min_length=1)]
    reason: Reasoned
    owner: Reasoned


class Reissue(Model):
    """A schema id that means another schema than before, and may.

    Attributes:
        fingerprint: Of what it means now, as the held flow names it.
        reason: Why it does.
    """

    fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    reason: Reasoned


class Loosening(Model):
    """What a version says of itself that a running hub would refuse else: it lets more pass than the one before.

    Attributes:
        version: The one that it loosens.
        reason: Why it may.
        owner: Who answers for it.
    """

    version: Annotated[int, Field(ge=1)]
    reason: Reasoned
    owner: Reasoned


class TopicPolicy(Model):
    """What happens on the topics that one pattern matches.

    Attributes:
        key: Operator of the record key; None drops it.
        headers: Names that pass.
        fields: Path to operator.
        format: How keys are read; None decides per key.
        default: For leaves that neither a tag nor a path names; None leaves it to the policy's.
        value_format: `avro` (the default), `json`: values without a schema, of which only what a path names is left,
            `text` or `bytes`: values without parts.
        value: Operator of a whole value, where it has no parts; None drops it.
        drop_record: Conditions; a record that meets any of them is left out, and counted.
        subjects: Pattern of further subjects whose schemas records may have, to the reason.
        lifts: Path to the tags that it inherits from earlier versions, and that do not hold.
        reissued: `value/<id>` or `key/<id>` to what the id means since its registry was rebuilt.
    """

    key: Annotated[Rule, AfterValidator(writable.of_key)] | None = None
    headers: Annotated[tuple[str, ...], AfterValidator(_headers)] = ()
    fields: dict[Annotated[str, AfterValidator(writable.path)], Rule] = Field(default_factory=dict)
    format: KeyFormat | None = None
    default: Annotated[Rule, AfterValidator(writable.topic_default)] | None = None
    value_format: ValueFormat | None = None
    value: Annotated[Rule, AfterValidator(writable.of_value)] | None = None
    drop_record: tuple[Condition, ...] = ()
    subjects: dict[Annotated[str, AfterValidator(writable.pattern)], Reasoned] = Field(default_factory=dict)
    lifts: dict[Annotated[str, AfterValidator(writable.liftable)], Lift] = Field(default_factory=dict)
    reissued: dict[Annotated[str, StringConstraints(pattern=r"^(key|value)/[0-9a-f-]{1,36}$")], Reissue] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _names_are_written(self) -> Self:
        """Without a schema nobody knows which names are data: what passes is written out, or opened as a whole."""
        if self.value is not None and (why := whole_refusal(self.value_format, self.value)):
            raise ValueError(why)
        if self.value_format is None or self.value_format.has_schema:
            return self
        if isinstance(self.default, Keep):
            by = "by paths" if self.value_format.has_fields else "by `value`"
            raise ValueError(f"{self.value_format.spoken} has no schema: open it {by}, not by `default: keep`")  # noqa: TRY004 - pydantic's way
        if self.fields and not self.value_format.has_fields:
            raise ValueError(f"{self.value_format.spoken} has no fields: say under `value` what becomes of all of it")
        for path, rule in self.fields.items():
            if paths.steps(path)[-1] in (paths.ANY, paths.ANY_DEPTH) and not isinstance(rule, Keep | Drop):
                raise ValueError(
                    f"JSON has no schema: a path that ends in a wildcard takes `keep` or `drop`, not {rule.operator}, "
                    "because the names of its fields would pass in clear; write them out, or use `{key}` and `{}`"
                )
        return self

    @field_validator("headers", "fields", "drop_record", "subjects", "lifts", "reissued", mode="before")
    @classmethod
    def _nothing_written(cls, value: Any, info: ValidationInfo) -> Any:
        empty: Any = () if info.field_name in ("headers", "drop_record") else {}
        return empty if value is None else value


class TopicView(Model):
    """Everything that a policy says about one edge topic: what rivals for a place is listed, one rule of each pattern.

    The day decides between rivals, since one that has ended still closes its place.
    """

    keys: tuple[Rule, ...]
    headers: tuple[str, ...]
    fields: tuple[tuple[str, Rule], ...]
    format: KeyFormat | None
    defaults: tuple[Rule, ...]
    value_format: ValueFormat
    values: tuple[Rule, ...]
    drop_record: tuple[Condition, ...]
    subjects: tuple[tuple[str, ...], ...] = ()
    lifts: tuple[tuple[str, frozenset[str]], ...] = ()
    reissued: tuple[tuple[str, str], ...] = ()

    def opens(self, subject: str) -> bool:
        """Whether records of the topic may have schemas of this further subject: all patterns that match it say so."""
        return bool(self.subjects) and all(
            any(full_matches(pattern, [subject])[0] for pattern in patterns) for patterns in self.subjects
        )


# Keys of a topic that the policy's hash leaves out where they are empty.
_LATER = ("subjects", "lifts", "reissued", "value")


def _lifted(found: Sequence[TopicPolicy]) -> tuple[tuple[str, frozenset[str]], ...]:
    """What all patterns lift that match a topic."""
    said = {(path, tag) for item in found for path, lift in item.lifts.items() for tag in lift.tags}
    shared: dict[str, set[str]] = {}
    for path, tag in sorted(said):
        if all(path in item.lifts and tag in item.lifts[path].tags for item in found):
            shared.setdefault(path, set()).add(tag)
    return tuple((path, frozenset(tags)) for path, tags in shared.items())


def _fingerprints(item: TopicPolicy) -> dict[str, str]:
    return {name: reissue.fingerprint for name, reissue in item.reissued.items()}


class Policy(Model):
    """One version of one policy; frozen, and safe to ship: keys are names in it."""

    policy: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    version: Annotated[int, Field(ge=1)]
    loosens: Loosening | None = None
    default: Annotated[Rule, AfterValidator(writable.closing)] = Drop()
    tags: dict[Annotated[str, StringConstraints(min_length=1)], _OfTag] = Field(default_factory=dict)
    topics: dict[Annotated[str, AfterValidator(writable.pattern)], TopicPolicy] = Field(default_factory=dict)

    @field_validator("tags", "topics", mode="before")
    @classmethod
    def _nothing_written(cls, value: Any) -> Any:
        return {} if value is None else value

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        meaning = self.model_dump(mode="json", exclude={"loosens"})  # about the way here, not about what happens
        for topic in meaning["topics"].values():
            for name in _LATER:
                if not topic[name]:  # a policy that says nothing of it has the hash that it always had
                    del topic[name]
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.hash)

    def view(self, topic: str) -> TopicView:
        """What holds for one edge topic, by all patterns that match it.

        Raises:
            ConfigError: patterns that both match name different key formats.
        """
        known = self._views.get(topic)
        if known is None:
            known = self._views[topic] = self._view(topic)
        return known

    @cached_property
    def _views(self) -> dict[str, TopicView]:
        return {}

    def _view(self, topic: str) -> TopicView:
        found = [self.topics[pattern] for pattern in sorted(self.topics) if full_matches(pattern, [topic])[0]]
        key_formats: list[KeyFormat | None] = [item.format for item in found]
        value_formats: list[ValueFormat | None] = [item.value_format for item in found]
        headers = set.intersection(*(set(item.headers) for item in found)) if found else set()
        form = self._one(topic, "value formats", "value_format", value_formats) or ValueFormat.AVRO
        conditions = [condition for item in found for condition in item.drop_record]
        if not form.has_fields and any(path for condition in conditions for path in condition.fields()):
            raise ConfigError(
                f"policy {self.policy} has a condition on a field for topic {topic}, whose values are {form.spoken}",
                hint="a condition there is about the edge, the topic or a header",
            )
        whole = tuple(item.value or Drop() for item in found if item.value_format is not None and not form.has_fields)
        return TopicView(
            keys=tuple(item.key or Drop() for item in found) or (Drop(),),
            headers=tuple(sorted(headers)),
            fields=tuple((path, rule) for item in found for path, rule in sorted(item.fields.items())),
            format=self._one(topic, "key formats", "format", key_formats),
            defaults=tuple(item.default or self.default for item in found) or (self.default,),
            value_format=form,
            values=whole or (Drop(),),
            drop_record=tuple(conditions),
            subjects=tuple(tuple(sorted(item.subjects)) for item in found),
            lifts=_lifted(found),
            reissued=tuple(pair for item in found for pair in sorted(_fingerprints(item).items())),
        )

    def _one(self, topic: str, what: str, name: str, said: Collection[T | None]) -> T | None:
        formats = {form for form in said if form is not None}
        if len(formats) > 1:
            raise ConfigError(
                f"policy {self.policy} names two {what} for topic {topic}: {', '.join(sorted(map(str, formats)))}",
                hint=f"leave `{name}` in one of the patterns that match it",
            )
        return formats.pop() if formats else None

    def keys(self) -> frozenset[str]:
        """Names of the keys that some rule uses; the hub's configuration must have them all."""
        return frozenset(name for _, rule in self._placed() if (name := key_name(rule)))

    def sealing(self) -> frozenset[str]:
        """Names of the keys that random nonces wear out, those of `encrypt`."""
        return frozenset(key_name(rule) for _, rule in self._placed() if rule.operator in operators.GCM_OPERATORS)

    def ended(self, today: date) -> Iterator[str]:
        """Places of the file whose rules have ended, each with its day: what they name is closed."""
        for place, rule in self._placed():
            if has_ended(rule, today):
                yield f"{place}: {rule.operator} ended on {end_of(rule)}"

    def _placed(self) -> Iterator[tuple[str, AnyRule]]:
        yield from ((f"tags.{tag}", rule) for tag, rule in self.tags.items())
        for pattern, topic in self.topics.items():
            whole = {"key": topic.key, "value": topic.value, "default": topic.default}
            named = {name: rule for name, rule in whole.items() if rule is not None}
            named |= {f"fields.{path}": rule for path, rule in topic.fields.items()}
            yield from ((f'topics."{pattern}".{name}', rule) for name, rule in named.items())


def load_policy(path: Path) -> Policy:
    """Load a policy from its file.

    Raises:
        ConfigError: every fault, each with file and line.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", hint="name a readable policy file under `policy:`") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8", hint="save the file as UTF-8") from None
    return parse_policy(text, str(path))


def parse_policy(text: str, name: str = "policy") -> Policy:
    """Read a policy's text; `name` stands for the file in errors.

    Raises:
        ConfigError: every fault, each with line.
    """
    document = read_document(text)
    faults = list(document.faults)
    policy = None
    if not faults or document.data is not None:
        try:
            policy = Policy.model_validate(document.data)
        except ValidationError as error:
            faults += _faults(error, document)
    if policy is None or faults:
        lines = sorted({(fault.line or document.line(fault.place), _fault_text(fault)) for fault in faults})
        told = shown_lines(name, [f"{name}:{line}: {sentence}" for line, sentence in lines])
        raise ConfigError(told, hint="correct the lines named above")
    return policy


def _fault_text(fault: ConfigFault) -> str:
    return f"{show_place(fault.place)}: {fault.message}"


def _faults(error: ValidationError, document: Document) -> Iterator[ConfigFault]:
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        place = _written(item["loc"], document)
        message = item["msg"].removeprefix("Value error, ")
        yield ConfigFault(place, _unknown(place) if item["type"] == "extra_forbidden" else message)


def _unknown(place: Place) -> str:
    if len(place) == 1:
        return unknown(str(place[0]), Policy.model_fields)
    if place[0] == "topics" and len(place) == _KEY_OF_A_TOPIC:
        return unknown(str(place[-1]), TopicPolicy.model_fields)
    return "is no key that a policy has here"


def _written(place: tuple[int | str, ...], document: Document) -> Place:
    """The place as the file has it: pydantic adds steps of its own for unions and map keys."""
    found: Place = ()
    for step in place:
        if (*found, step) in document.lines:
            found = (*found, step)
        elif step not in ("[key]", *operator_names()) and not isinstance(step, int):
            return (*found, step) if _is_mapping(found, document.data) else found
    return found


def _is_mapping(place: Place, data: Any) -> bool:
    for step in place:
        data = data[step]
    return isinstance(data, Mapping)
