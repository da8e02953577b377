"""Compares two versions of a policy: field by field where a schema is given, and rule by rule as they are written.

Invariants: a policy compared with itself has no changes, and swapping the two versions mirrors every verdict that
follows from the rules. The comparison covers every day on which a `keep` of either version ends, so that a later end
counts as a loosening of the days between. What is written is compared for every schema that may come, whatever schemas
are given, but for a path that stands in a schema of each topic that its pattern names. A change without a proof counts
as a loosening.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import date
from typing import Any, Literal, NamedTuple

from aggregator.config.closed_model import Model
from aggregator.config.patterns import names
from aggregator.errors import DeadLetterError
from aggregator.escapes import visible
from aggregator.privacy.batch.key_tally import key_path
from aggregator.privacy.fields.paths import ANY_DEPTH, steps
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import Policy, TopicPolicy
from aggregator.privacy.policy.precedence import Scope, is_void_for_tag, key_scope, value_scope
from aggregator.privacy.policy.rules import AnyRule, end_of, has_ended, privacy_class
from aggregator.privacy.policy.strictness import (
    Strictness,
    closes_at_most,
    combine_verdicts,
    compare_rules,
    is_same_rule,
    verdict,
)
from aggregator.privacy.review.place_pairs import Place, RulePair, place_pairs
from aggregator.privacy.review.sample_strictness import compare_on_samples
from aggregator.privacy.review.schema_slices import SchemaSlices, ScopeSlices, Steps, literal_part
from aggregator.schema.inherited_tags import with_inherited_tags
from aggregator.schema.registry import SchemaVersion, TagPaths

POLICY = "policy"
_LONGEST_PARAMETER = 40
_PASSES = ("dropped", "passes")
# What holds from a day on: the rules before and after, and the verdict.
_Day = tuple[date, AnyRule | None, AnyRule | None, Strictness]
# Keys under a topic's pattern that are compared part by part.
_JUDGED = frozenset({"key", "value", "default", "headers", "fields", "drop_record"})


class WriterSchema(NamedTuple):
    """A schema of a topic's values or keys, with what gives it tags beside its text.

    Attributes:
        topic: Edge topic.
        text: The schema.
        part: What it describes.
        beside: Tags that the registry keeps beside it.
        earlier: The versions of its subject, up to this one, and of what they refer to.
    """

    topic: str
    text: str
    part: Literal["value", "key"] = "value"
    beside: TagPaths = ()
    earlier: tuple[SchemaVersion, ...] = ()


class PolicyChange(NamedTuple):
    """One place of the policy, or one field under it.

    Attributes:
        topic: Edge topic; `policy` for what is written in the policy itself.
        path: A field's path (under `@key` for a record key's), or the place in the policy.
        before: The rule that held, with its class.
        after: The rule that holds.
        verdict: Which of the two leaves more.
        since: First day of the difference, when it is not there today.
        proof: `rule` where the verdict follows from the rules, `sample` where sample values told it; else `none`.
    """

    topic: str
    path: str
    before: str
    after: str
    verdict: Strictness
    since: date | None = None
    proof: str = "rule"


def policy_changes(old: Policy, new: Policy, schemas: Sequence[WriterSchema], today: date) -> list[PolicyChange]:
    """The changes from one policy to another.

    Args:
        old: The policy that is in force.
        new: The policy that is to be in force.
        schemas: Writers' schemas; the fields of these are compared.
        today: The day from which the policies are compared.

    Raises:
        DeadLetterError: a text is no Avro schema.
        HoldError: an earlier version of one cannot be read.
        ConfigError: a policy contradicts itself for a topic.
    """
    fields = {schema: list(_fields(old, new, schema, today)) for schema in schemas if _is_read(old, new, schema)}
    seen: dict[str, set[str]] = defaultdict(set)
    for schema, changes in fields.items():
        seen[schema.topic].update(change.path for change in changes if schema.part == "value")
    return [*_written(old, new, today, seen), *dict.fromkeys(change for some in fields.values() for change in some)]


def _is_read(old: Policy, new: Policy, schema: WriterSchema) -> bool:
    """Whether values, or keys, are read by this schema under both versions."""
    return schema.part == "key" or all(policy.view(schema.topic).value_format.has_schema for policy in (old, new))


def _days(today: date, *rules: AnyRule | None) -> list[date]:
    """Today, and every later day on which one of the rules ends."""
    return [today, *sorted({end for rule in rules if (end := end_of(rule)) is not None and end > today})]


# Comparison of a schema's fields.


def _fields(old: Policy, new: Policy, schema: WriterSchema, today: date) -> Iterator[PolicyChange]:
    by_place: dict[Place, list[tuple[date, str, str, Strictness]]] = defaultdict(list)
    sampled: set[Place] = set()
    for day, places in _by_day(old, new, schema, today):
        for place, pairs in places.items():
            before = " or ".join(sorted({_rule_text(pair.before) for pair in pairs}))
            after = " or ".join(sorted({_rule_text(pair.after) for pair in pairs}))
            verdicts = [_judged(pair) for pair in pairs]
            sampled.update({place} if any(is_sampled for _, is_sampled in verdicts) else ())
            by_place[place].append((day, before, after, combine_verdicts(found for found, _ in verdicts)))
    for place, over in by_place.items():
        inside = place[0] if schema.part == "value" else key_path(place[0])
        change = _over_days(schema.topic, inside, over, today)
        yield change._replace(proof="sample") if place in sampled and change.proof == "rule" else change


def _judged(pair: RulePair) -> tuple[Strictness, bool]:
    """The verdict, and whether a sample told it."""
    before, after, leaf, is_blurred = pair
    if is_blurred and not is_same_rule(before, after):
        return Strictness.OTHER, False
    by_rule = compare_rules(before, after)
    if by_rule is not Strictness.OTHER or leaf is None:
        return by_rule, False
    by_sample = compare_on_samples(before, after, leaf)
    return by_sample, by_sample is not Strictness.OTHER


def _by_day(
    old: Policy, new: Policy, schema: WriterSchema, today: date
) -> Iterator[tuple[date, Mapping[Place, AbstractSet[RulePair]]]]:
    """The places of the schema today, and on each later day those that a rule reaches which ends then."""
    scopes = _scope(old, schema), _scope(new, schema)
    before, after = map(ScopeSlices, scopes)
    with _said_of(schema):
        slices = SchemaSlices(with_inherited_tags(schema.text, schema.beside, schema.earlier))
        for day, parts in sorted(_parts_by_day(scopes, today).items()):
            part = slices.slice_of(parts)
            plans = [compile_plan(part.schema, scope.slice_of(part.parts), day) for scope in (before, after)]
            found = place_pairs(*plans)
            yield day, {(path, part.sources.get(node, node)): pairs for (path, node), pairs in found.items()}


def _parts_by_day(scopes: Iterable[Scope], today: date) -> Mapping[date, set[Steps]]:
    parts: dict[date, set[Steps]] = defaultdict(set, {today: {()}})
    for scope in scopes:
        of_paths = [(rule.rule, literal_part(rule.steps)) for rule in scope.rules]
        everywhere: list[tuple[AnyRule, Steps]] = [(rule, ()) for rule in (*scope.tags.values(), *scope.defaults)]
        for rule, part in (*of_paths, *everywhere):
            for day in _days(today, rule)[1:]:
                parts[day].add(part)
    return parts


def _scope(policy: Policy, schema: WriterSchema) -> Scope:
    return value_scope(policy, schema.topic) if schema.part == "value" else key_scope(policy, schema.topic)


@contextmanager
def _said_of(schema: WriterSchema) -> Iterator[None]:
    """A refusal names the topic whose schema it is about."""
    try:
        yield
    except DeadLetterError as error:
        of = f"{visible(schema.topic)}'s {schema.part}s"
        raise DeadLetterError(error.reason, f"{of}: {error.message}", hint=error.hint) from None


def _over_days(topic: str, path: str, days: Sequence[tuple[date, str, str, Strictness]], today: date) -> PolicyChange:
    """One line: what differs first, judged over all days."""
    day, before, after, _ = next((one for one in days if one[3] is not Strictness.SAME), days[0])
    found = combine_verdicts(one[3] for one in days)
    proof = "none" if found is Strictness.OTHER else "rule"
    return PolicyChange(topic, path, before, after, found, None if day == today else day, proof)


# Comparison of the policies' own text, for whatever schemas come.


def _written(old: Policy, new: Policy, today: date, seen: Mapping[str, AbstractSet[str]]) -> Iterator[PolicyChange]:
    yield _line("default", [(today, old.default, new.default, compare_rules(old.default, new.default))])
    yield from _others("", old, new, {"policy", "version", "loosens", "default", "tags", "topics"})
    for tag in sorted({*old.tags, *new.tags}):
        days = _days(today, old.tags.get(tag), new.tags.get(tag))
        yield _line(f"tags.{tag}", [_of_tag(old, new, tag, day) for day in days])
    for pattern in sorted({*old.topics, *new.topics}):
        place = f'topics."{pattern}"'
        before, after = old.topics.get(pattern), new.topics.get(pattern)
        if before is not None and after is not None:
            yield from _pattern(pattern, (old, before), (new, after), today)
            yield from _paths(place, before, after, today, _judged_paths(pattern, seen))
        elif before is not None:
            found = Strictness.LOOSER if _only_closes(before) else Strictness.OTHER
            yield PolicyChange(POLICY, place, "written", "not written", found)
        elif after is not None:
            closes = _only_closes(after) and not any(one.lifts for one in _beside(pattern, new))
            found = Strictness.STRICTER if closes else Strictness.OTHER
            yield PolicyChange(POLICY, place, "not written", "written", found)


def _of_tag(old: Policy, new: Policy, tag: str, day: date) -> _Day:
    """The rules of what has the tag: what has ended, or has no reason and needs one, leaves it to the default."""
    before, after = (
        policy.default if is_void_for_tag(rule, day) else rule
        for policy, rule in ((policy, policy.tags.get(tag, policy.default)) for policy in (old, new))
    )
    return day, before, after, _unseen(before, after, date.min)


def _pattern(
    pattern: str, old: tuple[Policy, TopicPolicy], new: tuple[Policy, TopicPolicy], today: date
) -> Iterator[PolicyChange]:
    place, before, after = f'topics."{pattern}"', old[1], new[1]
    keys = before.key or Drop(), after.key or Drop()
    yield _line(f"{place}.key", [(day, *keys, _unseen(*keys, day)) for day in _days(today, *keys)])
    is_alone = all(_decides_alone(pattern, policy) for policy, _ in (old, new))
    days = _days(today, before.value, after.value)
    yield _line(f"{place}.value", [_of_value(before, after, day, is_alone=is_alone) for day in days])
    days = _days(today, before.default, after.default)
    yield _line(f"{place}.default", [_of_default(old, new, day) for day in days])
    yield from _others(f"{place}.", before, after, _JUDGED)
    yield _conditions(f"{place}.drop_record", before, after)
    for name in sorted({*before.headers, *after.headers}):
        passed, passes = name in before.headers, name in after.headers
        found = Strictness.SAME if passed == passes else Strictness.LOOSER if passes else Strictness.STRICTER
        yield PolicyChange(POLICY, f"{place}.headers.{name}", _PASSES[passed], _PASSES[passes], found)


def _of_value(old: TopicPolicy, new: TopicPolicy, day: date, *, is_alone: bool) -> _Day:
    """The rules of a value without parts: it has one type, and no tags."""
    before, after = (Drop() if one.value is None or has_ended(one.value, day) else one.value for one in (old, new))
    return day, before, after, (compare_rules if is_alone else _of_rivals)(before, after)


def _of_rivals(before: AnyRule, after: AnyRule) -> Strictness:
    """Another pattern's rule may take over where this one's changes, and then nothing is known of either."""
    if before == after:
        return Strictness.SAME
    return verdict(isinstance(after, Drop), isinstance(before, Drop))


def _decides_alone(pattern: str, policy: Policy) -> bool:
    """Whether no other rule can reach a whole value of a topic that the pattern names."""
    mine = policy.topics[pattern]
    return not any({*steps(path)} == {ANY_DEPTH} for path in mine.fields) and not any(_beside(pattern, policy))


def _beside(pattern: str, policy: Policy) -> Iterator[TopicPolicy]:
    """What else may be written for a topic that the pattern names."""
    for other in policy.topics.keys() - {pattern}:
        if any(one.meets(two) for one in names(pattern) for two in names(other)):
            yield policy.topics[other]


def _of_default(old: tuple[Policy, TopicPolicy], new: tuple[Policy, TopicPolicy], day: date) -> _Day:
    """The rules of what neither path nor tag names; unless it is `keep`, such a rule also closes what has ended."""
    before, after = _default(*old, day), _default(*new, day)
    closed = [one[0].default if isinstance(rule, Keep) else rule for one, rule in ((old, before), (new, after))]
    return day, before, after, combine_verdicts([compare_rules(before, after), compare_rules(*closed)])


def _default(policy: Policy, topic: TopicPolicy, day: date) -> AnyRule:
    rule = topic.default or policy.default
    return policy.default if has_ended(rule, day) else rule


def _conditions(path: str, before: TopicPolicy, after: TopicPolicy) -> PolicyChange:
    """A record is left out if any condition holds: with more of them, no more records pass."""
    old, new = set(before.drop_record), set(after.drop_record)
    found = Strictness.STRICTER if old < new else Strictness.LOOSER if new < old else Strictness.OTHER
    counts = (f"{len(old)} conditions", f"{len(new)} conditions")
    return PolicyChange(POLICY, path, *counts, Strictness.SAME if old == new else found)


def _others(prefix: str, before: Model, after: Model, judged: AbstractSet[str]) -> Iterator[PolicyChange]:
    """Whatever else can be written there; nothing is known of what it leaves."""
    for name in type(before).model_fields:
        if name not in judged and getattr(before, name) != getattr(after, name):
            old, new = _short(getattr(before, name)), _short(getattr(after, name))
            yield PolicyChange(POLICY, f"{prefix}{name}", old, new, Strictness.OTHER)


def _judged_paths(pattern: str, seen: Mapping[str, AbstractSet[str]]) -> AbstractSet[str]:
    """The paths that stand in a given schema of each topic which the pattern names: their fields were compared."""
    named = names(pattern)
    if not named or not all(one.is_literal for one in named):
        return frozenset()
    return frozenset.intersection(*(frozenset(seen.get(one.literal, ())) for one in named))


def _paths(
    place: str, before: TopicPolicy, after: TopicPolicy, today: date, judged: AbstractSet[str]
) -> Iterator[PolicyChange]:
    for path in sorted({*before.fields, *after.fields} - judged):
        pair = before.fields.get(path), after.fields.get(path)
        yield _line(f"{place}.fields.{path}", [(day, *pair, _unseen(*pair, day)) for day in _days(today, *pair)])


def _unseen(before: AnyRule | None, after: AnyRule | None, day: date) -> Strictness:
    """The verdict on rules whose places nobody has seen; None is no rule."""
    return verdict(_never_more(after, before, day), _never_more(before, after, day))


def _never_more(rule: AnyRule | None, other: AnyRule | None, day: date) -> bool:
    """Whether `rule` leaves no more than `other`, whatever types, tags and other rules meet there.

    A rule may be void on a tagged field, and no operator takes every type, so that hardly any other one is known to
    leave more: only what drops, what is as constant, and no rule instead of `keep`. An ended rule closes its place.
    """
    if isinstance(rule, Drop):
        return True
    if has_ended(rule, day) or has_ended(other, day):
        return has_ended(rule, day) and has_ended(other, day)
    if rule is None:
        return other is None or isinstance(other, Keep)
    if other is None:
        return False
    # Of two rules of one operator that meet, the one that ends first counts: another end may let another one count.
    ends_alike = end_of(rule) == end_of(other) or (isinstance(rule, Keep) and None not in (end_of(rule), end_of(other)))
    return closes_at_most(rule, other) or (ends_alike and is_same_rule(rule, other))


def _only_closes(topic: TopicPolicy) -> bool:
    """Whether a pattern can do nothing but take away, whatever the schemas and the other patterns are."""
    rules = [topic.key or Drop(), topic.value or Drop(), topic.default or Drop(), *topic.fields.values()]
    plain = topic.model_dump(include=set(type(topic).model_fields) - _JUDGED, exclude_defaults=True)
    return not plain and not topic.headers and all(isinstance(rule, Drop) for rule in rules)


def _line(place: str, over: Sequence[_Day]) -> PolicyChange:
    days = [(day, _rule_text(before), _rule_text(after), found) for day, before, after, found in over]
    return _over_days(POLICY, place, days, days[0][0])


def _rule_text(rule: AnyRule | None) -> str:
    """Operator, parameters that were written, class."""
    if rule is None:
        return "-"
    given = rule.model_dump(mode="json", exclude_defaults=True, exclude={"operator", "reason", "owner"})
    parts = ", ".join(f"{name}={_short(value)}" for name, value in given.items())
    return f"{rule.operator}{f'({parts})' if parts else ''}: {privacy_class(rule).name.lower()}"


def _short(value: Any) -> str:
    text = "-" if value in (None, ()) else str(value)
    return text if len(text) <= _LONGEST_PARAMETER else f"{text[:_LONGEST_PARAMETER]}…"
