"""`rate_limit`: how exactly it is held, and what the other edge of the same slot has of it.

    python -m tests.bench.rate_limit --seconds 30 --windows 3 -o json

One hub, one slot for both edges. A backlog of compressed batches waits on `eu`, which has a limit; records arrive on
`us`, which has none, at a steady pace. The hub reaches `eu` through a proxy that counts what comes from its broker: the
bytes of the line, told by nobody who holds them down. Each window is `--seconds` long. Its rate is the line's, all of
the hub's clients together; its share is how much of what arrived on `us` in it was at central at its end.
"""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from tests.chaos.lines import lined
from tests.trial import Trial, wait_for

LIMIT = 2_000_000
BATCH, PAUSE_S = 500, 0.1
_DISTINCT = 2_000
_SETTLE_S = 15.0


def fill(trial: Trial, count: int) -> None:
    """Records of a kilobyte that compress to half of it, in batches that the edge keeps compressed."""
    trial.create("eu", compression_type="zstd")
    draw = random.Random(1)
    values = [trial.value(number, email=f"{draw.getrandbits(3600):x}") for number in range(_DISTINCT)]
    trial.produce_raw("eu", ((b"k", values[number % _DISTINCT], number % 3) for number in range(count)))


def measure(trial: Trial, lines, *, seconds: float, windows: int) -> dict[str, object]:
    """The windows, and what `status` says at their end."""
    trial.settings["edges"]["eu"]["rate_limit"] = "2MB/s"
    lines.lead(trial, "eu")
    line, topics = lines.proxies["eu"].seen, [f"{edge}.{trial.topic}" for edge in ("eu", "us")]
    found = []
    with trial.running("--only", "replicate") as hub, trial.traffic("us", batch=BATCH, pause_s=PAUSE_S) as arrived:
        for topic in topics:
            wait_for(lambda at=topic: trial.ends(at) > 0, timeout=120, what=f"the first of {topic}")
        time.sleep(_SETTLE_S)
        for _ in range(windows):
            began, before, produced, there = time.monotonic(), line["down"], arrived["us"], trial.ends(topics[1])
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            took, came = time.monotonic() - began, line["down"] - before
            share = (trial.ends(topics[1]) - there) / (arrived["us"] - produced)
            found.append({"rate_bytes_per_s": round(came / took), "other_share": round(min(1.0, share), 3)})
        told = {edge["edge"]: edge for edge in trial.status()["edges"]}["eu"]
        assert hub.poll() is None, hub.log.read_text()[-3000:]
    assert told["lag_records"] > 0, "the backlog was too short for the measurement"
    return {
        "limit_bytes_per_s": LIMIT,
        "seconds": seconds,
        "windows": found,
        "status": {name: told[name] for name in ("state", "reason", "heartbeat_age_ms", "read_bytes_per_s")},
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, lined(Path(folder) / "clusters") as (sandbox, lines):
        (Path(folder) / "trial").mkdir()
        trial = Trial(sandbox, Path(folder) / "trial")
        fill(trial, options.records)
        trial.create("us")
        answer = measure(trial, lines, seconds=options.seconds, windows=options.windows)
        trial.close()
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
