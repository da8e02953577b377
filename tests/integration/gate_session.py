"""A Spark session for the quality gate, and rules of its suites."""

import gc
import re

import pytest

from aggregator.config.model import HubConfig
from aggregator.engine.session import open_session


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    session = open_session(
        HubConfig.model_validate(
            {
                "hub": "quality",
                "central": {"bootstrap_servers": "127.0.0.1:1"},
                "edges": {},
                "spark": {
                    "master": "local[2,4]",
                    "conf": {"spark.local.dir": str(folder), "spark.sql.shuffle.partitions": "2"},
                },
            }
        ),
        "test-quality",
    )
    yield session
    session.stop()


def rule(kind, *, severity="critical", view=None, on_failure=None, name=None, **kwargs):
    """An expectation as Great Expectations writes it."""
    said = {"view": view, "on_failure": on_failure, "name": name}
    said = {key: value for key, value in said.items() if value}
    return {"type": kind, "kwargs": kwargs, "severity": severity, "meta": {"aggregator": said}}


def library_objects() -> dict[str, int]:
    """How many of the library's long-lived objects there are."""
    gc.collect()
    names = re.compile(
        "EphemeralDataContext|SparkDatasource|DataFrameAsset|SparkDFExecutionEngine|SparkDFBatchData|Batch"
    )
    kinds = [type(one) for one in gc.get_objects()]
    found = [kind.__name__ for kind in kinds if str(kind.__module__).startswith("great_exp")]
    return {name: found.count(name) for name in set(found) if names.fullmatch(name)}
