"""Runs drawn cases through both implementations and says where they differ."""

import os
import time
from pathlib import Path

from aggregator.config.secrets import key_ring
from aggregator.privacy.kernel.strip import KernelStrip
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.kernel.drawing import TODAY, draw

# Of each case, which has two or three schemas: more cases are worth more than more records of one.
RECORDS = 48
# The key of the published vectors; no secret.
os.environ["KEY_OF_THE_VECTORS"] = Path(__file__).with_suffix(".key").read_text("ascii").strip()
KEYS = {"customer": key_ring("env:KEY_OF_THE_VECTORS")}


def strips(case):
    """Reference and kernel of a case."""
    return [
        made(
            policy=case.policy,
            edge_topic="orders",
            central_topic="eu.orders",
            edge_registry=case.registry,
            central_registry=type(case.registry)(),
            key_rings=KEYS,
            now_s=time.monotonic,
            today=lambda: TODAY,
            edge="eu",
        )
        for made in (ReferenceStrip, KernelStrip)
    ]


def differences(case):
    """What of the outputs is not the same, and how many records were refused; twice, because strips remember."""
    reference, kernel = strips(case)
    for _ in range(2):
        expected, out = reference.strip(case.batch), kernel.strip(case.batch)
        for name in ("keys", "values", "headers", "rejected", "suppressed", "counts"):
            if getattr(expected, name) != getattr(out, name):
                return [f"seed {case.seed}: {name}"], 0
    if reference.report() != kernel.report():
        return [f"seed {case.seed}: report"], 0
    return [], len(expected.rejected)


def run(seed, records):
    """Compare so many records; returns lines about cases that differ, and figures."""
    started, done, refused, schemas, found = time.monotonic(), 0, 0, 0, []
    while done < records:
        case = draw(seed, RECORDS)
        different, bad = differences(case)
        found += different
        seed, done, refused, schemas = seed + 1, done + RECORDS, refused + bad, schemas + len(case.registry.texts)
    seconds = round(time.monotonic() - started, 1)
    return found, {"records": done, "schemas": schemas, "refused": refused, "differ": len(found), "seconds": seconds}
