"""Suggests rules for a policy: fields of a sample that look like personal data, by their content and their names.

Invariants: a suggestion holds paths, shares and rules, never a value. Free text that holds an address among other words
is redacted as a whole. Fields about which nothing is known are left out, because a policy drops them anyway. Names of
JSON objects and of headers are shown if they are words that most records have. A sample proves presence, never absence.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aggregator.config.patterns import literal
from aggregator.escapes import quoted, visible
from aggregator.privacy.fields import paths
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.json.sampled import parts
from aggregator.privacy.json.text import Json
from aggregator.privacy.operators import detectors
from aggregator.privacy.review.places import places
from aggregator.schema.avro import Kind, Node, Schema, parse

_DETECTORS: Mapping[str, Callable[[str], Iterable[detectors.Span]]] = {
    "email": detectors.emails,
    "iban": detectors.ibans,
    "card": detectors.cards,
    "ip": detectors.ips,
    "jwt": detectors.jwts,
    "phone": detectors.phones,
}
# A detector decides a field's kind if it finds something in most values, and its finds cover nearly all of each value.
_MOST = 0.8
_LONGEST = 4096
# Groups of digits that are not phone numbers: a uuid, and a date with its time.
_UUID = re.compile(r"(?<![\w-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])")
_DATE = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?!\d)")
KEY, HEADERS, VALUE, FIELD = "key", "header", "value", "field"
_TEXTUAL = (Kind.STRING, Kind.INT, Kind.LONG)
# Words in the names of fields, in the order in which they are tried.
_NAMES: tuple[tuple[str, str], ...] = (
    ("email", r"e?mails?"),
    ("phone", r"phones?|mobile|msisdn|telephone|tel|fax|cellphone"),
    ("iban", r"iban"),
    ("card", r"pan|card|cards|cardnumber|creditcard"),
    ("ip", r"ip|ipv|ipaddr|ipaddress|remoteaddr|clientaddr"),
    ("secret", r"password|passwd|pwd|secret|token|jwt|session|cookie|apikey"),
    ("id", r"ssn|nin|passport|licence|license|taxid|vat|bsn|pesel|cpf|customer|user|person|patient|member|account"),
    ("id", r"imei|imsi|iccid"),
    ("birth", r"birth|birthday|birthdate|dob|born"),
    ("sensitive", r"gender|sex|ethnicity|religion|nationality|maritalstatus|salary|diagnosis"),
    ("name", r"firstname|lastname|surname|fullname|username|givenname|familyname|forename|nickname"),
    ("address", r"address|street|zip|zipcode|postcode|postal|city"),
    ("place", r"lat|lon|lng|latitude|longitude|geo|location|gps"),
    ("text", r"comment|comments|note|notes|message|description|remark|remarks|feedback|text|body"),
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAMES_OF_PEOPLE = re.compile(r"(first|last|full|given|family|middle|sur|nick|maiden|user|customer|passenger)_name")


class Template(NamedTuple):
    """What is suggested for one kind of data."""

    tag: str
    rule: str


_TEMPLATES: Mapping[str, Template] = {
    "email": Template("PII.EMAIL", "{{pseudonymize: {{key: {key}, domain: email, normalize: email}}}}"),
    "phone": Template("PII.PHONE", "{{pseudonymize: {{key: {key}, domain: phone, normalize: e164}}}}"),
    "iban": Template("PII.BANK", "drop"),
    "card": Template("PII.CARD", "drop"),
    "ip": Template("PII.IP", "mask_ip"),
    "jwt": Template("PII.SECRET", "drop"),
    "secret": Template("PII.SECRET", "drop"),
    "id": Template("PII.ID", "{{pseudonymize: {{key: {key}, domain: {key}}}}}"),
    "birth": Template("PII", "drop"),
    "sensitive": Template("PII", "drop"),
    "name": Template("PII", "drop"),
    "address": Template("PII", "drop"),
    "place": Template("PII", "drop"),
    "text": Template("PII.TEXT", "redact"),
    "uuid": Template("PII.ID", "{{pseudonymize: {{key: {key}, domain: {key}, encode: uuid}}}}"),
}
# What is suggested for numbers, where the rule above takes text alone.
_OF_NUMBERS: Mapping[str, str] = {"ip": "drop"}
# Suggestions for record keys, which accept tokens only, and for headers, which either pass or are dropped.
_OF_KEYS = "{{pseudonymize: {{key: {key}, domain: {domain}}}}}"
_DOMAINS: Mapping[str, str] = {"email": "email", "phone": "phone"}


class Suggestion(NamedTuple):
    """One path that looks like personal data.

    Attributes:
        path: Where it lies.
        values: Values looked at, without nulls.
        shares: Detector to the share of values in which it found something.
        by_name: What its name says it is, or empty.
        tag: Suggested tag for the schema.
        rule: Suggested rule, as YAML.
        place: What it is about: a field, a whole value, the record key, or a header.
    """

    path: str
    values: int
    shares: Mapping[str, float]
    by_name: str
    tag: str
    rule: str
    place: str = FIELD


@dataclass(slots=True)
class _Seen:
    can_be_text: bool = False
    values: int = 0
    texts: int = 0
    found: Counter[str] = field(default_factory=Counter)
    whole: Counter[str] = field(default_factory=Counter)
    uuids: int = 0
    whole_uuids: int = 0


def suggestions(text: str, records: Iterable[Any], *, key: str = "customer") -> list[Suggestion]:
    """Suggestions for the fields of a sample.

    Args:
        text: The text of the writers' schema.
        records: Values as plain JSON, as `schema.plain_json.decoded` gives them.
        key: Name of the key in suggested rules.

    Raises:
        DeadLetterError: the text is no Avro schema, or means more places than a schema may.
    """
    schema = parse(text)
    seen: dict[str, _Seen] = defaultdict(_Seen)
    for path, is_text in _declared(schema):
        seen[path].can_be_text |= is_text
    read = _Reading(schema)
    for record in records:
        for path, value in read.values(schema.root, record, ""):
            _look(seen[path], value)
    found = (_suggestion(path, one, key) for path, one in seen.items())
    return [one for one in found if one is not None]


def json_suggestions(records: Sequence[Json], *, key: str = "customer", place: str = FIELD) -> list[Suggestion]:
    """Look at a sample of JSON values, or of headers as objects.

    Args:
        records: Values.
        key: Name of the key in suggested rules.
        place: What they are.
    """
    found = []
    for part in parts(records):
        one = _suggestion(part.path, _seen(part.values), key)
        if one is not None and place == HEADERS:
            one = one._replace(rule="drop", place=place)
        found += [one] if one is not None else []
    return found


def whole_suggestion(values: Sequence[str | int], *, key: str = "customer", place: str = VALUE) -> Suggestion | None:
    """Look at a sample of values without parts, or of record keys.

    Args:
        values: Those that can be read; of a key with parts, the parts of all of them.
        key: Name of the key in suggested rules.
        place: What they are.
    """
    seen = _seen(values)
    one = _suggestion("", seen, key)
    if one is None or place == VALUE:
        return one and one._replace(place=place)
    domain = _DOMAINS.get(_kind(seen), key)
    return one._replace(rule=_OF_KEYS.format(key=key, domain=domain), place=place)


def _seen(values: Iterable[str | int | float | bool]) -> _Seen:
    seen = _Seen()
    for value in values:
        if isinstance(value, str) or type(value) is int:
            _look(seen, value)
    return seen


def _look(seen: _Seen, value: str | int) -> None:
    text = str(value)[:_LONGEST]
    seen.values += 1
    seen.texts += isinstance(value, str)
    seen.can_be_text |= isinstance(value, str)
    signs = len(text.strip()) or 1
    uuids = [one.span() for one in _UUID.finditer(text)]
    if uuids:
        seen.uuids += 1
        seen.whole_uuids += sum(end - start for start, end in uuids) >= _MOST * signs
    text = _DATE.sub(detectors.blank, _UUID.sub(detectors.blank, text))
    for name, detect in _DETECTORS.items():
        spans = list(detect(text))
        if spans:
            seen.found[name] += 1
            seen.whole[name] += sum(end - start for start, end in spans) >= _MOST * signs


def _suggestion(path: str, seen: _Seen, key: str) -> Suggestion | None:
    by_name = named(path)
    kind = _kind(seen) or by_name
    if kind == "uuid" and by_name not in ("", "id"):
        kind = by_name
    if kind == "phone" and by_name:  # the weakest detector: a passport's digits look like a phone number
        kind = by_name
    if not kind:
        return None
    shares = {name: seen.found[name] / seen.values for name in _DETECTORS if seen.found[name]}
    if seen.uuids:
        shares["uuid"] = seen.uuids / seen.values
    template = _TEMPLATES[kind]
    rule = template.rule if seen.can_be_text else _OF_NUMBERS.get(kind, template.rule)
    return Suggestion(path, seen.values, shares, by_name, template.tag, rule.format(key=key))


def _kind(seen: _Seen) -> str:
    """The kind of most values as a whole, or `text` for text in which something was found."""
    for name in _DETECTORS:
        if seen.values and seen.whole[name] >= _MOST * seen.values and (name != "phone" or seen.texts):
            return name
    if seen.whole_uuids and seen.whole_uuids >= _MOST * seen.values:
        return "uuid"
    return "text" if seen.found and seen.texts else ""  # any number may look like a card number


def named(path: str) -> str:
    """The kind that a path's last name suggests, or an empty text."""
    last = re.sub(r"\[\]|\.\{\}|\.\{key\}", "", path).rpartition(".")[2]
    words = [word.casefold() for word in _WORD.findall(last)]
    if _NAMES_OF_PEOPLE.search("_".join(words)):
        return "name"
    candidates = [*words, "".join(words)]
    return next((kind for kind, names in _NAMES if any(re.fullmatch(names, word) for word in candidates)), "")


def scalars(text: str, record: Any) -> Iterator[str | int]:
    """Every word and number of a record, for a key of which all parts are one.

    Args:
        text: Its schema.
        record: As plain JSON.
    """
    schema = parse(text)
    yield from (value for _, value in _Reading(schema).values(schema.root, record, ""))


def _declared(schema: Schema) -> Iterator[tuple[str, bool]]:
    """Path of every leaf that can hold a word or a number, and whether it can hold a word."""
    for place in places(schema):
        if place.is_key or (place.node.kind in _TEXTUAL and _is_plain(place.node)):
            yield place.path, place.is_key or place.node.kind is Kind.STRING


def _is_plain(node: Node) -> bool:
    return node.logical is None or (node.logical.name == "uuid" and node.kind is Kind.STRING)


class _Branches:
    """Which branch of a union a decoded value is of; names of fields tell records apart, and the first that fits is it.

    Found once for each union: a value may have as many items of it as bytes.
    """

    def __init__(self, schema: Schema, union: Node, names: Callable[[int], frozenset[str]]) -> None:
        self._records: dict[frozenset[str], int] = {}
        self._map: int | None = None
        self._of: dict[type, int] = {}
        for child in union.children:
            node = schema.nodes[child]
            if node.kind is Kind.MAP and self._map is None:
                self._map = child
            elif node.kind is Kind.RECORD and self._map is None:
                self._records.setdefault(names(child), child)
            elif node.kind in _TEXTUAL:
                self._of.setdefault(str if node.kind is Kind.STRING else int, child)

    def of(self, value: Any) -> int | None:
        """Number of its type; None where no branch has words or numbers for it."""
        if isinstance(value, dict):
            return self._records.get(frozenset(value), self._map)
        return self._of.get(type(value))


class _Reading:
    """Words and numbers of decoded records.

    Args:
        schema: The writers'.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._branches: dict[int, _Branches] = {}
        self._names: dict[int, frozenset[str]] = {}

    def values(self, number: int, value: Any, path: str) -> Iterator[tuple[str, str | int]]:
        """Path and content of every word and number below a type."""
        node = self._schema.nodes[number]
        if node.kind is Kind.UNION:
            child = self._of_union(number).of(value)
            if child is not None:
                yield from self.values(child, value, path)
        elif node.kind is Kind.RECORD and isinstance(value, dict):
            for one in node.fields:
                yield from self.values(one.node, value.get(one.name), paths.join(path, one.name))
        elif node.kind is Kind.ARRAY and isinstance(value, list):
            for item in value:
                yield from self.values(node.children[0], item, paths.join(path, paths.ITEMS))
        elif node.kind is Kind.MAP and isinstance(value, dict):
            for name, item in value.items():
                yield paths.join(path, paths.KEYS), name
                yield from self.values(node.children[0], item, paths.join(path, paths.VALUES))
        elif node.kind in _TEXTUAL and _is_plain(node) and isinstance(value, str | int):
            yield path, value

    def _of_union(self, number: int) -> _Branches:
        if number not in self._branches:
            self._branches[number] = _Branches(self._schema, self._schema.nodes[number], self._of_record)
        return self._branches[number]

    def _of_record(self, number: int) -> frozenset[str]:
        """Names of a record's fields; one set for all unions that it is in."""
        if number not in self._names:
            self._names[number] = frozenset(one.name for one in self._schema.nodes[number].fields)
        return self._names[number]


def as_yaml(topic: str, found: Iterable[Suggestion], value_format: ValueFormat = ValueFormat.AVRO) -> list[str]:
    """Lines to paste under `topics:` of a policy, with the evidence as comments."""
    by_place: dict[str, list[Suggestion]] = {}
    for one in sorted(found, key=lambda one: one.tag):
        by_place.setdefault(one.place, []).append(one)
    lines = [f"{quoted(literal(topic))}:"]
    if value_format is not ValueFormat.AVRO:
        lines.append(f"  value_format: {value_format.value}")
    lines += [f"  {place}: {_line(one)}" for place in (KEY, VALUE) for one in by_place.get(place, ())]
    for one in by_place.get(HEADERS, ()):
        lines.append(f"  # {visible(f'header {one.path} is not to pass: {one.tag}; {evidence(one)}')}")
    fields = [f"    {quoted(one.path or '**')}: {_line(one)}" for one in by_place.get(FIELD, ())]
    if value_format.has_fields:
        lines += ["  fields:" if fields else "  fields: {}", *fields]
    return lines


def _line(one: Suggestion) -> str:
    return f"{one.rule}    # {visible(f'{one.tag}; {evidence(one)}')}"


def evidence(one: Suggestion) -> str:
    """Say in words why a tag is suggested."""
    seen = [f"{name} in {share:.0%} of {one.values:,} values" for name, share in one.shares.items()]
    return ", ".join([*seen, *(["its name"] if one.by_name else [])])
