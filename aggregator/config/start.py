"""Parses a rule's `start`: where a topic's flows begin. The word `mirrormaker2` means where MirrorMaker 2 stands.

Invariant: MirrorMaker 2 has the names of its dedicated mode, unless the rule gives others. No fault quotes a value.
Source: MirrorMakerConfig.workerConfig and MirrorUtils.wrapPartition in Apache Kafka.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from aggregator.config.units import start_position

WORD = "mirrormaker2"
_NAME = re.compile(r"[A-Za-z0-9._{}-]{1,249}")
_BRACES = re.compile(r"\{(?!edge\}|source\})|(?<!\{edge)(?<!\{source)\}")
_HINT = "`earliest`, `latest`, `mirrormaker2` or an ISO 8601 time such as 2026-11-01T00:00Z"


@dataclass(frozen=True, slots=True)
class MirrorMaker2:
    """The names that MirrorMaker 2 has at central; `{edge}` and `{source}` are filled in.

    Attributes:
        source: MirrorMaker 2's alias of the edge's cluster.
        connector: Name of its source connector.
        group: Group of its Connect workers.
        offsets_topic: The topic of the source offsets.
        configs_topic: The topic of the connectors' settings and of the number of tasks that ran exactly once.
    """

    source: str = "{edge}"
    connector: str = "MirrorSourceConnector"
    group: str = "{source}-mm2"
    offsets_topic: str = "mm2-offsets.{source}.internal"
    configs_topic: str = "mm2-configs.{source}.internal"

    def at(self, edge: str) -> "MirrorMaker2":
        """The settings of the MirrorMaker that copies an edge."""
        source = self.source.replace("{edge}", edge)
        return MirrorMaker2(
            **{name: getattr(self, name).replace("{edge}", edge).replace("{source}", source) for name in NAMES}
        )

    def transactional_id(self, task: int) -> str:
        """The transactional id of a task that runs exactly once (`Worker.taskTransactionalId`)."""
        return f"{self.group}-{self.connector}-{task}"

    def plain(self) -> dict[str, dict[str, str]]:
        """The settings as the configuration writes them."""
        return {WORD: {name: getattr(self, name) for name in NAMES}}


NAMES = tuple(one.name for one in fields(MirrorMaker2))


def rule_start(value: object) -> object:
    """Read a rule's `start`; a time is UTC where it names no zone.

    Raises:
        ValueError: anything else.
    """
    if isinstance(value, MirrorMaker2):
        return value
    if value == WORD:
        return MirrorMaker2()
    if isinstance(value, Mapping):
        return _mirrormaker2(value)
    try:
        return start_position(value)
    except ValueError:
        raise ValueError(f"is {_HINT}") from None


def _mirrormaker2(value: Mapping[object, object]) -> MirrorMaker2:
    given = value.get(WORD)
    if set(value) != {WORD} or not isinstance(given, Mapping):
        raise ValueError(f"is {_HINT}; or a block `mirrormaker2:` with names that differ: {', '.join(NAMES)}")
    if unknown := sorted(str(name) for name in given if name not in NAMES):
        raise ValueError(f"has `{unknown[0]}` in `mirrormaker2:`, where only {', '.join(NAMES)} stand")
    for name, text in given.items():
        if not isinstance(text, str) or not _NAME.fullmatch(text) or _BRACES.search(text):
            raise ValueError(f"has a `{name}` that is no name of Kafka's with `{{edge}}` or `{{source}}` filled in")
        if name == "source" and "{source}" in text:
            raise ValueError("has a `source` that names itself")
    return MirrorMaker2(**{str(name): str(text) for name, text in given.items()})
