"""Java is found, or its absence is told in one sentence."""

import pytest

from aggregator.errors import FatalError
from aggregator.sandbox.java import find_java, java_version


def _fake(folder, version):
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_no_java_says_how_to_get_one(tmp_path):
    """Without Java the sentence names what to install."""
    with pytest.raises(FatalError, match="no Java") as caught:
        find_java({"PATH": str(tmp_path)})
    assert "openjdk-17" in caught.value.hint


def test_an_old_java_is_refused_by_number(tmp_path):
    """Java 11 would fail with a class file error; it is refused by name instead."""
    java = _fake(tmp_path, "11.0.2")
    with pytest.raises(FatalError, match=f"{java} is Java 11; Kafka 4 needs Java 17"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_java_home_wins_over_the_path(tmp_path):
    """JAVA_HOME is what a person sets on purpose."""
    java = _fake(tmp_path, "21.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"}) == java


def test_a_wrong_java_home_is_told(tmp_path):
    """A JAVA_HOME that holds no Java is an error, not a reason to take another one silently."""
    with pytest.raises(FatalError, match="no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("printf '\\377\\376 version \"17.0.1\"' >&2", "17"),
        (f"echo 'version \"{'9' * 5000}\"' >&2", "reports no version"),
        ("yes 'no version' >&2", "reports no version"),
        ("echo 'version \"21\"'; sleep 1000 & exec sleep 1000", "21"),
    ],
    ids=["no text", "a number without end", "output without end", "a child that stays"],
)
def test_whatever_a_java_says_is_read_to_a_bound(tmp_path, says, told):
    """The program is ended then, and what it has started with it."""
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{says}\n")
    java.chmod(0o755)
    try:
        assert str(java_version(java, timeout_s=2)) == told
    except FatalError as error:
        assert told in error.message
