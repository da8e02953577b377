"""Java is found, or its absence is told in one sentence."""

import pytest

from aggregator.errors import Failed
from aggregator.sandbox.java import find_java


def _fake(folder, version):
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_no_java_says_how_to_get_one(tmp_path):
    """Without Java the sentence names what to install."""
    with pytest.raises(Failed, match="no Java") as caught:
        find_java({"PATH": str(tmp_path)})
    assert "openjdk-17" in caught.value.hint


def test_an_old_java_is_refused_by_number(tmp_path):
    """Java 11 would fail with a class file error; it is refused by name instead."""
    java = _fake(tmp_path, "11.0.2")
    with pytest.raises(Failed, match=f"{java} is Java 11; Kafka 4 needs Java 17"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_java_home_wins_over_the_path(tmp_path):
    """JAVA_HOME is what a person sets on purpose."""
    java = _fake(tmp_path, "21.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"}) == java


def test_a_wrong_java_home_is_told(tmp_path):
    """A JAVA_HOME that holds no Java is an error, not a reason to take another one silently."""
    with pytest.raises(Failed, match="no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})
