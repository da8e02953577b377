"""The bill of materials: what a jar says of itself is told, and nothing is made up."""

import hashlib
import zipfile

from tests.release.sbom import component, with_jars


def jar(folder, name, poms=()):
    """A jar with these coordinates inside."""
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for group, artifact, version in poms:
            archive.writestr(f"META-INF/maven/{group}/{artifact}/pom.properties", f"version={version}\n")
    return path


def test_a_jar_is_told_by_its_own_coordinates(tmp_path):
    """Group, name, version, and the digest of its bytes."""
    path = jar(tmp_path, "jackson-core-2.1.jar", [("com.fasterxml", "jackson-core", "2.1")])
    found = component(path)
    assert found["purl"] == "pkg:maven/com.fasterxml/jackson-core@2.1"
    assert (found["group"], found["name"], found["version"]) == ("com.fasterxml", "jackson-core", "2.1")
    assert found["hashes"] == [{"alg": "SHA-512", "content": hashlib.sha512(path.read_bytes()).hexdigest()}]


def test_what_a_jar_does_not_say_is_not_made_up(tmp_path):
    """Without coordinates, or with those of what was copied into it, its file's name tells."""
    for name, poms in (("kafka_2.13-4.3.1.jar", ()), ("shaded-1.0.jar", [("a", "b", "9"), ("c", "d", "8")])):
        found = component(jar(tmp_path, name, poms))
        stem, _, version = name.removesuffix(".jar").rpartition("-")
        assert (found["name"], found["version"]) == (stem, version)
        assert "group" not in found
        assert found["purl"].startswith("pkg:generic/")


def test_jars_stand_beside_the_packages(tmp_path):
    """The bill keeps what it had; the same jar in two places is one."""
    first, second = jar(tmp_path, "a-1.jar"), jar(tmp_path, "b-2.jar")
    again = tmp_path / "elsewhere" / "a-1.jar"
    again.parent.mkdir()
    again.write_bytes(first.read_bytes())
    made = with_jars({"bomFormat": "CycloneDX", "components": [{"name": "pyarrow"}]}, [second, first, again])
    assert [one["name"] for one in made["components"]] == ["pyarrow", "a", "b"]
    assert made["bomFormat"] == "CycloneDX"
