"""Compares kernel and reference on drawn cases, by hand and by the million: `python -m tests.bench.fuzz --records N`.

A case that differs is printed with its seed, and `--seed S --records 1` runs it again. Nothing else is printed but the
figures at the end.
"""

import argparse
import json
import sys

from tests.unit.privacy.kernel.differential import run


def main():
    """Parse the command line, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found, figures = run(options.seed, options.records)
    print(*found, json.dumps(figures), sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
