"""Runs edges to central under spark-submit: `spark-submit --master … jobs/replicate.py --config hub.yaml [--drain]`.

Invariant: this program runs the same command as `aggregator run --only replicate`, on spark-submit's master.
"""

import sys

from aggregator.cli.main import entry

if __name__ == "__main__":
    entry(["run", "--only", "replicate", *sys.argv[1:]])
