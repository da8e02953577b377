"""Kernel and reference on drawn cases: the same bytes, reasons and counts."""

import os
import random

import pytest

from tests.unit.privacy.kernel.differential import run

pytestmark = pytest.mark.slow

# Together 20,000 records under some 950 schemas, a third of them damaged; a failure prints seeds that
# `python -m tests.bench.fuzz --records 1 --seed S` runs again.
PARTS, RECORDS, SCHEMAS = 5, 4032, 160
FIRST = int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(10**9))


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.search) for part in range(1, PARTS))])
def test_kernel_and_reference_agree(part):
    """Any schema, policy and record, whole or damaged: both give the same bytes or refuse for the same reason."""
    found, figures = run(FIRST + part * RECORDS, RECORDS)
    print(f"FUZZ_SEED={FIRST} part {part}: {figures}")
    assert found == []
    assert figures["records"] == RECORDS
    assert figures["schemas"] >= SCHEMAS
    assert 0.1 < figures["refused"] / RECORDS < 0.6, "the draw is out of balance"
