"""Loads a YAML file and an environment into the frozen configuration.

Invariant: every fault of the file is reported at once, each as `file:line: place: what is wrong`. No fault holds a
value. Paths in the result are absolute, so that a worker with another working directory reads the same files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from aggregator.config.checks import Parts, cross_faults
from aggregator.config.document import ConfigFault, Document, Place, read_document, show_place, shown_lines, unknown
from aggregator.config.features import FeatureCheck
from aggregator.config.interpolation import interpolate
from aggregator.config.lake_model import TableConfig
from aggregator.config.librdkafka import ROLES
from aggregator.config.lint import FILE_SETTINGS, endless_files
from aggregator.config.model import ClusterConfig, EdgeConfig, HubConfig, TopicRule
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.config.stores import insecure_environment_settings
from aggregator.config.transport import INSECURE
from aggregator.errors import ConfigError
from aggregator.regular_files import read_text

Cluster = TypeVar("Cluster", bound=ClusterConfig)
_CLIENT: TypeAdapter[ClusterConfig] = TypeAdapter(ClusterConfig)

_TEXTS = {
    "missing": "is missing",
    "model_type": "is a section of keys",
    "dict_type": "is a section of keys",
    "tuple_type": "is a list",
    "string_type": "is empty, or not plain text",
    "path_type": "is empty, or not plain text",
}
_NAMES = {
    "hub": "is 1 to 64 letters, digits, dots, underscores and hyphens",
    "edges": "an edge name is 1 to 32 lower-case letters, digits and hyphens (no dot: it separates edge and topic)",
}


# A file that is not a configuration at all may have a fault in each line.
_FAULTS_MADE = 1000


def load_config(
    path: Path,
    environ: Mapping[str, str],
    judge: FeatureCheck | None = None,
    trial: Callable[[HubConfig], Iterator[ConfigFault]] | None = None,
) -> HubConfig:
    """Read, fill in, validate and cross-check one configuration.

    Args:
        path: The YAML file; relative paths in it are relative to its folder.
        environ: The values of `${NAME}`, and the variables that a store's client would read.
        judge: Says what the library at hand cannot carry out of a cluster's `client:` block.
        trial: Says of which settings, taken together, no client can be made; asked where nothing else is wrong.

    Raises:
        ConfigError: the file cannot be read, or the list of all its faults.
    """
    folder = path.absolute().parent
    document = read_document(_text(path))
    filled, faults = interpolate(document.data, environ, folder)
    faults = document.faults + faults
    if document.data is None:
        raise _error(path, document, faults or [ConfigFault((), "holds nothing")])
    if not isinstance(filled, dict):
        raise _error(path, document, [*faults, ConfigFault((), "is a section of keys: hub, central, edges, …")])
    try:
        config = HubConfig.model_validate(filled)
    except ValidationError as error:
        faults += _unseen(faults, (_fault(details, filled) for details in error.errors()[:_FAULTS_MADE]), filled)
    faults += _unseen(faults, cross_faults(Parts.of(filled), folder), filled)
    faults += _outside(filled.get("lake"), environ)
    faults += _unsupported(filled, judge) if judge else ()
    if faults:
        raise _error(path, document, faults)
    anchored = _anchored(config, folder)
    if found := list(endless_files(anchored)):
        raise _error(path, document, found)
    if trial and (found := list(trial(anchored))):
        raise _error(path, document, found)
    return anchored


def _outside(lake: Any, environ: Mapping[str, str]) -> Iterator[ConfigFault]:
    """The forbidden settings that a store's or a catalogue's client would read from the environment."""
    catalog = lake.get("catalog") if isinstance(lake, dict) else None
    has_options = isinstance(catalog, dict) and bool(catalog.get("options"))
    if has_options or (isinstance(lake, dict) and "://" in str(lake.get("path"))):
        for one in insecure_environment_settings(environ):
            what = f"the environment's {one.setting} {one.what}; take it out there, and write what is meant here"
            yield ConfigFault(("lake",), what)


def _unsupported(filled: Mapping[str, Any], judge: FeatureCheck) -> Iterator[ConfigFault]:
    """What no client supports in blocks that are valid by themselves."""
    edges = filled.get("edges")
    named = [(("edges", name), edge) for name, edge in (edges.items() if isinstance(edges, dict) else ())]
    for place, section in [(("central",), filled.get("central")), *named]:
        given = section if isinstance(section, dict) else {}
        for names in (("client", "msk_iam"), *((role,) for role in ROLES)):
            block, known = names[0], {name: given[name] for name in names if name in given}
            try:
                cluster = _CLIENT.validate_python({"bootstrap_servers": "any:1"} | known)
            except ValidationError:
                continue  # told already
            yield from (ConfigFault((*place, block, name), why) for name, why in judge(getattr(cluster, block)))


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        hint = "aggregator init writes a first one; --config names another"
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", hint=hint) from None
    except ValueError:
        raise ConfigError(f"{path}: is not UTF-8 text", hint="save the file as UTF-8") from None


def _unseen(before: Iterable[ConfigFault], later: Iterable[ConfigFault], data: Any) -> list[ConfigFault]:
    """Faults that do not follow from an earlier one: a value that could not be filled in is not missing as well."""
    emptied = [fault.place for fault in before if _at(data, fault.place) is None]
    return [fault for fault in later if all(place[: len(fault.place)] != fault.place for place in emptied)]


def _at(data: Any, place: Place) -> Any:
    for step in place:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def placed_faults(path: Path, faults: Iterable[ConfigFault]) -> ConfigError | None:
    """Faults that were found after a file was loaded, with their lines in it; None where there are none.

    Args:
        path: The file.
        faults: Each with its place.
    """
    found = list(faults)
    return _error(path, read_document(_text(path)), found) if found else None


def _error(path: Path, document: Document, faults: Iterable[ConfigFault]) -> ConfigError:
    placed = sorted(((fault.line or document.line(fault.place), fault) for fault in faults), key=lambda item: item[0])
    lines = shown_lines(path, [f"{path}:{line}: {show_place(fault.place)}: {fault.message}" for line, fault in placed])
    hint = f"correct {'it' if len(lines) == 1 else 'them'}, then: aggregator config lint --config {path}"
    return ConfigError(lines, hint=hint)


def _fault(details: ErrorDetails, data: Any) -> ConfigFault:
    """One of pydantic's errors in the words of this project, without the value that it refused."""
    place = _place(details["loc"], data)
    kind = details["type"]
    if kind == "extra_forbidden":
        return ConfigFault(place, _unknown(place))
    if kind == "string_pattern_mismatch":
        return ConfigFault(place, _NAMES[str(place[0]) if place[0] in _NAMES else "edges"])
    if place[-2:-1] == ("client",) and place[-1] in ROLES:
        return ConfigFault(place, f"stands beside `client:`, not in it: `{place[-1]}: {{…}}` of the same cluster")
    message = _TEXTS.get(kind) or details["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
    return ConfigFault(place, message)


def _place(loc: tuple[int | str, ...], data: Any) -> Place:
    """The part of pydantic's location that exists in the document, and a missing key at its end."""
    place: list[int | str] = []
    for step in loc:
        if step == "[key]":
            break
        if isinstance(data, dict):
            place.append(step)
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int):
            place.append(step)
            data = data[step]
        else:
            break  # names of validators and of union members
    return tuple(place)


def _unknown(place: Place) -> str:
    if place[-1] == INSECURE:
        return (
            "is for `client:`, `schemas_client:`, `lake.storage` and `catalog.options`: it stands beside the setting "
            "that it is about"
        )
    return unknown(str(place[-1]), _section(place[:-1]).model_fields)


def _section(place: Place) -> type[BaseModel]:
    """The model of a section; below a section of names the user chooses, the model of its entries."""
    section: type[BaseModel] = HubConfig
    if place and place[0] in ("edges", "topics"):
        section, place = (EdgeConfig if place[0] == "edges" else TopicRule), place[2:]
    for step in place:
        if str(step) in section.model_fields:
            section = next(_models(section.model_fields[str(step)].annotation))
    return section


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _models(part)


def _anchored(config: HubConfig, folder: Path) -> HubConfig:
    """Every relative path made absolute, seen from the folder of the file that names it."""
    keys = {
        name: KeyRing(ring.current, tuple((version, _reference(ref, folder)) for version, ref in ring.versions))
        for name, ring in config.keys.items()
    }
    changes: dict[str, object] = {
        "central": _cluster(config.central, folder),
        "edges": {
            name: _cluster(edge, folder).model_copy(
                update={
                    "schemas": _registry(edge.schemas, folder),
                    "schemas_client": _options(edge.schemas_client, folder),
                }
            )
            for name, edge in config.edges.items()
        },
        "schemas": _registry(config.schemas, folder),
        "schemas_client": _options(config.schemas_client, folder),
        "topics": tuple(rule.model_copy(update={"policy": folder / rule.policy}) for rule in config.topics),
        "keys": keys,
        "ui": config.ui.model_copy(update={"token": config.ui.token and _reference(config.ui.token, folder)}),
        "metrics": config.metrics.model_copy(
            update={"token": config.metrics.token and _reference(config.metrics.token, folder)}
        ),
    }
    if config.lineage:
        key, file = config.lineage.api_key, config.lineage.file
        to = f"file:{folder / file}" if file else config.lineage.to
        changes["lineage"] = config.lineage.model_copy(update={"api_key": key and _reference(key, folder), "to": to})
    if config.otlp:
        headers = {name: _reference(secret, folder) for name, secret in config.otlp.headers.items()}
        changes["otlp"] = config.otlp.model_copy(update={"headers": headers})
    if config.spark.secret:
        changes["spark"] = config.spark.model_copy(update={"secret": _reference(config.spark.secret, folder)})
    if config.lake:
        catalog = config.lake.catalog
        catalog = catalog.model_copy(update={"options": _options(catalog.options, folder)})
        tables = {name: _table(table, folder) for name, table in config.lake.tables.items()}
        path = config.lake.path
        changes["lake"] = config.lake.model_copy(
            update={
                "path": path if "://" in path else str(folder / path),
                "storage": _options(config.lake.storage, folder),
                "catalog": catalog,
                "tables": tables,
            }
        )
    return config.model_copy(update=changes)


def _cluster(cluster: Cluster, folder: Path) -> Cluster:
    blocks = ("client", *ROLES)
    return cluster.model_copy(update={block: _options(getattr(cluster, block), folder) for block in blocks})


def _table(table: TableConfig, folder: Path) -> TableConfig:
    quality = tuple(one.model_copy(update={"suite": folder / one.suite}) for one in table.quality)
    return table.model_copy(update={"quality": quality})


def _options(options: Mapping[str, str | SecretRef], folder: Path) -> dict[str, str | SecretRef]:
    return {
        name: _reference(value, folder) if isinstance(value, SecretRef) else _location(name, value, folder)
        for name, value in options.items()
    }


def _reference(reference: SecretRef, folder: Path) -> SecretRef:
    return SecretRef("file", str(folder / reference.target)) if reference.scheme == "file" else reference


def _location(name: str, value: str, folder: Path) -> str:
    """Certificates, keytabs and assertions are files too: `ssl.ca.location`, except its word `probe`."""
    return str(folder / value) if name.endswith(FILE_SETTINGS) and value != "probe" else value


def _registry(reference: str | None, folder: Path) -> str | None:
    if reference is None or not reference.startswith("directory:"):
        return reference
    return f"directory:{folder / reference.removeprefix('directory:')}"
