"""Runs central to the lake under spark-submit: `spark-submit --master … jobs/lake.py --config hub.yaml [--drain]`.

Invariant: this program runs the same command as `aggregator run --only lake`, on spark-submit's master.
"""

import sys

from aggregator.cli.main import entry

if __name__ == "__main__":
    entry(["run", "--only", "lake", *sys.argv[1:]])
