"""Checks that compare several fields of a configuration with each other.

Invariant: these checks run on the valid parts even where other parts of the file have faults. One run therefore reports
every fault.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from aggregator.config.collisions import collisions, reserved_hits, reserved_names, targets
from aggregator.config.document import ConfigFault, Place
from aggregator.config.glue import is_glue
from aggregator.config.lake_model import CURRENT, QUALITY, QUARANTINE, TableConfig
from aggregator.config.match import matches_topic
from aggregator.config.model import TopicRule
from aggregator.config.secrets import SecretRef
from aggregator.config.suites import SuiteFaults, load_suite
from aggregator.config.transport import registry_faults
from aggregator.config.value_types import EdgeName, HubName, RegistryOptions

_EDGE_NAME: TypeAdapter[str] = TypeAdapter(EdgeName)
_HUB_NAME: TypeAdapter[str] = TypeAdapter(HubName)
_RULE: TypeAdapter[TopicRule] = TypeAdapter(TopicRule)
_REGISTRY_OPTIONS: TypeAdapter[dict[str, str | SecretRef]] = TypeAdapter(RegistryOptions)
_TABLE: TypeAdapter[TableConfig] = TypeAdapter(TableConfig)
_BESIDE = (QUALITY, QUARANTINE)
_NONE = "without a registry, `directory:schemas` names a folder for them"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """The valid parts of a document. The model's own checks report the parts that are None or missing.

    Attributes:
        hub: The hub's name.
        edges: Edge name to whether it names a registry.
        drafts: Place in `topics` to a rule as written, of any shape.
        rules: Place in `topics` to the rule, where it is valid in itself.
        schemas: Whether central has a registry.
        registry_faults: Faults between registries and the options of their clients.
        lake: Whether there is a lake section.
        tables: Lake name to what is said of that table, where it is valid in itself.
        key_faults: Names of keys that there are not.
        lake_faults: The lake's own settings that have no effect, or are missing.
    """

    hub: str | None
    edges: Mapping[str, bool]
    drafts: Mapping[int, Mapping[str, Any]]
    rules: Mapping[int, TopicRule]
    schemas: bool
    registry_faults: tuple[ConfigFault, ...]
    lake: bool
    tables: Mapping[str, TableConfig]
    lake_faults: tuple[ConfigFault, ...]
    key_faults: tuple[ConfigFault, ...]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Parts":
        """Pick the valid parts out of plain data of any shape."""
        edges = data.get("edges")
        topics = data.get("topics")
        drafts = enumerate(topics if isinstance(topics, list) else ())
        rules = {index: draft for index, draft in drafts if isinstance(draft, dict)}
        return cls(
            hub=_valid(_HUB_NAME, data.get("hub")),
            edges={
                name: bool(edge.get("schemas")) if isinstance(edge, dict) else True
                for name, edge in (edges.items() if isinstance(edges, dict) else ())
                if _valid(_EDGE_NAME, name)
            },
            drafts=rules,
            rules={index: rule for index, draft in rules.items() if (rule := _valid(_RULE, draft))},
            schemas=bool(data.get("schemas")),
            registry_faults=tuple(_registry_faults(data)),
            lake=bool(data.get("lake")),
            tables={name: table for name, draft in _tables(data) if (table := _valid(_TABLE, draft))},
            lake_faults=(*_lake_faults(data.get("lake")), *_lineage_faults(data)),
            key_faults=tuple(_key_faults(data)),
        )


def _key_faults(data: Mapping[str, Any]) -> Iterator[ConfigFault]:
    name, keys = data.get("chain_key"), data.get("keys")
    if isinstance(name, str) and name not in (keys if isinstance(keys, dict) else {}):
        yield ConfigFault(("chain_key",), "no key has the name that stands here: `keys` lists them")


def _lake_faults(lake: object) -> Iterator[ConfigFault]:
    if not isinstance(lake, dict):
        return
    path, catalog = str(lake.get("path", "")), lake.get("catalog")
    registered = isinstance(catalog, dict) and bool(catalog.get("options"))
    if registered and lake.get("format", "delta") == "delta":
        yield ConfigFault(("lake", "catalog"), "is for `format: iceberg`; Delta tables are registered nowhere")
    if lake.get("storage") and "://" not in path:
        yield ConfigFault(("lake", "storage"), "is for an address as s3://; a folder needs no options")
    if lake.get("format") == "iceberg" and "://" in path and not path.startswith("file://") and not registered:
        yield ConfigFault(("lake", "path"), "is an object store, where no SQLite file can lie: give `catalog.options`")


def _lineage_faults(data: Mapping[str, Any]) -> Iterator[ConfigFault]:
    if data.get("lineage") and not data.get("lake"):
        yield ConfigFault(("lineage",), "tells of the commits of tables, and there is no `lake`")


def _tables(data: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    lake = data.get("lake")
    tables = lake.get("tables") if isinstance(lake, dict) else None
    return tables.items() if isinstance(tables, dict) else ()


def _registry_faults(data: Mapping[str, Any]) -> Iterator[ConfigFault]:
    edges = data.get("edges")
    named: list[tuple[Place, Any]] = [
        (("edges", name), edge) for name, edge in (edges.items() if isinstance(edges, dict) else ())
    ]
    if is_glue(str(data.get("schemas"))):
        yield ConfigFault(
            ("schemas",), "is only read at an edge: central's registry has Confluent's REST API, or is a directory"
        )
    for before, section in [*named, ((), data)]:
        written = section.get("schemas_client") if isinstance(section, Mapping) else None
        place, address = (*before, "schemas_client"), str(section.get("schemas")) if written else ""
        if written and not address.startswith(("http://", "https://", "glue:")):
            yield ConfigFault(place, "is for a registry behind an address; `schemas` beside it names none")
        elif options := _valid(_REGISTRY_OPTIONS, written):
            found = registry_faults(address, options)
            yield from (ConfigFault((*place, name), why) for name, why in found)


def _valid(kind: TypeAdapter[T], value: object) -> T | None:
    try:
        return kind.validate_python(value)
    except ValidationError:
        return None


def cross_faults(parts: Parts, folder: Path) -> list[ConfigFault]:
    """Everything that is wrong between fields.

    Args:
        parts: The readable parts of the configuration.
        folder: The base folder of relative policy paths.
    """
    return [*_registries(parts), *_rules(parts, folder), *_names(parts), *_quality(parts, folder), *_lake(parts)]


def _registries(parts: Parts) -> Iterator[ConfigFault]:
    yield from parts.registry_faults
    if not parts.drafts:
        return
    if not parts.schemas:
        yield ConfigFault(("schemas",), f"is missing: topics need one for the schemas that central gets; {_NONE}")
    read = [_listed(draft, "edges") for draft in parts.drafts.values()]
    for edge, has_registry in parts.edges.items():
        if not has_registry and any(edges is None or edge in edges for edges in read):
            yield ConfigFault(("edges", edge, "schemas"), f"is missing: a rule under `topics` reads this edge; {_NONE}")


def _rules(parts: Parts, folder: Path) -> Iterator[ConfigFault]:
    for index, draft in parts.drafts.items():
        place: Place = ("topics", index)
        policy = draft.get("policy")
        edges = _listed(draft, "edges")
        if draft.get("lake") is not None and not parts.lake:
            yield ConfigFault((*place, "lake"), "names a table, but there is no `lake:` section")
        if isinstance(policy, str) and not (folder / policy).is_file():
            what = "is no regular file" if (folder / policy).exists() else "there is no such file"
            yield ConfigFault((*place, "policy"), f"{what} (relative paths are relative to this file)")
        if edges == []:
            yield ConfigFault((*place, "edges"), "is empty; leave it out for all edges")
        for position, edge in enumerate(edges or ()):
            if edge not in parts.edges:
                yield ConfigFault((*place, "edges", position), "is no edge under `edges:`")
    yield from _unreached(parts)


def _listed(draft: Mapping[str, Any], key: str) -> list[Any] | None:
    value = draft.get(key)
    return value if isinstance(value, list) else None


def _unreached(parts: Parts) -> Iterator[ConfigFault]:
    """The first rule that matches a topic at an edge takes it; the same pattern again takes nothing."""
    first: dict[tuple[str, str | None, str], int] = {}
    for index, rule in parts.rules.items():
        edges = parts.edges if rule.edges is None else rule.edges
        earlier = {first.setdefault((rule.match, rule.exclude, edge), index) for edge in edges} - {index}
        earlier |= {first.get((rule.match, None, edge), index) for edge in edges} - {index}
        if earlier:
            taken = f"is the same as that of topics[{min(earlier)}], which takes the topic first"
            yield ConfigFault(("topics", index, "match"), taken)


def _names(parts: Parts) -> Iterator[ConfigFault]:
    rules = dict(parts.rules)
    every = targets(list(rules.items()), list(parts.edges))
    for found in collisions(rules, every):
        later, other = sorted((found.first, found.second), key=lambda target: target.rule, reverse=True)
        where = f" (for example `{found.name}`)" if found.name else ""
        yield ConfigFault(
            ("topics", later.rule, "central"),
            f"different topics could meet in one central topic{where}: edge {later.edge} here, "
            f"edge {other.edge} under topics[{other.rule}]; narrow `match` or change a `central` pattern",
        )
    names = reserved_names(parts.hub, list(parts.edges)) if parts.hub else []
    for index, hit in reserved_hits(rules, every, names).items():
        yield ConfigFault(
            ("topics", index, "central"),
            f"could write into {hit}, which is the hub's own; use `{{edge}}.{{topic}}` or narrow `match`",
        )


def _lake(parts: Parts) -> Iterator[ConfigFault]:
    """Settings of the lake that would do nothing, and tables that would meet another's."""
    yield from parts.lake_faults
    yield from parts.key_faults
    for index, rule in parts.rules.items():
        if rule.lake is not None and rule.lake.endswith(CURRENT):
            yield ConfigFault(("topics", index, "lake"), f"ends in {CURRENT}: the hub keeps current states there")
    if len(parts.rules) < len(parts.drafts):
        return
    for name, table in parts.tables.items():
        if not table.quality and not any(map(_feeds(name), parts.rules.values())):
            yield ConfigFault(("lake", "tables", name), "is a table that no rule under `topics` feeds")


def _quality(parts: Parts, folder: Path) -> Iterator[ConfigFault]:
    """Suites that cannot be used, and suites that would never be."""
    for index, rule in parts.rules.items():
        if rule.lake is not None and rule.lake.endswith(_BESIDE):
            yield ConfigFault(
                ("topics", index, "lake"), f"ends in {' or '.join(_BESIDE)}: the quality gate writes those"
            )
    for name, table in parts.tables.items():
        place: Place = ("lake", "tables", name, "quality")
        if table.quality and len(parts.rules) == len(parts.drafts) and not any(map(_feeds(name), parts.rules.values())):
            yield ConfigFault(place, "is of a table that no rule under `topics` feeds: nothing would be audited")
        names: set[str] = set()
        views: dict[str, str] = {}
        for index, one in enumerate(table.quality):
            try:
                suite = load_suite(folder / one.suite, one.on_failure)
            except SuiteFaults as error:
                yield from (ConfigFault((*place, index, "suite"), fault) for fault in error.faults)
                continue
            if suite.name in names:
                yield ConfigFault((*place, index, "suite"), f"has the name of another one of this table, {suite.name}")
            if any(views.get(view, path) != path for view, path in suite.views.items()):
                yield ConfigFault(
                    (*place, index, "suite"), "gives a view another path than an earlier suite of this table"
                )
            names.add(suite.name)
            views |= suite.views


def _feeds(table: str) -> Callable[[TopicRule], bool]:
    """Whether a rule's topics could go into this table."""

    def feeds(rule: TopicRule) -> bool:
        pattern = re.escape(rule.lake or "").replace(r"\{topic\}", "(?P<topic>.+)").replace(r"\{edge\}", "[a-z0-9-]+")
        found = re.fullmatch(pattern, table)
        return found is not None and ("topic" not in found.groupdict() or matches_topic(rule, found["topic"]))

    return feeds
