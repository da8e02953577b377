"""What a record costs with each `malloc` that the workers may have: glibc's, glibc's with one arena, a faster one.

    python -m tests.bench.malloc --records 3000000 --rounds 3 -o json

The hub copies nested orders as in `tests.bench.warm`, with everything kept, and with five fields dropped and two
identifiers and the key pseudonymised. Cost is that of the warm tenths. Each round runs every allocator once, every
second one in reverse; ratios are those of one round to glibc's as it is, and the median counts.
"""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from aggregator.engine.allocator import faster_malloc
from tests.bench.backlog import ORDERS, Backlog
from tests.bench.beside_mm2 import KEEP, MIXED, TASKS, Arena
from tests.bench.contest import as_dict, race
from tests.bench.ratios import spread

GLIBC, FASTER = "glibc", "faster"
_PLAIN = {"LD_PRELOAD": ""}
ALLOCATORS = {
    GLIBC: _PLAIN | {"MALLOC_ARENA_MAX": ""},
    "glibc_one_arena": _PLAIN | {"MALLOC_ARENA_MAX": "1"},
    "glibc_two_arenas": _PLAIN | {"MALLOC_ARENA_MAX": "2"},
    "glibc_one_arena_untrimmed": _PLAIN
    | {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": str(2**28), "MALLOC_MMAP_THRESHOLD_": str(2**25)},
    FASTER: {},
}
_TOLD = ("warm_cpu_us", "warm_records_per_s", "peak_mb")


def measure(arena: Arena, backlog: Backlog, names: list[str], rounds: int) -> dict[str, dict[str, object]]:
    """By what is stripped and allocator: medians, and ratios to glibc's as it is."""
    runs: dict[str, dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            for what in (KEEP, MIXED):
                contestant = arena.hub(what, backlog, workers=ALLOCATORS[name])
                found = as_dict(race(contestant, backlog, arena.brokers, arena.sandbox.central.bootstrap))
                arena.drop(contestant.topic)
                runs[what][name].append({key: found[key] for key in _TOLD})
                print(f"{what} {name}: {runs[what][name][-1]}", file=sys.stderr, flush=True)
    return {
        what: {
            name: {key: median(one[key] for one in mine) for key in _TOLD}
            | {f"{key}_ratio": spread((one[key] for one in mine), [one[key] for one in of[GLIBC]]) for key in _TOLD}
            for name, mine in of.items()
        }
        for what, of in runs.items()
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--allocators", nargs="+", choices=[*ALLOCATORS], default=[*ALLOCATORS])
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    backlog = Backlog("orders", options.records, 0, 0.1, shape=ORDERS)
    with tempfile.TemporaryDirectory() as folder:
        arena = Arena(Path(folder), TASKS)
        try:
            backlog.fill(arena.sandbox.edges["eu"].bootstrap)
            found = measure(arena, backlog, options.allocators, options.rounds)
        finally:
            arena.sandbox.down()
    told = {"mallocs": found, "rounds": options.rounds, "records": options.records, "faster": faster_malloc()}
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
