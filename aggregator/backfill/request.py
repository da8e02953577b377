"""Describes a person's request for a backfill: which flows, which window, and into what.

Invariant: an ask holds the person's own words, so two people who start the same backfill have equal asks with the same
digest. The planner translates an ask into offsets.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from aggregator.config.patterns import full_matches
from aggregator.config.units import duration, start_position
from aggregator.coordinates import EdgePartition
from aggregator.errors import FatalError

# `PT-2H`, `-PT2H` and `PT2H` all mean two hours ago, because a window in the future makes no sense.
_ISO_DURATION = re.compile(r"[-+]?P[-+0-9DTHMSW.]+")
_GENERATION = re.compile(r"(?!restate-)[A-Za-z0-9_-]{1,40}")


class Mode(StrEnum):
    """Where a backfill's records go.

    Attributes:
        MISSING: Into the live topic: only what central never got.
        INTO: Into a new generation of topic and table, under the present policy.
        RESTATE: Into the lake table only, in the place of the same origins' rows.
    """

    MISSING = "missing"
    INTO = "into"
    RESTATE = "restate"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a window: a time or an offset, with the words of the request."""

    text: str
    time: datetime | None = None
    offset: int | None = None

    @classmethod
    def parse(cls, text: str, now: datetime) -> Self:
        """Read an ISO 8601 time, a duration before `now`, or an offset.

        Raises:
            ValueError: it is none of these.
        """
        words = text.strip()
        if words.isdigit():
            return cls(words, offset=int(words))
        if _ISO_DURATION.fullmatch(words):
            return cls(words, time=now - duration(re.sub(r"[-+]", "", words)))
        with contextlib.suppress(ValueError):
            return cls(words, time=now - duration(words))
        with contextlib.suppress(ValueError):
            found = start_position(words)
            if isinstance(found, datetime):
                return cls(words, time=found.astimezone(UTC))
        raise ValueError("is an ISO 8601 time, how long ago (2h, PT2H, P1D), or an offset")


@dataclass(frozen=True, slots=True)
class Window:
    """A part of some flows. An attribute that is None narrows nothing.

    Attributes:
        edge: One edge; None for all.
        topic: Full-match regular expression on the edge topic; None for all.
        partition: One partition; None for all.
        since: First time or offset; None is the beginning of the log.
        until: Time or offset behind the last; None is where the hub stands.
    """

    edge: str | None = None
    topic: str | None = None
    partition: int | None = None
    since: Bound | None = None
    until: Bound | None = None

    def takes(self, source: EdgePartition) -> bool:
        """Whether the window includes a flow."""
        if self.edge not in (None, source.edge) or self.partition not in (None, source.partition):
            return False
        return self.topic is None or full_matches(self.topic, [source.topic])[0]

    def plain(self) -> dict[str, Any]:
        """The window as an entry of a range file."""
        said = {"edge": self.edge, "topic": self.topic, "partition": self.partition}
        bounds = {"from": self.since and self.since.text, "to": self.until and self.until.text}
        return {name: value for name, value in (said | bounds).items() if value is not None}

    @classmethod
    def of(cls, body: Mapping[str, Any], now: datetime) -> Self:
        """Read an entry of a range file.

        Raises:
            ValueError: it is none.
        """
        unknown = set(body) - {"edge", "topic", "partition", "from", "to"}
        if unknown:
            raise ValueError(f"knows edge, topic, partition, from, to; not {', '.join(sorted(map(str, unknown)))}")
        since, until = body.get("from"), body.get("to")
        partition = body.get("partition")
        return cls(
            body.get("edge"),
            body.get("topic"),
            None if partition is None else int(partition),
            None if since is None else Bound.parse(str(since), now),
            None if until is None else Bound.parse(str(until), now),
        )


@dataclass(frozen=True, slots=True)
class Letters:
    """Selects dead letters only. An attribute without a value selects any.

    Attributes:
        reason: Their reason code.
        keys: Their coordinates, as `edge/topic/partition/offset/incarnation`.
    """

    reason: str | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """Describes what a backfill is asked to write.

    Attributes:
        windows: The requested windows; an offset that any of them covers is requested.
        mode: The place where the records go.
        into: Name of the generation, with `Mode.INTO`.
        letters: Dead letters only, and which; None: everything that the mode speaks of.
    """

    windows: tuple[Window, ...]
    mode: Mode = Mode.MISSING
    into: str = ""
    letters: Letters | None = None

    def __post_init__(self) -> None:
        """Refuse a generation without a usable name.

        Raises:
            FatalError: the name is no part of a topic's name.
        """
        if (self.mode is Mode.INTO) != bool(self.into) or (self.into and not _GENERATION.fullmatch(self.into)):
            raise FatalError(
                "a generation's name is 1 to 40 letters, digits, underscores and hyphens, and no restate-…",
                hint="say --into v2: the topic becomes <topic>.v2, the table <table>_v2",
            )

    def plain(self) -> dict[str, Any]:
        """The ask as plain data for JSON and YAML."""
        body: dict[str, Any] = {"mode": self.mode.value, "windows": [window.plain() for window in self.windows]}
        if self.into:
            body["into"] = self.into
        if self.letters is not None:
            body["letters"] = {name: value for name, value in asdict(self.letters).items() if value}
        return body

    @property
    def digest(self) -> str:
        """A digest that is equal for equal asks."""
        return hashlib.blake2b(json.dumps(self.plain(), sort_keys=True).encode(), digest_size=8).hexdigest()
