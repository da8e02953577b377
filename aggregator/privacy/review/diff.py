"""Compares two versions of a policy: field by field where a schema is given, rule by rule everywhere else.

Invariants: a policy compared with itself has no changes, and swapping the two versions mirrors every verdict. The
comparison covers every day on which a `keep` of either version ends, so that a later end counts as a loosening of the
days between. A pattern that no given schema covers is compared as it is written. A change without a proof counts as a
loosening.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Any, Literal, NamedTuple

from aggregator.config.closed_model import Model
from aggregator.config.patterns import full_matches
from aggregator.errors import DeadLetterError
from aggregator.escapes import visible
from aggregator.privacy.batch.key_tally import key_path
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.plan.plan import StripPlan
from aggregator.privacy.policy.file import Policy, TopicPolicy
from aggregator.privacy.policy.precedence import key_scope, may_pass_unchanged, value_scope
from aggregator.privacy.policy.rules import AnyRule, privacy_class
from aggregator.privacy.policy.strictness import Strictness, combine_verdicts, compare_rules, is_same_rule
from aggregator.privacy.review.place_pairs import Place, RulePair, place_pairs
from aggregator.privacy.review.sample_strictness import compare_on_samples

POLICY = "policy"
_LONGEST_PARAMETER = 40
_PASSES = ("dropped", "passes")
# Keys under a topic's pattern that are compared part by part.
_JUDGED = frozenset({"key", "value", "default", "headers", "fields", "drop_record"})


class WriterSchema(NamedTuple):
    """A schema of a topic's values or keys."""

    topic: str
    text: str
    part: Literal["value", "key"] = "value"


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
        ConfigError: a policy contradicts itself for a topic.
    """
    days = _days(old, new, today)
    fields = [change for schema in dict.fromkeys(schemas) for change in _fields(old, new, schema, days)]
    covered = {schema.topic for schema in schemas if schema.part == "value"}
    return [*_written(old, new, covered, days), *dict.fromkeys(fields)]


def _days(old: Policy, new: Policy, today: date) -> list[date]:
    """Today, and every later day on which a `keep` is closed again."""
    rules = [rule for policy in (old, new) for rule in _rules(policy)]
    ends = {rule.expires for rule in rules if isinstance(rule, Justified) and rule.expires is not None}
    return [today, *sorted(day for day in ends if day > today)]


def _rules(policy: Policy) -> Iterator[AnyRule | None]:
    yield from policy.tags.values()
    for topic in policy.topics.values():
        yield from (topic.key, topic.value, topic.default, *topic.fields.values())


# Comparison of a schema's fields.


def _fields(old: Policy, new: Policy, schema: WriterSchema, days: Sequence[date]) -> Iterator[PolicyChange]:
    by_place: dict[Place, list[tuple[date, str, str, Strictness]]] = defaultdict(list)
    sampled: set[Place] = set()
    for day in days:
        for place, pairs in place_pairs(_plan(old, schema, day), _plan(new, schema, day)).items():
            before = " or ".join(sorted({_rule_text(pair.before) for pair in pairs}))
            after = " or ".join(sorted({_rule_text(pair.after) for pair in pairs}))
            verdicts = [_judged(pair) for pair in pairs]
            sampled.update({place} if any(is_sampled for _, is_sampled in verdicts) else ())
            by_place[place].append((day, before, after, combine_verdicts(verdict for verdict, _ in verdicts)))
    for place, over in by_place.items():
        inside = place[0] if schema.part == "value" else key_path(place[0])
        change = _over_days(schema.topic, inside, over)
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


def _plan(policy: Policy, schema: WriterSchema, day: date) -> StripPlan:
    scope = value_scope(policy, schema.topic) if schema.part == "value" else key_scope(policy, schema.topic)
    try:
        return compile_plan(schema.text, scope, day)
    except DeadLetterError as error:
        of = f"{visible(schema.topic)}'s {schema.part}s"
        raise DeadLetterError(error.reason, f"{of}: {error.message}", hint=error.hint) from None


def _over_days(topic: str, path: str, days: Sequence[tuple[date, str, str, Strictness]]) -> PolicyChange:
    """One line: what differs first, judged over all days."""
    today = days[0][0]
    day, before, after, _ = next((one for one in days if one[3] is not Strictness.SAME), days[0])
    verdict = combine_verdicts(one[3] for one in days)
    proof = "none" if verdict is Strictness.OTHER else "rule"
    return PolicyChange(topic, path, before, after, verdict, None if day == today else day, proof)


# Comparison of the policies' own text, independent of schemas.


def _written(old: Policy, new: Policy, covered: set[str], days: Sequence[date]) -> Iterator[PolicyChange]:
    yield _rule("default", [(days[0], old.default, new.default)])
    yield from _others("", old, new, {"policy", "version", "loosens", "default", "tags", "topics"})
    for tag in sorted({*old.tags, *new.tags}):
        yield _rule(f"tags.{tag}", [(day, _of_tag(old, tag, day), _of_tag(new, tag, day)) for day in days])
    for pattern in sorted({*old.topics, *new.topics}):
        place = f'topics."{pattern}"'
        before, after = old.topics.get(pattern), new.topics.get(pattern)
        if before is not None and after is not None:
            yield from _pattern(place, (old, before), (new, after), days)
            if not (covered and any(full_matches(pattern, sorted(covered)))):
                yield from _paths(place, before, after, days)
        elif before is not None:
            verdict = Strictness.LOOSER if _only_closes(before) else Strictness.OTHER
            yield PolicyChange(POLICY, place, "written", "not written", verdict)
        elif after is not None:
            verdict = Strictness.STRICTER if _only_closes(after) else Strictness.OTHER
            yield PolicyChange(POLICY, place, "not written", "written", verdict)


def _of_tag(policy: Policy, tag: str, day: date) -> AnyRule:
    rule = policy.tags.get(tag, policy.default)
    return (
        policy.default
        if may_pass_unchanged(rule) and not (isinstance(rule, Justified) and rule.justified(day))
        else rule
    )


def _pattern(
    place: str, old: tuple[Policy, TopicPolicy], new: tuple[Policy, TopicPolicy], days: Sequence[date]
) -> Iterator[PolicyChange]:
    before, after = old[1], new[1]
    yield _rule(f"{place}.key", [(day, _in_force(before.key, day), _in_force(after.key, day)) for day in days])
    yield _rule(f"{place}.value", [(day, _in_force(before.value, day), _in_force(after.value, day)) for day in days])
    yield _rule(f"{place}.default", [(day, _default(*old, day), _default(*new, day)) for day in days])
    yield from _others(f"{place}.", before, after, _JUDGED)
    yield _conditions(f"{place}.drop_record", before, after)
    for name in sorted({*before.headers, *after.headers}):
        passed, passes = name in before.headers, name in after.headers
        verdict = Strictness.SAME if passed == passes else Strictness.LOOSER if passes else Strictness.STRICTER
        yield PolicyChange(POLICY, f"{place}.headers.{name}", _PASSES[passed], _PASSES[passes], verdict)


def _default(policy: Policy, topic: TopicPolicy, day: date) -> AnyRule:
    rule = topic.default or policy.default
    return policy.default if isinstance(rule, Keep) and rule.expired(day) else rule


def _conditions(path: str, before: TopicPolicy, after: TopicPolicy) -> PolicyChange:
    """A record is left out if any condition holds: with more of them, no more records pass."""
    old, new = set(before.drop_record), set(after.drop_record)
    verdict = Strictness.STRICTER if old < new else Strictness.LOOSER if new < old else Strictness.OTHER
    counts = (f"{len(old)} conditions", f"{len(new)} conditions")
    return PolicyChange(POLICY, path, *counts, Strictness.SAME if old == new else verdict)


def _others(prefix: str, before: Model, after: Model, judged: AbstractSet[str]) -> Iterator[PolicyChange]:
    """Whatever else can be written there; nothing is known of what it leaves."""
    for name in type(before).model_fields:
        if name not in judged and getattr(before, name) != getattr(after, name):
            old, new = _short(getattr(before, name)), _short(getattr(after, name))
            yield PolicyChange(POLICY, f"{prefix}{name}", old, new, Strictness.OTHER)


def _paths(place: str, before: TopicPolicy, after: TopicPolicy, days: Sequence[date]) -> Iterator[PolicyChange]:
    for path in sorted({*before.fields, *after.fields}):
        pairs = [(day, _unexpired(before, path, day), _unexpired(after, path, day)) for day in days]
        over_days = [(day, _rule_text(old), _rule_text(new), _unseen(old, new)) for day, old, new in pairs]
        yield _over_days(POLICY, f"{place}.fields.{path}", over_days)


def _unexpired(topic: TopicPolicy, path: str, day: date) -> AnyRule | None:
    rule = topic.fields.get(path)
    return None if isinstance(rule, Justified) and rule.expired(day) else rule


def _unseen(before: AnyRule | None, after: AnyRule | None) -> Strictness:
    """Without a schema nobody knows what holds where a path has no rule; that it is not less than nothing is known."""
    if before is None or after is None:
        if before == after:
            return Strictness.SAME
        written = after if before is None else before
        if not isinstance(written, Drop):
            return Strictness.OTHER
        return Strictness.STRICTER if before is None else Strictness.LOOSER
    return compare_rules(before, after)


def _in_force(rule: AnyRule | None, day: date) -> AnyRule:
    """The rule in force for a key, or for a value without parts."""
    return Drop() if rule is None or (isinstance(rule, Justified) and rule.expired(day)) else rule


def _only_closes(topic: TopicPolicy) -> bool:
    """Whether a pattern can do nothing but take away, whatever the schemas and the other patterns are."""
    rules = [topic.key or Drop(), topic.value or Drop(), topic.default or Drop(), *topic.fields.values()]
    plain = topic.model_dump(include=set(type(topic).model_fields) - _JUDGED, exclude_defaults=True)
    return not plain and not topic.headers and all(isinstance(rule, Drop) for rule in rules)


def _rule(path: str, over: Iterable[tuple[date, AnyRule, AnyRule]]) -> PolicyChange:
    days = [(day, _rule_text(before), _rule_text(after), compare_rules(before, after)) for day, before, after in over]
    return _over_days(POLICY, path, days)


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
