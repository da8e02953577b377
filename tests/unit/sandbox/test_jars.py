"""The jar cache hands out exactly the pinned jars, or nothing."""

import hashlib
import os

import pytest

from aggregator.errors import FatalError
from aggregator.sandbox import jars
from aggregator.sandbox.releases import KAFKA_VERSION, NEWEST_FIRST, release


@pytest.mark.parametrize("version", NEWEST_FIRST)
def test_every_pin_is_a_sha512_of_a_jar(version):
    """The committed list of each release holds a full SHA-512 for each jar, Kafka's own among them."""
    pins = jars.kafka(release(version)).pins
    assert len(pins) >= 36
    assert f"kafka_2.13-{version}.jar" in pins
    assert all(name.endswith(".jar") and len(bytes.fromhex(digest)) == 64 for name, digest in pins.items())


def test_a_jar_of_two_releases_has_one_pin():
    """The same name is the same file: lists that were made at different times agree."""
    pinned = [pin for version in NEWEST_FIRST for pin in jars.kafka(release(version)).pins.items()]
    assert len(set(pinned)) == len(dict(pinned))


def test_another_release_is_refused_by_name():
    """The refusal lists what there is."""
    with pytest.raises(FatalError, match=r"does not run Kafka '2\.7\.0'") as caught:
        release("2.7.0")
    assert "it runs 4.4.0, 4.3.1, 3.9.2, 3.5.2, 2.8.2" in caught.value.hint


def test_a_missing_a_changed_and_a_foreign_jar_are_told(tmp_path):
    """Anything but the pinned jars with their pinned bytes keeps the folder from being used."""
    pins = {name: hashlib.sha512(name.encode()).hexdigest() for name in ("a.jar", "b.jar", "c.jar")}
    (tmp_path / "a.jar").write_text("a.jar")
    (tmp_path / "b.jar").write_text("changed")
    (tmp_path / "x.jar").write_text("x")
    assert jars.faults(tmp_path, pins) == ["c.jar is missing", "x.jar is not on the list", "b.jar has another SHA-512"]


def test_a_folder_that_is_not_there_lacks_everything(tmp_path):
    """A cache that was never filled is not an error by itself: it is fetched."""
    assert jars.faults(tmp_path / "none", {"a.jar": ""}) == ["a.jar is missing"]


def test_the_cache_follows_xdg(tmp_path):
    """The cache lies outside the checkout, where the machine's owner wants caches."""
    where = {"XDG_CACHE_HOME": str(tmp_path)}
    assert jars.cache_dir(where) == tmp_path / "aggregator" / "kafka-4.3.1"
    assert jars.cache_dir(where, version="2.8.2") == tmp_path / "aggregator" / "kafka-2.8.2"


def test_the_class_path_brings_a_logging_back_end_first(tmp_path):
    """Kafka's own jars have no logging back end; pyspark's stands in front, or the broker would log nothing."""
    first, second, last = jars.classpath(tmp_path, release(KAFKA_VERSION)).split(os.pathsep)
    assert "slf4j-api-2" in first
    assert "log4j-slf4j2-impl" in second
    assert last == f"{tmp_path}/*"


def test_a_release_that_calls_log4j_1_gets_its_bridge(tmp_path):
    """Kafka 2 and 3 do not start without those classes; their jars lack them."""
    path = jars.classpath(tmp_path, release("2.8.2")).split(os.pathsep)
    assert [part.rsplit("/", 1)[1].rsplit("-", 1)[0] for part in path[2:5]] == [
        "log4j-1.2-api",
        "log4j-api",
        "log4j-core",
    ]
