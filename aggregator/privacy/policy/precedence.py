"""Decides which rule applies to a leaf: explicit path, then tag, then default; at one level the most restrictive.

Invariant: on a tagged leaf, a rule that can leave a value whole counts only with a reason, an owner and a future
expiry. This holds for `keep` and for every rule that `strength` counts as such. Without them the rule is void, as if it
were not written. A rule that has ended closes its place, also below an open wildcard, and beside a rule of another
pattern or a tag that opens. A wildcard without a reason takes at least as much as the tag does, also where another path
would open, and an undeclared tag closes. So a tag's or a path's rule that takes more never opens what was closed.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple

from aggregator.privacy.fields import paths
from aggregator.privacy.operators.descriptor import PrivacyClass
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.policy.rules import (
    AnyRule,
    end_of,
    has_ended,
    is_deterministic,
    most_restrictive,
    other_field,
    privacy_class,
)


class PathRule(NamedTuple):
    """A rule under `fields:`, or one for all of a key or a value, with no path."""

    path: str
    rule: AnyRule

    @property
    def steps(self) -> tuple[str, ...]:
        """The path taken apart; empty for the value as a whole."""
        return paths.steps(self.path) if self.path else ()

    @property
    def is_wild(self) -> bool:
        """Whether it names its places by a wildcard."""
        return not {paths.ANY, paths.ANY_DEPTH}.isdisjoint(self.steps)

    def only_closes(self, today: date) -> bool:
        """Whether nothing passes by it: it drops, or has ended."""
        return isinstance(self.rule, Drop) or has_ended(self.rule, today)

    def covers_below(self, today: date) -> bool:
        """Whether the rule holds for what lies below: all do, but a `keep` for one step opens that step only.

        Once it has ended, it closes what lies below that step, too.
        """
        is_of_one_step = isinstance(self.rule, Keep) and self.steps[-1:] == (paths.ANY,)
        return not is_of_one_step or has_ended(self.rule, today)


class AppliedRule(NamedTuple):
    """The rule that applies to a leaf, and its place in the policy."""

    rule: AnyRule
    because: str

    @property
    def privacy_class(self) -> str:
        """The name of the privacy class in lower case."""
        return privacy_class(self.rule).name.lower()


class Scope(NamedTuple):
    """A policy's rules for the values, or the keys, of one edge topic.

    Attributes:
        topic: Edge topic.
        policy: Name, version and hash, for whatever is derived.
        rules: Rules by path.
        tags: Rules by tag.
        defaults: For leaves without tag and path, one of each pattern.
        closed: For undeclared tags and expired rules; never `keep`.
        condition_fields: Paths of fields that conditions on whole records ask for.
        lifts: Path to inherited tags that do not hold there.
        unnamed_path: What a rule without a path is about.
    """

    topic: str
    policy: tuple[str, int, str]
    rules: tuple[PathRule, ...]
    tags: Mapping[str, AnyRule]
    defaults: tuple[AnyRule, ...]
    closed: AnyRule
    condition_fields: tuple[str, ...] = ()
    lifts: Mapping[str, frozenset[str]] = MappingProxyType({})
    unnamed_path: str = "key"

    @property
    def side_inputs(self) -> frozenset[str]:
        """Paths whose values others see: those of conditions, and of what operators look at."""
        named = [*(item.rule for item in self.rules), *self.tags.values(), *self.defaults, self.closed]
        return frozenset(self.condition_fields) | frozenset(path for rule in named if (path := other_field(rule)))

    def decide_whole(self, today: date) -> AppliedRule:
        """The decision for a key, or a value, that has no parts: every rule of the scope is about all of it."""
        return self.decide(frozenset(range(len(self.rules))), frozenset(), today)

    def decide(self, rules: frozenset[int], tags: frozenset[str], today: date) -> AppliedRule:
        """The decision for a leaf.

        Args:
            rules: Numbers of the path rules that reach it.
            tags: Its own and inherited tags.
            today: Decides what has expired.
        """
        reaching = [self.rules[number] for number in sorted(rules)]
        by_tag = {tag: self._of_tag(tag, today) for tag in sorted(tags)}
        of_tags = most_restrictive(list(by_tag.values())) if by_tag else None
        holds = [_holds(item, of_tags, today) for item in reaching]
        valid = list(compress(reaching, holds))
        void = [item for item, is_valid in zip(reaching, holds, strict=True) if not is_valid]
        note = "".join(f" ({self._why(item, today)})" for item in void)
        if valid:
            winner = most_restrictive([item.rule for item in valid])
            because = self._named(min(item.path for item in valid if item.rule == winner))
        elif of_tags is not None:
            winner, tag = of_tags, next(tag for tag, rule in by_tag.items() if rule == of_tags)
            because = f"tag {tag}{'' if tag in self.tags else ' (undeclared)'}"
        else:
            winner, because = self._default(today), "default"
            ends = (f"; its keep expired on {end_of(rule)}" for rule in self.defaults if has_ended(rule, today))
            note += next(ends, "")
        closer = next((item for item in void if has_ended(item.rule, today) or _takes(item.rule)), None)
        if closer is None:
            return AppliedRule(winner, because + note)
        closing = self._closing(today) if of_tags is None or may_pass_unchanged(of_tags) else of_tags
        if most_restrictive([winner, closing]) != winner:
            why = "has ended" if has_ended(closer.rule, today) else "takes what the tag takes"
            winner, because = closing, f"{self._named(closer.path)} {why}"
        return AppliedRule(winner, because + note)

    def _default(self, today: date) -> AnyRule:
        return most_restrictive([self.closed if has_ended(rule, today) else rule for rule in self.defaults])

    def _closing(self, today: date) -> AnyRule:
        """The rule that replaces an ended one: the default, if that closes."""
        default = self._default(today)
        return self.closed if isinstance(default, Keep) else default

    def _of_tag(self, tag: str, today: date) -> AnyRule:
        rule = self.tags.get(tag, self.closed)
        return self.closed if is_void_for_tag(rule, today) else rule

    def _named(self, path: str) -> str:
        return f"path {path}" if path else self.unnamed_path

    def _why(self, item: PathRule, today: date) -> str:
        what = f"{item.rule.operator} of {item.path or f'the {self.unnamed_path}'} is void"
        if has_ended(item.rule, today):
            return f"{what}: expired on {end_of(item.rule)}"
        if may_pass_unchanged(item.rule):
            return f"{what}: a tagged field needs reason, owner and expires"
        return f"{what}: a wildcard takes no less than a tag"


def may_pass_unchanged(rule: AnyRule) -> bool:
    """Whether a value can pass the rule as it is."""
    return privacy_class(rule) is PrivacyClass.CLEAR


def is_void_for_tag(rule: AnyRule, today: date) -> bool:
    """Whether a tag's rule does not count: it has ended, or needs a reason and has none."""
    return has_ended(rule, today) or (may_pass_unchanged(rule) and not _is_justified(rule, today))


def _is_justified(rule: AnyRule, today: date) -> bool:
    return isinstance(rule, Justified) and rule.justified(today)


def _holds(item: PathRule, of_tags: AnyRule | None, today: date) -> bool:
    """Whether a path's rule counts: not ended, free to open what it opens, and no wildcard below a tag."""
    rule = item.rule
    if of_tags is None:
        return not has_ended(rule, today)
    if _is_justified(rule, today):
        return True
    if may_pass_unchanged(rule) or has_ended(rule, today):
        return False
    return not item.is_wild or privacy_class(rule) >= privacy_class(of_tags)


def _takes(rule: AnyRule) -> bool:
    """Whether a rule that is void takes anything: it is a wildcard's, and its places are closed as the tag closes."""
    return not may_pass_unchanged(rule)


def value_scope(policy: Policy, topic: str) -> Scope:
    """The scope of a topic's values."""
    view = policy.view(topic)
    rules = tuple(PathRule(path, rule) for path, rule in view.fields)
    fields = sorted({path for condition in view.drop_record for path in condition.fields()})
    return _scope(policy, topic, rules, view.defaults)._replace(condition_fields=tuple(fields), lifts=dict(view.lifts))


def json_scope(scope: Scope) -> Scope:
    """The scope for values without a schema: no tags, and what no path names leaves."""
    return scope._replace(tags={}, defaults=(Drop(),))


def schemaless_scope(policy: Policy, topic: str) -> Scope:
    """The same for values without parts: their own rule, and those of paths that are every place of any value."""
    view = policy.view(topic)
    everywhere = [PathRule(path, rule) for path, rule in view.fields if {*paths.steps(path)} == {paths.ANY_DEPTH}]
    scope = _scope(policy, topic, (*_of_all(view.values), *everywhere), (Drop(),))
    return scope._replace(tags={}, unnamed_path="value")


def key_scope(policy: Policy, topic: str) -> Scope:
    """The scope of a topic's keys: the key's operator for all of it, and the tags of a key's schema.

    An operator that would make another key of the same one tomorrow drops it: order and compaction rest on keys.
    """
    scope = _scope(policy, topic, _of_all(policy.view(topic).keys), (Drop(),))
    return scope._replace(tags={tag: rule if is_deterministic(rule) else Drop() for tag, rule in policy.tags.items()})


def _of_all(rules: Sequence[AnyRule]) -> tuple[PathRule, ...]:
    return tuple(PathRule("", rule) for rule in dict.fromkeys(rules))


def _scope(policy: Policy, topic: str, rules: tuple[PathRule, ...], defaults: tuple[AnyRule, ...]) -> Scope:
    identity = (policy.policy, policy.version, policy.hash)
    return Scope(topic, identity, rules, policy.tags, defaults, policy.default)
