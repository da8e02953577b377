"""The jar cache hands out exactly the pinned jars, or nothing."""

import hashlib
import os

from aggregator.sandbox import jars


def test_every_pin_is_a_sha512_of_a_jar():
    """The committed list holds a full SHA-512 for each jar, Kafka's own among them."""
    pins = jars.kafka().pins
    assert len(pins) == 45
    assert f"kafka_2.13-{jars.KAFKA_VERSION}.jar" in pins
    assert all(name.endswith(".jar") and len(bytes.fromhex(digest)) == 64 for name, digest in pins.items())


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
    assert jars.cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "aggregator" / "kafka-4.3.1"


def test_the_class_path_brings_a_logging_back_end_first(tmp_path):
    """Kafka's own jars have no logging back end; pyspark's stands in front, or the broker would log nothing."""
    first, second, last = jars.classpath(tmp_path).split(os.pathsep)
    assert "slf4j-api-2" in first
    assert "log4j-slf4j2-impl" in second
    assert last == f"{tmp_path}/*"
