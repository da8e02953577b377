"""Runs a backfill under spark-submit: `spark-submit --master … jobs/backfill.py --config hub.yaml --plan plan.json`.

Invariant: this program runs the same command as `aggregator backfill run --yes`, on spark-submit's master. The exit
codes and the idempotence are the same, too: if a scheduler runs it twice, the data is written once.
"""

import sys

from aggregator.cli.main import entry

if __name__ == "__main__":
    entry(["backfill", "run", "--yes", *sys.argv[1:]])
