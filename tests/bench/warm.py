"""Beside MirrorMaker 2 when everybody is warm: nested orders by the million, with few and with many people.

    python -m tests.bench.warm -o json
    python -m tests.bench.warm --rounds 1 --records 1000000 --codecs none -o json

Orders have a buyer, an address, an array of lines and two optional fields. MirrorMaker 2 exactly once copies them, and
this hub (a) keeps everything, (b) drops five nested fields and both identifiers, (c) drops the five and pseudonymises
the identifiers and the key. The first two are run with a tenth of the buyers distinct, (c) with a hundredth, a tenth
and all of them. With each codec both the writer and every contestant compress. Cost is that from the first tenth of the
records on that costs as much as the two behind it. Each round runs everybody once, every second one in reverse; ratios
are those of one round, and the median counts. Every delivery is read back and verified.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

from aggregator.engine.allocator import faster_malloc
from tests.bench import mirrormaker
from tests.bench.backlog import ORDERS, Backlog
from tests.bench.beside_mm2 import DROP, EXACTLY, KEEP, MIXED, TASKS, Arena
from tests.bench.contest import Result, as_dict, race
from tests.bench.ratios import spread

SHARES = {"1": 0.01, "10": 0.1, "100": 1.0}
_USUAL = "10"
_TOLD = ("records_per_s", "cpu_us", "warm_records_per_s", "warm_cpu_us", "warm_brokers_us", "peak_mb", "warm_tenth")


def backlogs(records: int, codec: str) -> dict[str, Backlog]:
    """By the share of distinct buyers, in per cent; of what is compressed the usual one."""
    shares = SHARES if codec == "none" else {_USUAL: SHARES[_USUAL]}
    return {
        percent: Backlog(f"orders-{codec}-{percent}", records, 0, share, shape=ORDERS, codec=codec)
        for percent, share in shares.items()
    }


def run_round(arena: Arena, by_share: dict[str, Backlog], *, in_reverse: bool) -> dict[str, Result]:
    """Everybody once, by name; what differs by share has the share in its name."""
    usual = by_share[_USUAL]
    makers = {
        EXACTLY: (lambda: arena.mirrormaker(EXACTLY, usual), usual),
        KEEP: (lambda: arena.hub(KEEP, usual), usual),
        DROP: (lambda: arena.hub(DROP, usual), usual),
        **{f"{MIXED}_{percent}": (lambda one=one: arena.hub(MIXED, one), one) for percent, one in by_share.items()},
    }
    found = {}
    for name in list(makers)[:: -1 if in_reverse else 1]:
        make, backlog = makers[name]
        contestant = make()
        found[name] = race(contestant, backlog, arena.brokers, arena.sandbox.central.bootstrap)
        arena.drop(contestant.topic)
        print(f"{backlog.topic} {name}: {as_dict(found[name])}", file=sys.stderr, flush=True)
    return found


def summary(rounds: list[dict[str, Result]]) -> dict[str, object]:
    """Medians of each contestant, and its ratios to MirrorMaker 2 in the same round."""
    runs: dict[str, list[dict[str, float]]] = defaultdict(list)
    for found in rounds:
        for name, result in found.items():
            runs[name].append({key: value for key, value in as_dict(result).items() if key in _TOLD})
    theirs = runs[EXACTLY]
    return {
        name: {key: median(one[key] for one in mine) for key in _TOLD}
        | {
            f"{what}_ratio": spread((one[what] for one in mine), [one[what] for one in theirs])
            for what in ("warm_cpu_us", "warm_records_per_s", "peak_mb")
        }
        for name, mine in runs.items()
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--compressed", type=int, default=4_000_000, help="records with each codec but none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codecs", nargs="+", choices=["none", "lz4", "zstd"], default=["none", "lz4", "zstd"])
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    mirrormaker.jars(lambda line: print(line, file=sys.stderr))
    answer: dict[str, object] = {}
    for codec in options.codecs:
        with tempfile.TemporaryDirectory() as folder:
            arena = Arena(Path(folder), TASKS)
            try:
                by_share = backlogs(options.records if codec == "none" else options.compressed, codec)
                for backlog in by_share.values():
                    backlog.fill(arena.sandbox.edges["eu"].bootstrap)
                found = [run_round(arena, by_share, in_reverse=number % 2 == 1) for number in range(options.rounds)]
                answer[codec] = summary(found)
            finally:
                arena.sandbox.down()
    sample = Backlog("", 10_000, 0, 0.1, shape=ORDERS)
    print(
        json.dumps(
            {
                "warm_codecs": answer,
                "rounds": options.rounds,
                "records": options.records,
                "compressed": options.compressed,
                "record_bytes": round(mean(len(value) for _, value in sample.pairs())),
                "hub_malloc": faster_malloc() or "glibc's malloc",
                "mm2_settings": mirrormaker.TUNED | mirrormaker.TUNED_PRODUCER,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
