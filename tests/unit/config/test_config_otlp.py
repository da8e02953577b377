"""The collector in the configuration: nowhere unless it is asked for, and no secret over the network in clear."""

from datetime import timedelta

import pytest


def test_nothing_is_pushed_unless_it_is_asked_for(load, good):
    """A reference to a file is the configuration's neighbour's."""
    assert load(good).otlp is None
    found = load(f"{good}otlp: {{url: 'http://127.0.0.1:4318'}}\n").otlp
    assert (found.headers, found.interval) == ({}, timedelta(seconds=30))
    found = load(f"{good}otlp: {{url: 'https://c.example', headers: {{authorization: 'file:token'}}}}\n").otlp
    assert str(found.headers["authorization"]).startswith("file:/")


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("otlp: {}", "otlp.url: "),
        ("otlp: {url: 'c:4317'}", "otlp.url: is the address of a service"),
        ("otlp: {url: 'http://c:4318', headers: {a: 'env:T'}}", "otlp: `headers` would go over the network in clear"),
        ("otlp: {url: 'https://c', headers: {a: Bearer x}}", "otlp.headers.a: a secret is a reference"),
        ("otlp: {url: 'https://c', interval: 30}", "otlp.interval: a duration carries its unit"),
    ],
)
def test_what_cannot_be_is_refused(faults, good, section, told):
    """Each with its place."""
    assert any(told in one for one in faults(f"{good}{section}\n"))
