"""A backfill under spark-submit: `spark-submit --master … jobs/backfill.py --config hub.yaml --plan plan.json`.

Invariant: the same command as `aggregator backfill run --yes`, with spark-submit's master, its exit codes and its
idempotence: a scheduler that runs it twice writes once.
"""

import sys

from aggregator.cli.main import entry

if __name__ == "__main__":
    entry(["backfill", "run", "--yes", *sys.argv[1:]])
