"""The text with which a new policy begins: instructions, the operators, and `default: drop`, which lets nothing pass.

Invariant: every generated policy begins with this text. No name in it ends a comment or a scalar.
"""

from collections.abc import Sequence

from aggregator.escapes import quoted
from aggregator.privacy.policy.rules import operator_names

_ABREAST = 9  # operators in one line of a comment


def closed_policy(name: str, advice: Sequence[str]) -> list[str]:
    """The lines before `tags:` and `topics:`.

    Args:
        name: The policy's.
        advice: How to open it: lines of a comment after `Nothing passes yet`, the first one in lower case.
    """
    names = operator_names()
    abreast = [", ".join(names[at : at + _ABREAST]) for at in range(0, len(names), _ABREAST)]
    comment = ["Nothing passes yet: " + advice[0], *advice[1:]]
    comment += ("Operators: " + ",\n".join(abreast)).split("\n")
    return [
        *(f"# {line}" for line in comment),
        "# docs/policy.md says what each of them does.",
        f"policy: {quoted(name)}",
        "version: 1",
        "default: drop",
    ]
