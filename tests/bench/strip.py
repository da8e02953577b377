"""Strip beside plain fastavro: microseconds per record, and how many times faster.

    python -m tests.bench.strip -o json

Times are CPU time. The kernel's is that of `KernelStrip.strip` on whole batches, from the list of framed values to the
list of stripped ones; fastavro's is to decode and encode the same bodies, nothing more. Both run in turns in one
process. A ratio compares the two of one round, so that a busy machine slows both; its median is told with the lowest
and the highest. Of the microseconds the best round counts, because other programs only ever add. Every round of the
kernel begins with an empty memory of results; a value that repeats does so within a batch, and never again in another.
"""

import argparse
import gc
import io
import json
import random
import sys
import time
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import fastavro

from aggregator.machine_clock import utc_today
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.wire import frame
from tests.bench.ratios import spread
from tests.unit.privacy.kernel.differential import KEYS
from tests.unit.privacy.kernel.drawing import MemoryRegistry

RECORDS, BATCH, FASTAVRO_RECORDS = 20_000, 4_000, 4_000
TOKEN = "{pseudonymize: {key: customer, domain: customer}}"
BOOKING = Path(__file__).parents[2] / "schemas/bookings-value/1-2.avsc"
SETTINGS = {"drop": None, "pseudonymize_distinct": 1.0, "pseudonymize_tenth": 0.1}
START = datetime(2026, 1, 1, tzinfo=UTC)


def _logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


FLAT = {
    "id": _logical("string", "uuid"),
    "customer": "string",
    "email": "string",
    "name": "string",
    "phone": "string",
    "street": "string",
    "city": "string",
    "country": "string",
    "created": _logical("long", "timestamp-millis"),
    "updated": _logical("long", "timestamp-micros"),
    "born": _logical("int", "date"),
    "amount": _logical("bytes", "decimal", precision=12, scale=2),
    "quantity": "int",
    "total": "long",
    "score": "double",
    "active": "boolean",
}
WIDE = {f"f{n:03}": ("string", "long", "double", ["null", "string"], "int")[n % 5] for n in range(200)}


def _schema(fields):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def _flat(rng, number):
    return {
        "id": uuid.UUID(int=rng.getrandbits(128)),
        "customer": f"customer-{number}",
        "email": f"jane.doe.{number}@example.com",
        "name": "Jane Doe",
        "phone": f"+49 555 01{number % 100:02}",
        "street": f"{number % 200} Main Street",
        "city": "Berlin",
        "country": "DE",
        "created": START + timedelta(seconds=number),
        "updated": START + timedelta(microseconds=number),
        "born": date(1980, 1, 1) + timedelta(days=number % 9000),
        "amount": Decimal(number).scaleb(-2),
        "quantity": number % 10,
        "total": number * 100,
        "score": rng.random(),
        "active": number % 3 > 0,
    }


def _wide(rng, number):
    drawn = [
        f"value {number % 977}",
        number * 31,
        rng.random(),
        None if number % 3 else "x" * (number % 20),
        number % 90,
    ]
    return {name: drawn[n % 5] for n, name in enumerate(WIDE)} | {"f000": f"customer-{number}", "f005": f"m{number}"}


def _booking(rng, number):
    contacts = [
        {"relation": "partner", "name": "Bora Chen", "email": "bora@example.com", "phone": "+1 202 555 0110"}
        for _ in range(number % 3)
    ]
    return {
        "booking_id": uuid.UUID(int=rng.getrandbits(128)),
        "flight_id": f"2013-01-{number % 28 + 1:02}/EWR/UA{number % 900}",
        "customer_id": f"C{number:07}",
        "booked_at": START + timedelta(seconds=number),
        "cabin": "ECONOMY",
        "price": Decimal(number % 90_000).scaleb(-2),
        "currency": "USD",
        "seat": f"{number % 40 + 1}A" if number % 4 else None,
        "passenger": {
            "name": "Jane Doe",
            "email": f"jane.doe.{number}@example.com",
            "passport": f"X{number:08}" if number % 2 else None,
            "phone": "+1 202 555 0100",
            "birth_date": date(1980, 1, 1) + timedelta(days=number % 9000),
        },
        "contacts": contacts,
        "payment": {"method": "CARD", "card_last4": f"{number % 10_000:04}"},
        "bags": number % 3,
        "note": None if number % 5 else "window seat for Jane Doe, please",
    }


# Case to (schema, what draws a record, fields that are dropped, fields that are pseudonymised in the other settings).
CASES = {
    "booking": (
        json.loads(BOOKING.read_text(encoding="utf-8")),
        _booking,
        ["passenger.name", "passenger.passport", "passenger.phone", "passenger.birth_date", "contacts[].**",
         "payment.card_last4", "note"],
        ["customer_id", "passenger.email"],
    ),
    "flat": (_schema(FLAT), _flat, ["name", "phone", "street"], ["customer", "email"]),
    "wide": (_schema(WIDE), _wide, ["f050", "f100", "f150"], ["f000", "f005"]),
}  # fmt: skip


def _policy(dropped, pseudonymized):
    rules = dict.fromkeys(dropped, "drop") | dict.fromkeys(pseudonymized, TOKEN)
    lines = "".join(f'      "{path}": {rule}\n' for path, rule in {"**": "keep", **rules}.items())
    return parse_policy(f"policy: bench\nversion: 1\ntopics:\n  t:\n    fields:\n{lines}")


def _without_tags(shape):
    """The paths of the policy decide, not the tags."""
    if isinstance(shape, list):
        return [_without_tags(item) for item in shape]
    if isinstance(shape, dict):
        return {name: _without_tags(item) for name, item in shape.items() if name != "confluent:tags"}
    return shape


class Bench:
    """One case in one setting."""

    def __init__(self, case, setting):
        shape, draw, dropped, pseudonymized = CASES[case]
        share = SETTINGS[setting]
        self.schema = fastavro.parse_schema(_without_tags(shape))
        self.policy = _policy(dropped if share else dropped + pseudonymized, pseudonymized if share else [])
        self.registry = MemoryRegistry()
        schema_id = self.registry.register("t-value", json.dumps(_without_tags(shape)))
        rng = random.Random(1)
        repeats = round(1 / (share or 1))
        self.bodies = [self.encoded(draw(rng, number // repeats)) for number in range(RECORDS)]
        values = [frame(schema_id, body) for body in self.bodies]
        self.batches = [
            Batch([None] * BATCH, values[at : at + BATCH], [None] * BATCH) for at in range(0, RECORDS, BATCH)
        ]

    def encoded(self, record):
        """A record's body."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self.schema, record)
        return out.getvalue()

    def kernel_us(self):
        """Microseconds per record of the kernel."""
        strip = KernelStrip(
            policy=self.policy, edge_topic="t", central_topic="e.t", edge_registry=self.registry,
            central_registry=MemoryRegistry(), key_rings=KEYS, today=utc_today, now_s=time.monotonic,
        )  # fmt: skip
        first = self.batches[0]
        strip.strip(Batch(first.keys[:1], first.values[:1], first.headers[:1]))  # compiles the plan
        started = time.process_time()
        for batch in self.batches:
            assert not strip.strip(batch).rejected
        return (time.process_time() - started) / RECORDS * 1e6

    def fastavro_us(self):
        """Microseconds per record to decode and encode."""
        bodies = self.bodies[:FASTAVRO_RECORDS]
        started = time.process_time()
        for body in bodies:
            self.encoded(fastavro.schemaless_reader(io.BytesIO(body), self.schema, None))
        return (time.process_time() - started) / len(bodies) * 1e6

    def run(self, rounds):
        """The best microseconds of some rounds, and the ratios of all."""
        gc.collect()
        pairs = [(min(self.kernel_us() for _ in range(4)), self.fastavro_us()) for _ in range(rounds)]
        kernel_us, fastavro_us = zip(*pairs, strict=True)
        return {
            "kernel_us": round(min(kernel_us), 3),
            "fastavro_us": round(min(fastavro_us), 2),
            "ratio": spread(fastavro_us, kernel_us),
        }


def main():
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="output", choices=["json", "table"], default="table")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    figures = {case: {setting: Bench(case, setting).run(options.rounds) for setting in SETTINGS} for case in CASES}
    if options.output == "json":
        sys.stdout.write(json.dumps({"rounds": options.rounds} | figures) + "\n")
        return
    for case, by_setting in figures.items():
        for setting, found in by_setting.items():
            sys.stdout.write(f"{case:8} {setting:22} " + " ".join(f"{n} {v!s:<8}" for n, v in found.items()) + "\n")


if __name__ == "__main__":
    main()
