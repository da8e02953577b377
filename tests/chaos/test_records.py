"""What edges send: records that nobody can read or take, ids with two meanings, new fields, open transactions."""

import json
import time

import fastavro
import pytest
from confluent_kafka import Producer

from tests.chaos.promptness import keeps_flowing
from tests.trial import ORDER, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

LIMIT_BYTES = 2000
CANARY = "canary-4711"
TURNED_FROM, SHOP_FROM = 97 * 10_000, 1_000_000
# The same fields in another order: whoever reads one by the other's schema takes an address for a customer.
TURNED = ORDER | {"fields": [ORDER["fields"][at] for at in (0, 2, 1, 3)]}
RICHER = ORDER | {
    "fields": [
        *ORDER["fields"],
        {"name": "phone", "type": "string", "default": ""},
        {"name": "passport", "type": "string", "default": "", "confluent:tags": ["PII"]},
    ]
}


def register(trial, folder: str, version: int, schema_id: int, schema: dict) -> dict:
    """One more version of the orders' schema in an edge's registry; returns it as fastavro wants it."""
    subject = trial.folder / folder / f"{trial.topic}-value"
    subject.mkdir(parents=True, exist_ok=True)
    (subject / f"{version}-{schema_id}.avsc").write_text(json.dumps(schema))
    return fastavro.parse_schema(schema)


def test_records_that_nobody_can_read_or_take_stop_nobody(trial, arrivals):
    """Faults 10, 11 and 13 (I1, I4-I7): dead letters by reason and coordinates, and each edge's ids are its own."""
    trial.settings["edges"]["us"]["schemas"] = "directory:schemas-us"
    trial.settings["topics"][0]["central_config"] = {"max.message.bytes": str(LIMIT_BYTES)}
    trial.write()
    register(trial, "schemas-us", 1, 7, ORDER)
    ours = {"eu": register(trial, "schemas", 2, 9, TURNED), "us": register(trial, "schemas-us", 2, 9, ORDER)}
    trial.create("eu", 1, topic=f"fits-{trial.mark}", max_message_bytes=str(LIMIT_BYTES))
    grows, never_fits = ([("traceparent", b"0" * size)] for size in (1860, 5000))
    unread = {
        "undecodable": [b"\0\0\0\0\x07\xff\xff", trial.value(1) + b"more", trial.value(1)[:6] + b"\x04\xff\xfe"],
        "unknown_schema": [trial.value(1, 4_000_000)],
        "wrong_magic": [b"", b"{}", b"\1" + trial.value(1)[1:]],
    }
    with trial.running() as hub:
        with trial.traffic("us") as produced:
            arrivals["us"].reach(50, hub=hub, timeout=120)
            trial.produce("eu", 30)
            trial.produce_raw("eu", [(b"k", trial.value(1), 0)], headers=grows, topic=f"fits-{trial.mark}")
            trial.produce_raw("eu", [(b"p", value, 1) for values in unread.values() for value in values])
            trial.produce_raw("eu", [(b"k", trial.value(2), 1)], headers=grows)
            trial.produce_raw("eu", [(b"k", trial.value(3), 1)], headers=never_fits)
            trial.produce("eu", 30)
            print("the other edge", keeps_flowing(arrivals["us"], produced, "us", for_s=5, hub=hub))
        for edge, schema in ours.items():
            trial.produce_raw(edge, [(b"k", trial.value(TURNED_FROM + n, 9, schema), 2) for n in range(97)])
        arrivals["eu"].reach(60 + 97, hub=hub, timeout=60)
        arrivals["us"].reach(produced["us"] + 97, hub=hub, timeout=60)
        hub.terminate()
        assert hub.wait(60) == 0, hub.log.read_text()
    letters = trial.letters()
    expected = {reason: len(values) for reason, values in unread.items()} | {"too_large": 2}
    assert {reason: sum(one["reason"] == reason for one in letters) for reason in expected} == expected
    assert {(one["edge"], one["topic"], one["partition"]) for one in letters} == {("eu", trial.topic, 1)}
    assert "x.example" not in json.dumps(letters) + hub.log.read_text()
    known = {edge: {one["id"]: one["customer"] for one in trial.orders(edge)} for edge in ours}
    assert sorted(known["eu"]) == [*range(60), *range(TURNED_FROM, TURNED_FROM + 97)]
    assert sorted(known["us"]) == [*range(produced["us"]), *range(TURNED_FROM, TURNED_FROM + 97)]
    plain = {number % 97: customer for number, customer in known["us"].items() if number < TURNED_FROM}
    for edge, customers in known.items():
        turned = {number % 97: customer for number, customer in customers.items() if number >= TURNED_FROM}
        assert {n: turned[n] for n in plain} == plain, f"{edge}: an id was read by the other edge's schema"
        origins = trial.origins(edge)
        assert len(origins) == len(set(origins)) == len(customers), "doubled at central"


def test_a_new_personal_field_is_dropped_and_reported(trial, arrivals):
    """Fault 20 (I5, I6): tagged or not, in no record and no column, and named with what dropped it, while it runs."""
    with trial.running() as hub:
        trial.produce("eu", 30)
        arrivals["eu"].reach(30, hub=hub, timeout=120)
        richer = register(trial, "schemas", 2, 11, RICHER)
        more = {"phone": CANARY, "passport": CANARY}
        trial.produce_raw("eu", [(b"k", trial.value(30 + n, 11, richer, **more), n % 3) for n in range(60)])
        took = arrivals["eu"].reach(90, hub=hub, timeout=60)

        def told() -> dict:
            """The fields of the edge's topic that were met since."""
            report = json.loads(trial.run("report", "-o", "json").stdout)
            found = (one["fields"] for one in report["topics"] if (one["edge"], one["topic"]) == ("eu", trial.topic))
            return {one["path"]: one for fields in found for one in fields if one["schema_id"] == 11}

        seen = wait_for(told, timeout=60, what="a report of the new schema")
        wait_for(lambda: len(trial.lake()) == 90, timeout=60, what="the lake's commit")
        hub.terminate()
        assert hub.wait(60) == 0, hub.log.read_text()
    print(f"flowed on after {took} s")
    assert {path: (seen[path]["operator"], seen[path]["transformed"]) for path in ("phone", "passport")} == {
        "phone": ("drop", 60),
        "passport": ("drop", 60),
    }
    assert (seen["phone"]["unclassified"], seen["passport"]["unclassified"]) == (True, False)
    trial.check_exactly_once("eu", 90)
    assert {tuple(one) for one in trial.orders("eu")} == {("id", "customer", "amount")}
    assert CANARY.encode() not in b"".join(m.value() for m in trial.central_records("eu"))
    assert CANARY not in repr(trial.lake("*")) + hub.log.read_text()


def open_transaction(trial, records: int, *, age_s: float) -> Producer:
    """A shop's transaction in partition 0 that it does not end, behind one that it commits and one that it aborts."""
    shop = Producer(
        {"bootstrap.servers": trial.sandbox.edges["eu"].bootstrap, "transactional.id": f"shop-{trial.mark}"}
    )
    shop.init_transactions(20)
    since_ms = int((time.time() - age_s) * 1000)
    for number, ended in enumerate((shop.commit_transaction, shop.abort_transaction, None)):
        shop.begin_transaction()
        for n in range(records):
            shop.produce(trial.topic, trial.value(SHOP_FROM * (number + 1) + n), partition=0, timestamp=since_ms)
        assert shop.flush(20) == 0
        if ended:
            ended(20)
    return shop


def test_a_flow_that_begins_within_an_open_transaction(new_trial):
    """Fault 23 (I1, I6): a drain names what nobody may read, the position is no gap, and what is decided comes."""
    trial = new_trial(start="latest")
    trial.produce("eu", 30)
    shop = open_transaction(trial, 5, age_s=0)
    done = trial.drain()
    assert f"not decided: eu/{trial.topic}/0: open transactions at its edge kept 5 offsets" in done.stderr
    assert done.stderr.count("not decided") == 1
    assert trial.central_count("eu") == 0
    status = trial.status()
    assert [one for one in status["flows"] if one["gap"] or one["trouble"]] == []
    assert "LOSING_DATA" not in {one["state"] for one in status["edges"]}
    shop.commit_transaction(20)
    assert "not decided" not in trial.drain().stderr
    assert trial.numbers("eu") == [3 * SHOP_FROM + n for n in range(5)]


def test_aborted_and_hanging_transactions_of_an_edge(trial, arrivals):
    """Fault 23 (I1, I4, I6, I7): what was aborted never comes, what is open is named and waits, the rest flows."""

    def flow() -> dict:
        """The flow behind the transaction, as `status` shows it."""
        flows = trial.status()["flows"]
        return next(one for one in flows if (one["edge"], one["topic"], one["partition"]) == ("eu", trial.topic, 0))

    with trial.running() as hub:
        with trial.traffic("us") as produced:
            trial.produce("eu", 30)
            arrivals["eu"].reach(30, hub=hub, timeout=120)
            shop = open_transaction(trial, 5, age_s=3600)
            trial.produce_raw("eu", [(b"behind", trial.value(2000 + n), 0) for n in range(10)])
            trial.produce_raw("eu", [(b"beside", trial.value(3000 + n), 1 + n % 2) for n in range(20)])
            arrivals["eu"].reach(30 + 5 + 20, hub=hub, timeout=30)
            print("the other edge", keeps_flowing(arrivals["us"], produced, "us", for_s=5, hub=hub))
        assert arrivals["eu"].count() == 30 + 5 + 20, "what nobody may read yet was delivered"
        stands = flow()
        assert (stands["lag_records"], stands["undecided_records"]) == (0, 5 + 10)
        assert 3_600_000 <= stands["undecided_ms"] < 3_900_000
        assert "a transaction at the edge has been open since" in stands["trouble"]
        said = f"eu/{trial.topic}/0: {stands['trouble']}"
        wait_for(lambda: said in hub.log.read_text(), timeout=60, what="the running hub's word")
        shop.abort_transaction(20)
        took = arrivals["eu"].reach(30 + 5 + 20 + 10, hub=hub, timeout=30)
        healed = flow()
        arrivals["us"].reach(produced["us"], hub=hub, timeout=30)
        hub.terminate()
        assert hub.wait(60) == 0, hub.log.read_text()
    print(f"after its end: recovered in {took} s")
    assert (healed["undecided_records"], healed["undecided_ms"], healed["trouble"]) == (0, None, "")
    committed = [SHOP_FROM + n for n in range(5)]
    assert sorted(trial.numbers("eu")) == [*range(30), *range(2000, 2010), *range(3000, 3020), *committed]
    offsets = [offset for partition, _, offset in trial.origins("eu") if partition == 0]
    # Ten orders, the shop's five and a marker, five aborted ones and theirs, five open ones, ten behind them.
    assert offsets == [*range(15), *range(27, 37)], "lost, doubled or reordered around the transactions"
    trial.check_exactly_once("us", produced["us"])
