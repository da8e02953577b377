"""`aggregator import`: translates MirrorMaker's configuration into a `hub.yaml` and a policy that lets no value pass.

Invariant: nothing is overwritten, nothing connects, and no file and no line holds the value of a secret. The files that
are written have passed the loader.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aggregator.cli.terminal.output import emit, output_option, refuse_overwriting, table
from aggregator.count_text import format_count
from aggregator.errors import ConfigError, FatalError

if TYPE_CHECKING:
    from aggregator.mirrormaker.result import HubDraft, Imported, KeyOutcome

VERSION = 1
_WIDTH = 60
_POLICIES = "policies"
EXAMPLE = """\b
Examples:
  aggregator import mm2.properties
  aggregator import source.json checkpoint.json heartbeat.json --out hub
  aggregator import mirror-maker-2.yaml -o json
  aggregator import consumer.properties producer.properties --whitelist "orders|payments.*"
"""


@click.command(name="import", epilog=EXAMPLE)
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE...")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The folder to write into; this one by default.",
)
@click.option("--whitelist", metavar="PATTERN", help="Topics, as on the command line of MirrorMaker 1.")
@output_option
def import_(files: tuple[Path, ...], out: Path, whitelist: str | None, output: str) -> None:
    """Write a hub.yaml and a policy from MirrorMaker's configuration.

    Reads the file of connect-mirror-maker.sh, connectors as Connect's REST has them, Strimzi's KafkaMirrorMaker2, or
    the consumer's and the producer's properties of MirrorMaker 1. Says of every key what became of it. Of several
    targets each has a folder of its own. The policy lets nothing pass until you open it.
    """
    from aggregator.mirrormaker.file_reader import MAX_BYTES, WHITELIST, read
    from aggregator.mirrormaker.hub_file import hub_text, policy_text
    from aggregator.mirrormaker.translate import translate

    contents = [(str(path), _content(path, MAX_BYTES)) for path in files]
    if whitelist is not None:
        contents.append((WHITELIST, _as_property(whitelist)))
    found = translate(read(contents))
    written: dict[Path, str] = {}
    folders = _folders(found, out)
    for hub in found.hubs:
        written[folders[hub.name] / hub.policy_path] = policy_text(hub)
        written[folders[hub.name] / "hub.yaml"] = hub_text(hub)
    refuse_overwriting(written, "name another folder with --out")
    _try_out(written, out, found.stand_ins)
    _write(written)
    emit(_answer(found, folders), output, lambda: _lines(found, folders))


def _content(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise FatalError(f"{path}: cannot be read: {error.strerror}", hint="name a file of MirrorMaker") from None


def _as_property(whitelist: str) -> bytes:
    """The option as a line of MirrorMaker 1's consumer."""
    escaped = whitelist.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"whitelist={escaped}\n".encode(errors="backslashreplace")


def _folders(found: "Imported", out: Path) -> dict[str, Path]:
    """The folder of each hub's files, by the hub's name."""
    if len(found.hubs) == 1:
        return {found.hubs[0].name: out}
    return {hub.name: out / hub.name for hub in found.hubs}


def _try_out(written: Mapping[Path, str], out: Path, stand_ins: Mapping[str, str]) -> None:
    """Load all files from a scratch folder, so that a refusal leaves nothing behind."""
    from aggregator.config.load import load_config
    from aggregator.privacy.policy.file import load_policy

    with tempfile.TemporaryDirectory(prefix="aggregator-import-") as folder:
        for path, text in written.items():
            tried = Path(folder, path.relative_to(out))
            tried.parent.mkdir(parents=True, exist_ok=True)
            tried.write_text(text, encoding="utf-8")
        try:
            for path in written:
                tried = Path(folder, path.relative_to(out))
                if path.parent.name != _POLICIES:
                    load_config(tried, {**os.environ, **stand_ins})
                else:
                    load_policy(tried)
        except ConfigError as error:
            lines = [line.replace(f"{folder}/", "") for line in error.lines]
            hint = "change this in MirrorMaker's file, or leave it out there, and import it again"
            raise ConfigError(["nothing was written, because it could not be used:", *lines], hint=hint) from None


def _write(written: Mapping[Path, str]) -> None:
    """Write all files, or leave none behind when one cannot be written."""
    begun: list[Path] = []
    try:
        for path, text in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                begun.append(path)
                file.write(text)
    except OSError as error:
        for done in begun:
            done.unlink(missing_ok=True)
        raise FatalError(f"{path}: {error.strerror}", hint="name a folder that can be written with --out") from None


def _answer(found: "Imported", folders: Mapping[str, Path]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "form": found.form,
        "hubs": [_hub(hub, folders[hub.name]) for hub in found.hubs],
        "keys": [
            {
                "key": one.key,
                "file": one.file,
                "line": one.line,
                "outcome": one.kind.value,
                "to": one.to,
                "why": one.why,
            }
            for one in found.outcomes
        ],
        "variables": [{"name": name, "holds": what} for name, what in found.variables.items()],
        "commands": list(found.commands),
        "remarks": list(found.remarks),
    }


def _hub(hub: "HubDraft", folder: Path) -> dict[str, Any]:
    return {
        "hub": hub.name,
        "target": hub.target,
        "edges": list(hub.edges),
        "config": str(folder / "hub.yaml"),
        "policy": str(folder / hub.policy_path),
    }


def _lines(found: "Imported", folders: Mapping[str, Path]) -> Iterator[str]:
    yield from table(("keys", "outcome", "becomes, or why not"), _rows(found.outcomes))
    yield ""
    yield f"read as {found.form}: {format_count(len(found.outcomes), 'key')}"
    for hub in found.hubs:
        edges = ", ".join(hub.edges)
        yield f"{folders[hub.name] / 'hub.yaml'}: {format_count(len(hub.edges), 'edge')} ({edges}) into {hub.target}"
        yield f"{folders[hub.name] / hub.policy_path}: nothing passes yet"
    yield from (f"note: {remark}" for remark in found.remarks)
    if found.variables:
        yield "set before `config lint` and a run:"
        yield from (f"  {name}: {what}" for name, what in found.variables.items())
    if found.commands:
        folder = folders[found.hubs[0].name]
        yield f"run in {folder if len(found.hubs) == 1 else folder.parent}:"
        yield from (f"  {command}" for command in found.commands)
    for hub in found.hubs:
        config = folders[hub.name] / "hub.yaml"
        yield f"next: name the registries in {config}, then: aggregator config lint --config {config}"
    yield "then: aggregator policy suggest, open the fields that may pass, aggregator doctor, aggregator plan"


def _rows(outcomes: "Sequence[KeyOutcome]") -> Iterator[tuple[str, str, str]]:
    """Keys that fared alike in one row, which is broken where it would be long."""
    from aggregator.mirrormaker.result import NO_KEY

    alike: dict[tuple[str, str], list[str]] = {}
    files = Counter(key for key, _ in {(one.key, one.file) for one in outcomes})
    for one in outcomes:
        told = f"{one.to}: {one.why}" if one.to and one.why else one.to or one.why or "MirrorMaker does not know it"
        shown = f"line {one.line}" if one.key == NO_KEY else one.key
        shown += f" ({Path(one.file).name})" if files[one.key] > 1 else ""
        alike.setdefault((one.kind.value, told), []).append(shown)
    order = ("mapped", "not applicable", "unknown")
    for (kind, told), keys in sorted(alike.items(), key=lambda one: order.index(one[0][0])):
        first, *more = _broken(keys)
        yield first, kind, told
        yield from ((line, "", "") for line in more)


def _broken(keys: Sequence[str]) -> list[str]:
    lines = [""]
    for key in dict.fromkeys(keys):
        joined = f"{lines[-1]}, {key}" if lines[-1] else key
        if lines[-1] and len(joined) > _WIDTH:
            lines[-1] += ","
            lines.append(key)
        else:
            lines[-1] = joined
    return lines
