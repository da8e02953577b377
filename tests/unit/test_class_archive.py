"""Class archives: for the start's sake only; a JVM that cannot use one starts as ever, and says nothing."""

import subprocess
from pathlib import Path

import pytest

from aggregator.class_archive import archive_of, reading, writing
from aggregator.sandbox.java import find_java


@pytest.fixture
def java(tmp_path, monkeypatch) -> Path:
    """A real Java, and a cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    return find_java()


def version(java: Path, options: tuple[str, ...]) -> subprocess.CompletedProcess:
    return subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=True, timeout=60)


@pytest.mark.slow
def test_an_archive_is_written_once_and_read(java):
    """By the JVM itself, at its end; the next one maps it."""
    assert reading("p 1", java) == ()
    archive = archive_of("p 1", java)
    with writing(archive) as options:
        assert not archive.exists()
        version(java, options)
    assert archive.stat().st_size > 100_000
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]
    used = reading("p 1", java)
    traced = version(java, (*used, "-Xshare:on", "-Xlog:cds=info:stderr"))
    assert str(archive) in traced.stderr


def test_each_program_and_each_java_has_its_own(java, tmp_path):
    """Another version, other jars, a Java that was replaced."""
    fake = tmp_path / "java"
    fake.write_text("one")
    first = archive_of("p 1", fake)
    fake.write_text("another")
    assert len({first, archive_of("p 1", fake), archive_of("p 2", fake), archive_of("p 1", java)}) == 4


@pytest.mark.parametrize("content", [b"", b"no archive", bytes(200_000)])
def test_one_that_cannot_be_used_changes_nothing(java, content):
    """Half written, of another JVM, damaged: the same output, and nothing on standard output."""
    archive_of("p 1", java).write_bytes(content)
    done = version(java, reading("p 1", java))
    assert (done.stdout, done.stderr) == ("", version(java, ("-Xshare:off",)).stderr)


def test_an_error_leaves_none(java):
    """Nor does a JVM that was killed before it wrote."""
    archive = archive_of("p 1", java)
    with pytest.raises(subprocess.CalledProcessError), writing(archive) as options:
        version(java, (*options, "-no-such-option"))
    with writing(archive):
        pass
    assert list(archive.parent.iterdir()) == []


def test_where_others_may_write_none_is_read(java, tmp_path, monkeypatch):
    """What lies in it is executed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    archive_of("p 1", java).write_bytes(b"x")
    assert reading("p 1", java)
    (tmp_path / "cache" / "aggregator").chmod(0o777)
    assert reading("p 1", java) == ()
    (tmp_path / "cache" / "aggregator").chmod(0o700)
    assert reading("p 1", java)
