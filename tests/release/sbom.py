"""The bill of materials of a release, in CycloneDX: Python's packages, Spark's jars, and Kafka's of the sandbox.

    make sbom

`cyclonedx-py` lists the packages of an environment that holds the hub and nothing else; this adds the jars. A jar that
says its Maven coordinates has them, with its SHA-512; of another one the name and version in its file's name are told.
"""

import argparse
import hashlib
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_POM = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")
_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)")


def component(jar: Path) -> dict[str, Any]:
    """One jar as a component."""
    name, version, group = *_by_name(jar), ""
    found = [(at[1], at[2], text) for at, text in _poms(jar) if at[2] == name or jar.stem.startswith(f"{at[2]}-")]
    if len(found) == 1:
        group, name, text = found[0]
        told = re.search(r"^version\s*=\s*(\S+)", text, re.MULTILINE)
        version = told[1] if told else version
    purl = f"pkg:maven/{group}/{name}@{version}" if group else f"pkg:generic/{name}@{version}"
    digest = hashlib.sha512(jar.read_bytes()).hexdigest()
    made = {"type": "library", "bom-ref": f"{purl}#{digest[:16]}", "name": name, "version": version, "purl": purl}
    return made | ({"group": group} if group else {}) | {"hashes": [{"alg": "SHA-512", "content": digest}]}


def _by_name(jar: Path) -> tuple[str, str]:
    parts = _NAME.fullmatch(jar.stem)
    return (parts["name"], parts["version"]) if parts else (jar.stem, "")


def _poms(jar: Path) -> Iterator[tuple[re.Match[str], str]]:
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if at := _POM.fullmatch(entry):
                yield at, archive.read(entry).decode(errors="replace")


def with_jars(bill: dict[str, Any], jars: list[Path]) -> dict[str, Any]:
    """A bill of materials with these jars beside what it has; one that lies in two places is told once."""
    told = {one["bom-ref"]: one for one in map(component, sorted(jars))}
    return bill | {"components": [*bill.get("components", []), *told.values()]}


def main() -> None:
    """Add the jars of folders to a bill, in place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bill", type=Path)
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args()
    jars = [jar for folder in options.folders for jar in folder.rglob("*.jar")]
    made = with_jars(json.loads(options.bill.read_text()), jars)
    options.bill.write_text(json.dumps(made, indent=2) + "\n")
    print(f"{options.bill}: {len(made['components'])} components, {len(jars)} of them jars")


if __name__ == "__main__":
    main()
