"""Positions of consumer groups at central, beside MirrorMaker 2: what a consumer that moves reads twice, or misses.

    python -m tests.bench.offsets -o json

An edge has a compacted topic of so many records, in transactions of which some abort, cleaned before anybody reads it.
The hub, which leaves out a tenth of the records, and MirrorMaker 2, exactly once, both copy it. Then groups commit
positions all over the log, one every so many records. The hub's command looks each one up in central's log; MirrorMaker
2 writes its checkpoints. Both are held against the copies themselves, read by a plain consumer. Where MirrorMaker 2
writes no checkpoint, its client has no position, and a consumer begins by its own `auto.offset.reset`.
"""

import argparse
import bisect
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from aggregator.config.load import load_config
from aggregator.coordinates import EdgePartition
from aggregator.offsets.mirror_records import checkpoint
from aggregator.offsets.translator import Translator
from aggregator.sandbox.sandbox import Sandbox
from tests.bench import mirrormaker
from tests.trial import POLICY, Trial, read_all, wait_for

EDGE, ALIAS, PARTITIONS = "eu", "mm2", 3
LEFT_OUT = [3, 17, 20, 41, 42, 43, 66, 71, 98, 99]  # of a hundred ids
A_TENTH = POLICY.replace("    key: keep\n", f"    key: keep\n    drop_record: [{{field: id, in: {LEFT_OUT}}}]\n")
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01"}
_TRANSACTION, _ABORTED_EACH = 500, 20
_QUIET_S = 30.0
# By partition: edge offset and central offset of each copy, in the order of both.
Copies = Mapping[int, list[tuple[int, int]]]


def fill(trial: Trial, records: int) -> None:
    """Orders in transactions; each key comes twice."""
    producer = Producer(
        {
            "bootstrap.servers": trial.sandbox.edges[EDGE].bootstrap,
            "transactional.id": trial.mark,
            "queue.buffering.max.messages": 500_000,
        }
    )
    producer.init_transactions(30)
    for turn, begin in enumerate(range(0, records, _TRANSACTION)):
        producer.begin_transaction()
        for n in range(begin, min(begin + _TRANSACTION, records)):
            key = n % (records // 2)
            value, header = trial.value(n % 100), ("n", b"%d" % n)
            producer.produce(trial.topic, value, b"k%d" % key, key % PARTITIONS, headers=[header])
        if turn % _ABORTED_EACH == _ABORTED_EACH - 1:
            producer.flush(60)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def cleaned(trial: Trial, records: int) -> dict[bytes, tuple[int, int]]:
    """Partition and offset of each record of the edge, by its number, once its log has been compacted and rests."""
    committed = records - records // _ABORTED_EACH
    seen = [-1, -2]

    def rests() -> bool:
        time.sleep(_QUIET_S)  # a cleaner looks every fifteen seconds
        seen.append(len(read_all(_servers(trial), trial.topic)))
        return seen[-1] == seen[-2] < committed

    wait_for(rests, timeout=600, what="a compacted log")
    return {_number(one): (one.partition(), one.offset()) for one in read_all(_servers(trial), trial.topic)}


def _servers(trial: Trial) -> str:
    return trial.sandbox.edges[EDGE].bootstrap


def _number(message) -> bytes:
    return dict(message.headers())["n"]


def commit(trial: Trial, every: int) -> dict[str, dict[EdgePartition, int]]:
    """Groups that stand all over the log, idle: one position in each partition every so many offsets."""
    ends = {at: trial.ledger()[EDGE, at]["next_offset"] for at in range(PARTITIONS)}
    asked: dict[str, dict[EdgePartition, int]] = defaultdict(dict)
    for at, end in ends.items():
        for turn, offset in enumerate(range(every // 2, end, every)):
            asked[f"{trial.mark}-{turn:04}"][EdgePartition(EDGE, trial.topic, at)] = offset
    admin, settled = trial.admin(EDGE), []
    for group, own in asked.items():
        positions = [TopicPartition(one.topic, one.partition, offset) for one, offset in own.items()]
        (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, positions)]).values()
        settled.append(future)
    for future in settled:
        future.result(60)
    return asked


def judged(found: Iterable[tuple[int, int, int | None]], copies: Copies) -> dict[str, float | int]:
    """What positions are worth: records that would come twice, and such that would be missed.

    Args:
        found: Partition, position at the edge, and position at central or None.
        copies: Everything that was copied.
    """
    twice, none, missed = [], 0, 0
    for partition, wanted, central in found:
        if central is None:
            none += 1
            continue
        edge = [one for one, _ in copies[partition]]
        begins = bisect.bisect_left([at for _, at in copies[partition]], central)
        due = bisect.bisect_left(edge, wanted)
        twice.append(max(0, due - begins))
        missed += max(0, begins - due)
    return {
        "positions": len(twice),
        "without_position": none,
        "exact": twice.count(0) if not missed else -1,
        "missed_records": missed,
        "twice_median": statistics.median(twice) if twice else 0,
        "twice_most": max(twice, default=0),
    }


def hub(trial: Trial, asked: Mapping[str, Mapping[EdgePartition, int]]) -> dict[str, float | int]:
    """The hub's positions, what finding them took, and their worth."""
    began, spent = time.monotonic(), time.process_time()
    found = Translator(load_config(trial.config, {})).translate(asked).results
    took = {"seconds": round(time.monotonic() - began, 2), "cpu_s": round(time.process_time() - spent, 2)}
    copies: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for message in trial.central_records(EDGE):
        _, _, _, partition, offset, _ = dict(message.headers())["hub.origin"].decode().split("/")
        copies[int(partition)].append((int(offset), message.offset()))
    copied = {"copied": sum(map(len, copies.values()))}
    positions = ((one.source.partition, one.edge_offset, one.central_offset) for one in found)
    return copied | judged(positions, copies) | took


def mm2(
    trial: Trial, edge: Mapping[bytes, tuple[int, int]], asked: Mapping[str, Mapping[EdgePartition, int]]
) -> dict[str, float | int]:
    """MirrorMaker 2's checkpoints, and their worth."""
    central = trial.sandbox.central.bootstrap
    copies: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for message in read_all(central, f"{ALIAS}.{trial.topic}"):
        partition, offset = edge[_number(message)]
        copies[partition].append((offset, message.offset()))
    told: dict[tuple[str, int], int] = {}
    seen = [-1, -2, -3]

    def rests() -> bool:
        time.sleep(5)
        for message in read_all(central, f"{ALIAS}.checkpoints.internal"):
            one = checkpoint(message.key(), message.value())
            told[one.group, one.partition] = one.downstream_offset
        seen.append(len(told))
        return seen[-1] == seen[-4] > 0

    wait_for(rests, timeout=240, what="checkpoints of MirrorMaker 2")
    positions = [
        (source.partition, offset, told.get((group, source.partition)))
        for group, own in asked.items()
        for source, offset in own.items()
    ]
    return {"copied": sum(map(len, copies.values()))} | judged(positions, copies)


def measure(folder: Path, records: int, every: int) -> dict[str, dict[str, float | int]]:
    """Both of them over one log."""
    sandbox = Sandbox.up(folder / "clusters", (EDGE,))
    try:
        (folder / "trial").mkdir()
        trial = Trial(sandbox, folder / "trial")
        (trial.folder / "policy.yaml").write_text(A_TENTH)
        trial.create(EDGE, PARTITIONS, **COMPACTED)
        fill(trial, records)
        edge = cleaned(trial, records)
        trial.drain("--only", "replicate", timeout=600)
        port, central = mirrormaker.free_port(), sandbox.central.bootstrap
        properties = mirrormaker.settings(ALIAS, _servers(trial), central, trial.topic, exactly_once=True, port=port)
        flow = f"{ALIAS}->central"
        properties |= {
            f"{flow}.emit.checkpoints.enabled": "true",
            f"{flow}.emit.checkpoints.interval.seconds": "1",
            f"{flow}.refresh.groups.interval.seconds": "1",
            f"{flow}.groups": f"{trial.mark}-.*",
        }
        with mirrormaker.running(folder / "mm2", properties):
            copies, admin = f"{ALIAS}.{trial.topic}", trial.admin("central")
            wait_for(lambda: copies in admin.list_topics(timeout=10).topics, timeout=120, what="a copy")
            seen = [-1, -2]

            def copied() -> bool:
                time.sleep(5)
                seen.append(len(read_all(central, copies)))
                return seen[-1] == seen[-2] > 0

            wait_for(copied, timeout=300, what="all copies")
            asked = commit(trial, every)
            answer = {"mirrormaker_2": mm2(trial, edge, asked)}
        answer["hub"] = hub(trial, asked)
        trial.close()
    finally:
        sandbox.down()
    return {"edge": {"produced": records, "records": len(edge), "every": every}} | answer


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("-o", choices=["json"], default="json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), options.records, options.every), indent=2))


if __name__ == "__main__":
    main()
