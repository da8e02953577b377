"""Edges to central under spark-submit: `spark-submit --master … jobs/replicate.py --config hub.yaml [--drain]`.

Invariant: the same command as `aggregator run --only replicate`, with spark-submit's master.
"""

import sys

from aggregator.cli.main import entry

if __name__ == "__main__":
    entry(["run", "--only", "replicate", *sys.argv[1:]])
