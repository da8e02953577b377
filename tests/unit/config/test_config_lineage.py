"""Where lineage goes, in the configuration: to one place, and no key over the network in clear."""

import pytest


def test_nothing_is_told_unless_it_is_asked_for(load, good):
    """A file's path is the configuration's neighbour's; so is a key's."""
    assert load(good).lineage is None
    found = load(f"{good}lineage: {{to: 'file:lineage.jsonl'}}\n").lineage
    assert (found.file.is_absolute(), found.file.name) == (True, "lineage.jsonl")
    found = load(f"{good}lineage: {{to: 'https://lineage.example', api_key: 'file:key'}}\n").lineage
    assert (found.to, str(found.api_key).startswith("file:/")) == ("https://lineage.example", True)
    assert load(f"{good}lineage: {{to: 'http://127.0.0.1:5000'}}\n").lineage.api_key is None


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("lineage: {}", "lineage.to: "),
        ("lineage: {to: 'file:'}", "lineage.to: is the address of a service"),
        ("lineage: {to: 'a.example:5000'}", "lineage.to: is the address of a service"),
        ("lineage: {to: 'https://me:secret@a.example'}", "lineage.to: holds a user or a password"),
        (
            "lineage: {to: 'http://a.example', api_key: 'env:K'}",
            "lineage: `api_key` would go over the network",
        ),
        ("lineage: {to: 'https://a.example', api_key: plain}", "lineage.api_key: a secret is a reference"),
        ("lineage: {too: 'https://a.example'}", "lineage.too: is not known; did you mean `to`?"),
    ],
)
def test_what_cannot_be_is_refused(faults, good, section, told):
    """Each with its place."""
    assert any(told in one for one in faults(f"{good}{section}\n"))
    assert not any("secret@" in one for one in faults(f"{good}{section}\n"))


def test_without_a_lake_there_is_no_commit_to_tell_of(faults, good):
    """Else somebody waits for events that never come."""
    without = "\n".join(line for line in good.splitlines() if not line.startswith("lake")) + "\n"
    assert any("lineage: tells of the commits" in one for one in faults(f"{without}lineage: {{to: 'file:a'}}\n"))
