"""Decides which rule applies to a leaf: explicit path, then tag, then default; at one level the most restrictive.

Invariant: on a tagged leaf, a rule that can leave a value whole counts only with a reason, an owner and a future
expiry. This holds for `keep` and for every rule that `strength` counts as such. Without them the rule is void, as if it
were not written. A `keep` that has ended closes its field, also below an open wildcard. A wildcard without a reason
takes at least as much as the tag does, also where another path would open, and an undeclared tag closes. So a tag's
or a path's rule that takes more never opens what was closed.
"""

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import NamedTuple

from aggregator.privacy.fields import paths
from aggregator.privacy.operators.descriptor import PrivacyClass
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.policy.rules import AnyRule, is_deterministic, most_restrictive, other_field, privacy_class


class PathRule(NamedTuple):
    """A rule under `fields:`, or the key's rule with no path."""

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

    def covers_below(self, today: date) -> bool:
        """Whether the rule holds for what lies below: all do, but a `keep` for one step opens that step only.

        Once it has ended, it closes what lies below that step, too.
        """
        is_of_one_step = isinstance(self.rule, Keep) and self.steps[-1:] == (paths.ANY,)
        return not is_of_one_step or _has_ended(self.rule, today)


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
        default: For leaves without tag and path.
        closed: For undeclared tags and expired rules; never `keep`.
        condition_fields: Paths of fields that conditions on whole records ask for.
        lifts: Path to inherited tags that do not hold there.
        unnamed_path: What a rule without a path is about.
    """

    topic: str
    policy: tuple[str, int, str]
    rules: tuple[PathRule, ...]
    tags: Mapping[str, AnyRule]
    default: AnyRule
    closed: AnyRule
    condition_fields: tuple[str, ...] = ()
    lifts: Mapping[str, frozenset[str]] = MappingProxyType({})
    unnamed_path: str = "key"

    @property
    def side_inputs(self) -> frozenset[str]:
        """Paths whose values others see: those of conditions, and of what operators look at."""
        named = [*(item.rule for item in self.rules), *self.tags.values(), self.default, self.closed]
        return frozenset(self.condition_fields) | frozenset(path for rule in named if (path := other_field(rule)))

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
        void = [item for item in reaching if not _holds(item, of_tags, today)]
        valid = [item for item in reaching if item not in void]
        note = "".join(f" ({_why(item, today)})" for item in void)
        ended = any(_has_ended(item.rule, today) for item in void)
        if valid:
            winner = most_restrictive([item.rule for item in valid])
            closing = of_tags or self._closing
            closer = next((item for item in void if _has_ended(item.rule, today) or _takes(item.rule)), None)
            if closer and most_restrictive([winner, closing]) != winner:
                why = "has ended" if _has_ended(closer.rule, today) else "takes what the tag takes"
                return AppliedRule(closing, f"path {closer.path} {why}{note}")
            path = min(item.path for item in valid if item.rule == winner)
            return AppliedRule(winner, f"path {path}{note}" if path else f"{self.unnamed_path}{note}")
        if of_tags is not None:
            tag = next(tag for tag, rule in by_tag.items() if rule == of_tags)
            return AppliedRule(of_tags, f"tag {tag}{'' if tag in self.tags else ' (undeclared)'}{note}")
        if _has_ended(self.default, today):
            return AppliedRule(
                self.closed, f"default{note}; its keep expired on {getattr(self.default, 'expires', '')}"
            )
        return AppliedRule(self._closing if ended else self.default, f"default{note}")

    @property
    def _closing(self) -> AnyRule:
        """The rule that replaces an ended one: the default, if that closes."""
        return self.closed if isinstance(self.default, Keep) else self.default

    def _of_tag(self, tag: str, today: date) -> AnyRule:
        rule = self.tags.get(tag, self.closed)
        return rule if not may_pass_unchanged(rule) or _is_justified(rule, today) else self.closed


def may_pass_unchanged(rule: AnyRule) -> bool:
    """Whether a value can pass the rule as it is."""
    return privacy_class(rule) is PrivacyClass.CLEAR


def _is_justified(rule: AnyRule, today: date) -> bool:
    return isinstance(rule, Justified) and rule.justified(today)


def _has_ended(rule: AnyRule, today: date) -> bool:
    return isinstance(rule, Justified) and rule.expired(today)


def _holds(item: PathRule, of_tags: AnyRule | None, today: date) -> bool:
    """Whether a path's rule counts: not ended, free to open what it opens, and no wildcard below a tag."""
    rule = item.rule
    if of_tags is None:
        return not _has_ended(rule, today)
    if _is_justified(rule, today):
        return True
    if may_pass_unchanged(rule) or _has_ended(rule, today):
        return False
    return not item.is_wild or privacy_class(rule) >= privacy_class(of_tags)


def _takes(rule: AnyRule) -> bool:
    """Whether a rule that is void takes anything: it is a wildcard's, and its places are closed as the tag closes."""
    return not may_pass_unchanged(rule)


def _why(item: PathRule, today: date) -> str:
    what = f"{item.rule.operator} of {item.path or 'the key'} is void"
    if _has_ended(item.rule, today):
        return f"{what}: expired on {getattr(item.rule, 'expires', '')}"
    if may_pass_unchanged(item.rule):
        return f"{what}: a tagged field needs reason, owner and expires"
    return f"{what}: a wildcard takes no less than a tag"


def value_scope(policy: Policy, topic: str) -> Scope:
    """The scope of a topic's values."""
    view = policy.view(topic)
    rules = tuple(PathRule(path, rule) for path, rule in view.fields)
    fields = sorted({path for condition in view.drop_record for path in condition.fields()})
    return _scope(policy, topic, rules, view.default)._replace(condition_fields=tuple(fields), lifts=dict(view.lifts))


def json_scope(scope: Scope) -> Scope:
    """The scope for values without a schema: no tags, and what no path names leaves."""
    return scope._replace(tags={}, default=Drop())


def schemaless_scope(policy: Policy, topic: str) -> Scope:
    """The same for values without parts: their own rule, and those of paths that are every place of any value."""
    view = policy.view(topic)
    everywhere = [PathRule(path, rule) for path, rule in view.fields if {*paths.steps(path)} == {paths.ANY_DEPTH}]
    scope = _scope(policy, topic, (PathRule("", view.value), *everywhere), Drop())
    return scope._replace(tags={}, unnamed_path="value")


def key_scope(policy: Policy, topic: str) -> Scope:
    """The scope of a topic's keys: the key's operator for all of it, and the tags of a key's schema.

    An operator that would make another key of the same one tomorrow drops it: order and compaction rest on keys.
    """
    scope = _scope(policy, topic, (PathRule("", policy.view(topic).key),), Drop())
    return scope._replace(tags={tag: rule if is_deterministic(rule) else Drop() for tag, rule in policy.tags.items()})


def _scope(policy: Policy, topic: str, rules: tuple[PathRule, ...], default: AnyRule) -> Scope:
    identity = (policy.policy, policy.version, policy.hash)
    return Scope(topic, identity, rules, policy.tags, default, policy.default)
