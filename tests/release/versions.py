"""What a tag asks of the tree: the package, its chart and the changelog name one version, and it is the tag's."""

from collections.abc import Iterable, Iterator, Mapping

from packaging.version import Version


def departures(said: Mapping[str, str], tags: Iterable[str], earlier: Iterable[str]) -> Iterator[str]:
    """What keeps a commit from being what its tag says, or from being the next version.

    Args:
        said: The version by the file that names it; the changelog's whole heading under `CHANGELOG.md`.
        tags: Tags of this commit, as `v1.2.0`.
        earlier: Tags of the commits before it.
    """
    heading = said["CHANGELOG.md"]
    version = said["pyproject.toml"]
    for name, named in said.items():
        if named.partition(" ")[0] != version:
            yield f"{name} says {named}, pyproject.toml {version}"
    for tag in tags:
        if tag != f"v{version}":
            yield f"the tag is {tag}, the version {version}"
        if heading != version:
            yield f"CHANGELOG.md says `{heading}`, and {tag} is released"
    for tag in [] if list(tags) else earlier:
        if Version(tag.removeprefix("v")) >= Version(version):
            yield f"{tag} is released: give pyproject.toml the next version"
