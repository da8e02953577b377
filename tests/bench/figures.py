"""Figures of the documentation, made from the benches' answers: tables and plots in marked blocks, never typed.

    python -m tests.bench.figures RESULT.json [RESULT.json …]

A result is what a bench printed with `-o json`; its kind is told from its keys. It is kept in `tests/bench/results`,
and every block of that kind, between `<!-- figures: KIND -->` and `<!-- end -->`, is written anew in README.md,
ARCHITECTURE.md and docs/*.md. Without a result the blocks are written from what is kept. A test holds that they agree.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
_BLOCK = re.compile(r"(<!-- figures: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NAMES = {
    "mm2_exactly_once": "MirrorMaker 2, exactly once",
    "mm2_at_least_once": "MirrorMaker 2, at least once",
    "plain_copy": "plain client, no guarantees",
    "hub_keep": "hub, everything kept",
    "hub_drop_5": "hub, five fields dropped",
    "hub_mixed": "hub, three dropped, two pseudonymised",
    "hub": "hub",
}
_SIZES = {
    "160_bytes": "160 bytes, a tenth of the identifiers distinct",
    "160_bytes_all_distinct": "160 bytes, all identifiers distinct",
    "1_kb": "1 kB, a tenth of the identifiers distinct",
}
_WARM = {
    "mm2_exactly_once": "MirrorMaker 2, exactly once",
    "hub_keep": "hub, everything kept",
    "hub_drop_5": "hub, seven fields dropped",
    "hub_mixed_1": "hub, five dropped, two and the key pseudonymised, 1 % distinct",
    "hub_mixed_10": "hub, five dropped, two and the key pseudonymised, 10 % distinct",
    "hub_mixed_100": "hub, five dropped, two and the key pseudonymised, all distinct",
}
GLIBC = "glibc's malloc"
_WARM_RATIOS = ("warm_cpu_us", "warm_records_per_s", "peak_mb")
Result = Mapping[str, Any]


def pages() -> list[Path]:
    """Where blocks may stand."""
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]


def kind_of(result: Result) -> str:
    """Which bench printed this.

    Raises:
        ValueError: none that is known here.
    """
    for key, kind in (
        ("cpu_ratio_vs_mm2_eos", "contest"),
        ("epoch_change", "latency"),
        ("after_bare_s", "start"),
        ("simulated", "scale"),
        ("slots_1", "slots"),
        ("booking", "strip"),
        ("ratio_vs_polars", "lake"),
        ("compression_cpu_ratio", "compression"),
        ("limit_bytes_per_s", "rate-limit"),
        ("far_ms", "wan"),
        ("idle", "idle"),
        ("mirrormaker_2", "offsets"),
        ("formats", "commits"),
        ("refresh_s", "current"),
        ("many_tables", "tables"),
        ("where_us", "where"),
    ):
        if key in result:
            return kind
    if "warm_codecs" in result:
        return _warm_kind(result)
    raise ValueError(f"no bench of ours prints {sorted(result)}")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def bars(title: str, unit: str, values: Mapping[str, float]) -> str:
    """A bar plot that GitHub draws."""
    names = ", ".join(f'"{name}"' for name in values)
    drawn = ", ".join(f"{value:g}" for value in values.values())
    top = f"{max(values.values()) * 1.1:.3g}"
    return (
        f'```mermaid\nxychart-beta horizontal\n  title "{title}"\n  x-axis [{names}]\n'
        f'  y-axis "{unit}" 0 --> {top}\n  bar [{drawn}]\n```'
    )


def lines(title: str, values: Iterable[Sequence[float]], places: Sequence[int]) -> str:
    """A plot of several lines that GitHub draws, in the order in which the title names them."""
    series = [*values]
    drawn = "".join(f"\n  line [{', '.join(f'{value:g}' for value in one)}]" for one in series)
    top = f"{max(max(one) for one in series) * 1.1:.3g}"
    axis = ", ".join(map(str, places))
    return f'```mermaid\nxychart-beta\n  title "{title}"\n  x-axis [{axis}]\n  y-axis "ms" 0 --> {top}{drawn}\n```'


def contest(result: Result) -> str:
    """Beside MirrorMaker 2: every contestant's cost, by size of record."""
    parts = [_command(result)]
    head = (
        "contestant", "records/s", "CPU µs/record", "CPU ratio", "throughput ratio", "brokers µs/record", "peak MB",
    )  # fmt: skip
    for size, words in _SIZES.items():
        found = result[size]
        rows = [
            (
                _NAMES[name],
                f"{figures['records_per_s']:,.0f}",
                f"{figures['cpu_us']:.2f}",
                _spread(found["cpu_ratio_vs_mm2_eos"][name]),
                _spread(found["throughput_ratio_vs_mm2_eos"][name]),
                f"{figures['brokers_us']:.2f}",
                f"{figures['peak_mb']:,.0f}",
            )
            for name, figures in found["medians"].items()
        ]
        parts += [f"{words}:", table(head, rows)]
    return "\n\n".join((*parts, _plot(result)))


def _warm_kind(result: Result) -> str:
    """A run of other codecs alone, or with glibc's malloc, does not replace what the headline is made of."""
    codecs = () if "none" in result["warm_codecs"] else result["warm_codecs"]
    return "-".join(("warm", *(("glibc",) if result["hub_malloc"] == GLIBC else ()), *codecs))


def where(result: Result) -> str:
    """Where the hub's CPU goes, by thread, in rows that add up."""
    asked = " ".join(f"--{name} {result[name]}" for name in ("records", "rounds", "distinct"))
    spent, names = result["where_us"], ("hub_keep", "hub_drop_5", "hub_mixed")
    slots = next(iter(spent["hub_keep"]))
    rows: list[tuple[str, ...]] = []
    for row in spent["hub_keep"]:
        rows.append((row, *(f"{spent[name][row]:.2f}" for name in names)))
        if row == slots:
            rows.append(("… of which strip alone", *(f"{result['strip_us'][name]:.2f}" for name in names)))
    rows.append(("all", *(f"{sum(spent[name].values()):.2f}" for name in names)))
    head = ("CPU µs per record", "everything kept", "seven dropped", "five dropped, two and the key pseudonymised")
    command = _measured(f"python -m tests.bench.where {asked} -o json", result)
    return f"{command}, the hub's workers with {result['hub_malloc']}\n\n{table(head, rows)}"


def warm(result: Result) -> str:
    """Beside MirrorMaker 2 when everybody is warm, by codec."""
    parts = [_warm_command(result)]
    head = ("contestant", "records/s", "CPU µs/record", "CPU ratio", "throughput ratio", "memory ratio")
    for codec, found in result["warm_codecs"].items():
        count = result["records" if codec == "none" else "compressed"]
        rows = [
            (
                words,
                f"{found[name]['warm_records_per_s']:,.0f}",
                f"{found[name]['warm_cpu_us']:.2f}",
                *(_spread(found[name][f"{what}_ratio"]) for what in _WARM_RATIOS),
            )
            for name, words in _WARM.items()
            if name in found
        ]
        words = "not compressed" if codec == "none" else f"{codec} at the writer and at central"
        parts += [f"{count:,} orders of {result['record_bytes']} bytes, {words}:", table(head, rows)]
    return "\n\n".join(parts)


def headline(result: Result) -> str:
    """The warm contest in a few lines: ratios of what is not compressed."""
    found = result["warm_codecs"]["none"]
    rows = [
        (words, _spread(found[name]["warm_cpu_us_ratio"]), _spread(found[name]["warm_records_per_s_ratio"]))
        for name, words in _WARM.items()
    ]
    head = ("MirrorMaker 2 exactly once = 1, everybody warm", "CPU per record", "records per second")
    drawn = {words: found[name]["warm_cpu_us_ratio"]["median"] for name, words in _WARM.items()}
    plot = bars("CPU per record, warm, MirrorMaker 2 exactly once = 1", "ratio", drawn)
    return "\n\n".join((_warm_command(result), table(head, rows), plot))


def _warm_command(result: Result) -> str:
    asked = (
        f"python -m tests.bench.warm --rounds {result['rounds']} --records {result['records']}"
        f" --compressed {result['compressed']} --codecs {' '.join(result['warm_codecs'])} -o json"
    )
    return f"{_measured(asked, result)}, the hub's workers with {result['hub_malloc']}"


def _command(result: Result) -> str:
    asked = f'make bench ARGS="--rounds {result["rounds"]} --records {result["records"]}"'
    return f"{_measured(asked, result)}, the hub's workers with {result['hub_malloc']}"


def _measured(command: str, result: Result) -> str:
    """What printed a result, and of which commit it is."""
    return f"`{command}` at {result['commit']}"


def _plot(result: Result) -> str:
    small = result["160_bytes"]["cpu_ratio_vs_mm2_eos"]
    drawn = {_NAMES[name]: ratio["median"] for name, ratio in small.items()}
    return bars("CPU per record of 160 bytes, MirrorMaker 2 exactly once = 1", "ratio", drawn)


def _spread(ratio: Mapping[str, float], *, digits: int = 2) -> str:
    """The median, and what it lies between."""
    median, least, most = (f"{ratio[name]:.{digits}f}" for name in ("median", "least", "most"))
    return median if least == most else f"{median} ({least} to {most})"


def latency(result: Result) -> str:
    """From an edge's append to a reader at central."""
    options = " ".join(f"--{name} {result[name]:g}" for name in ("rounds", "seconds", "edges", "slots"))
    rates = {name: found for name, found in result.items() if name.isdigit()}
    head = ("records/s and edge", "contestant", "median ms", "99th ms", "longest ms", "achieved/s", "cores in use")
    rows = [
        (
            f"{int(rate):,}",
            _NAMES[name],
            f"{figures['median_ms']:.0f}",
            f"{figures['p99_ms']:.0f}",
            f"{figures['max_ms']:.0f}",
            f"{figures['achieved_per_s']:,.0f}",
            f"{figures['machine_cores']:.2f}",
        )
        for rate, found in rates.items()
        for name, figures in found.items()
    ]
    added, change = (result[name]["hub"]["longest_gap_ms"] for name in ("topics_added", "epoch_change"))
    drawn = {
        f"{int(rate):,}/s {_NAMES[name]}": figures["p99_ms"]
        for rate, found in rates.items()
        for name, figures in found.items()
    }
    return "\n\n".join(
        (
            _measured(f"python -m tests.bench.latency {options} -o json", result),
            table(head, rows),
            (
                f"Longest time without a record: {added:.0f} ms while a topic was added each second, {change:.0f} ms"
                " when the epoch changed, because a topic got more partitions."
            ),
            bars("99th percentile from edge to central", "ms", drawn),
        )
    )


def start(result: Result) -> str:
    """Phases of the start."""
    least, most = result["spread_s"]
    rows = [(name.replace("_", " "), f"{took:.1f}") for name, took in result["hub"].items() if name != "total"]
    said = (
        f"First record at central {result['hub']['total']:.1f} s after the command; a bare Spark session's first"
        f" Python task ends {result['bare']['total']:.1f} s after its own: {result['after_bare_s']:.1f} s later"
        f" ({least:.1f} to {most:.1f})."
    )
    command = _measured(f"python -m tests.bench.start --rounds {result['rounds']} -o json", result)
    return "\n\n".join((command, said, table(("phase of the hub's start", "s"), rows)))


def scale(result: Result) -> str:
    """An epoch of very many partitions, and what a record costs."""
    found = result["simulated"]
    rows = [
        (name.replace("_", " "), f"{took['wall_s']:.2f}", f"{took['cpu_s']:.2f}")
        for name, took in found["seconds"].items()
    ]
    facts = (
        f"{found['flows']:,} partitions on {found['slots']} slots: {found['edge_slot_pairs']} sets of connections"
        f" between edges and slots ({found['edges_per_slot']['median']:g} in a slot at the median,"
        f" {found['edges_per_slot']['most']} at most). With a slot less {found['moved_with_a_slot_less']:,} partitions"
        f" move, of which {found['least_that_must_move']:,} had to; without a change"
        f" {found['moved_without_a_change']}."
    )
    parts = [_measured("python -m tests.bench.scale -o json", result), table(("simulated", "s", "CPU s"), rows), facts]
    if lines := result.get("fitted"):
        rows = [
            (axis, f"{one['at_zero_us']:.2f}", f"{one['per_unit_us']:.4f}", f"{one['largest_error_us']:.2f}", points)
            for axis, one in lines.items()
            for points in [
                ", ".join(f"{m['value']}: {m['cpu_us']:.2f}" for m in result["measured"] if m["axis"] == axis)
            ]
        ]
        head = ("CPU µs per record by", "at zero", "per unit", "largest error", "measured")
        parts += ["`python -m tests.bench.scale --measure FILE -o json`", table(head, rows)]
    return "\n\n".join(parts)


def slots(result: Result) -> str:
    """Replication alone, by slots."""
    rows = [
        (
            name.removeprefix("slots_"),
            f"{found['records_per_s']:,}",
            f"{found['python_cpu_us_per_record']:.2f}",
            f"{found['jvm_cpu_us_per_record']:.2f}",
            found["peak_worker_mb"],
        )
        for name, found in result.items()
        if name.startswith("slots_")
    ]
    command = f"python -m tests.bench.slots --records {result['records']} -o json"
    head = ("slots", "records/s", "Python CPU µs/record", "JVM CPU µs/record", "largest worker MB")
    return "\n\n".join((_measured(command, result), table(head, rows)))


def strip(result: Result) -> str:
    """Strip beside fastavro's decoding and encoding, by shape and by what is done."""
    cases = {name: found for name, found in result.items() if isinstance(found, Mapping)}
    settings = list(next(iter(cases.values())))
    rows = [(name, *(_spread(found[one]["ratio"], digits=0) for one in settings)) for name, found in cases.items()]
    head = ("fastavro's decoding and encoding, strip = 1", *(one.replace("_", " ") for one in settings))
    command = f"python -m tests.bench.strip --rounds {result['rounds']} -o json"
    return "\n\n".join((_measured(command, result), table(head, rows)))


def lake(result: Result) -> str:
    """The lake's decode and commit beside other ways to the same Parquet."""
    itself = {"median": 1, "least": 1, "most": 1}
    ways = {"ours": "hub", "polars": "polars alone", "spark": "Spark's own writer", "rows": "fastavro, row by row"}
    rows = [
        (words, f"{result[f'{name}_us_per_record']:.1f}", _spread(result.get(f"ratio_vs_{name}", itself)))
        for name, words in ways.items()
    ]
    head = ("central to Parquet", "CPU µs/record", "hub's share of it")
    command = f"python -m tests.bench.lake --records {result['records']} --rounds {result['rounds']} -o json"
    return "\n\n".join((_measured(command, result), table(head, rows)))


def compression(result: Result) -> str:
    """Bytes and CPU by codec."""
    rows = [
        (
            name.replace("_", ", level "),
            f"{result['bytes_ratio'][name]['median']:.2f}",
            _spread(result["compression_cpu_ratio"][name]),
            f"{found['log_bytes'] / 1e6:.1f}",
        )
        for name, found in result["codecs"].items()
    ]
    asked = f"python -m tests.bench.compression --rounds {result['rounds']} --records {result['records']} -o json"
    head = ("codec", "bytes, none = 1", "CPU of the slot's worker, none = 1", "MB in central's log")
    return "\n\n".join((_measured(asked, result), table(head, rows)))


def rate_limit(result: Result) -> str:
    """The limit, window by window."""
    asked = (
        f"python -m tests.bench.rate_limit --seconds {result['seconds']:g} --windows {len(result['windows'])} -o json"
    )
    rows = [
        (
            number,
            f"{found['rate_bytes_per_s'] / 1e6:.2f}",
            f"{found['rate_bytes_per_s'] / result['limit_bytes_per_s']:.2f}",
            f"{found['other_share'] * 100:.1f} %",
        )
        for number, found in enumerate(result["windows"], 1)
    ]
    head = ("window", "MB/s over the line", "of the limit", "of the other edge's records delivered")
    said = f"`status` meanwhile: {result['status']['state']}, {result['status']['reason']}."
    return "\n\n".join((_measured(asked, result), table(head, rows), said))


def wan(result: Result) -> str:
    """A record's way and bytes, by what is far away."""
    asked = f"python -m tests.bench.wan --seconds {result['seconds']:g} --rounds {result['rounds']} -o json"
    rows = [
        (
            name.replace("_", " "),
            f"{found['median_ms']:.0f}",
            f"{found['p99_ms']:.0f}",
            f"{found['records_per_s']:,.0f}",
            f"{found['edge_line_bytes']:,.0f}",
            f"{found['central_line_bytes']:,.0f}",
        )
        for name, found in result["places"].items()
    ]
    head = ("hub", "median ms", "99th ms", "records/s", "bytes/record to and from the edge", "to and from central")
    said = f"Far is {result['far_ms']} ms there and back."
    return "\n\n".join((_measured(asked, result), table(head, rows), said))


def idle(result: Result) -> str:
    """What a silent edge costs, and what a longer wait costs a backlog."""
    asked = f"python -m tests.bench.idle --seconds {result['seconds']:g} --backlog {result['backlog']} -o json"
    rows = [
        (partitions, wait_ms, f"{found['bytes_per_s'] / 1e3:.1f}", f"{found['records_per_s']:,}")
        for partitions, by_wait in result["idle"].items()
        for wait_ms, found in by_wait.items()
    ]
    head = ("partitions of the edge", "`fetch.wait.max.ms`", "kB/s, both ways, while silent", "records/s of a backlog")
    return "\n\n".join((_measured(asked, result), table(head, rows)))


def offsets(result: Result) -> str:
    """Positions of consumer groups: what a consumer that moves reads twice."""
    log = result["edge"]
    asked = f"python -m tests.bench.offsets --records {log['produced']} --every {log['every']} -o json"
    names = ("copied", "positions", "without_position", "exact", "missed_records", "twice_median", "twice_most")
    rows = [
        (words, *(f"{result[name][key]:,.0f}" for key in names))
        for name, words in (("hub", "hub"), ("mirrormaker_2", _NAMES["mm2_exactly_once"]))
    ]
    head = ("", "copied", "positions", "none told", "exact", "records missed", "read twice, median", "most")
    return "\n\n".join((_measured(asked, result), table(head, rows)))


def commits(result: Result) -> str:
    """What a commit costs, the more of them a table has had."""
    counts = {"hub": result["commits"], "hub_without_upkeep": result["unkept"], "library": result["library"]}
    options = " ".join(f"--{name} {result[name]}" for name in ("commits", "unkept", "library"))
    asked = f"python -m tests.bench.commits {options} -o json"
    words = {"hub": "hub", "hub_without_upkeep": "hub, `upkeep` off", "library": "the library alone"}
    rows = [
        (
            f"{kind}, {words[name]}",
            counts[name],
            " ".join(f"{median:.0f}" for median in found["median_ms"]),
            f"{max(found['p99_ms']):.0f}",
            f"{found['most_ms']:.0f}",
            found["files"],
            f"{found['upkeep_share'] * 100:.0f} %",
            f"{found['read_s']:.2f}",
        )
        for kind, ways in result["formats"].items()
        for name, found in ways.items()
    ]
    head = ("", "commits", "median ms, by fifths", "99th ms", "longest ms", "files", "upkeep's share", "count, s")
    drawn = {kind: ways["hub"]["median_ms"] for kind, ways in result["formats"].items()}
    size = result["commits"] // len(next(iter(drawn.values())))
    plot = lines(f"median ms of {size} commits, {', '.join(drawn)}", drawn.values(), [size * (n + 1) for n in range(5)])
    return "\n\n".join((_measured(asked, result), table(head, rows), plot))


def current(result: Result) -> str:
    """What a refresh of the current state costs, by new rows and by all rows."""
    asked = " ".join(f"--{name} {result[name]}" for name in ("keys", "versions", "changes", "rounds"))
    rows = [
        (kind, *(f"{s[name]:.1f}" for name in ("newest", "any", "whole")), f"{s['any'] / s['whole']:.2f}")
        for kind, s in result["refresh_s"].items()
    ]
    head = ("seconds of a refresh", "the newest keys changed", "any keys changed", "the whole table", "any : whole")
    return "\n\n".join((_measured(f"python -m tests.bench.current {asked} -o json", result), table(head, rows)))


def tables(result: Result) -> str:
    """What a cycle of the lake takes, by the number of tables."""
    counts = sorted({case["tables"] for case in result["many_tables"]})
    asked = f"python -m tests.bench.tables --tables {' '.join(map(str, counts))} --cycles {result['cycles']} -o json"
    names = ("first_s", "cycle_s", "longest_s", "cpu_s", "idle_s")
    rows = [(case["format"], case["tables"], *(case[name] for name in names)) for case in result["many_tables"]]
    head = ("", "tables", "first cycle, s", "a cycle, s", "the longest, s", "its CPU s", "an idle cycle, s")
    return "\n\n".join((_measured(asked, result), table(head, rows)))


KINDS: Mapping[str, Callable[[Result], str]] = {
    "contest": contest,
    "latency": latency,
    "start": start,
    "scale": scale,
    "headline": headline,
    "slots": slots,
    "strip": strip,
    "lake": lake,
    "compression": compression,
    "rate-limit": rate_limit,
    "wan": wan,
    "idle": idle,
    "offsets": offsets,
    "commits": commits,
    "current": current,
    "tables": tables,
    "warm": warm,
    "warm-glibc": warm,
    "warm-zstd": warm,
    "where": where,
}
# Kinds of blocks that are made of another kind's result.
_MADE_OF = {"headline": "warm"}


def rendered(page: str, results: Mapping[str, Result]) -> str:
    """The page with every block anew whose result is kept."""

    def anew(block: re.Match[str]) -> str:
        kind = block[2]
        result = results.get(_MADE_OF.get(kind, kind))
        return block[0] if result is None else f"{block[1]}{KINDS[kind](result)}\n{block[3]}"

    return _BLOCK.sub(anew, page)


def kept() -> dict[str, Result]:
    """Results that are kept, by kind."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Keep results, write blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path)
    RESULTS.mkdir(exist_ok=True)
    for path in parser.parse_args().results:
        result = {"commit": _commit()} | json.loads(path.read_text())
        (RESULTS / f"{kind_of(result)}.json").write_text(json.dumps(result, indent=1) + "\n")
    for page in pages():
        before = page.read_text()
        after = rendered(before, kept())
        if after != before:
            page.write_text(after)
            print(f"written: {page.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
