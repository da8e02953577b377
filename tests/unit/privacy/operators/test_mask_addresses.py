"""`mask_email`, `mask_ip`, `mask_url`."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.operators.mask_ip import _v6_prefix
from tests.unit.privacy.operators.single import one, rule

REDACTED = "[REDACTED]"


@pytest.mark.parametrize(
    ("parts", "value", "masked"),
    [
        (["local"], " jane.doe+x@Example.com", "***@Example.com"),
        (["domain"], "jane@example.com", "jane@***"),
        (["local", "domain"], "jane@example.com", "***@***"),
        (["local"], "żółć@bücher.example", "***@bücher.example"),
        (["local"], "jane", REDACTED),
        (["local"], "@example.com", REDACTED),
        (["local"], "jane@", REDACTED),
        (["local"], "jane@evil@example.com", REDACTED),
        (["local"], "Jane <jane@example.com>", REDACTED),
        (["local"], "a@b, jane@example.com", REDACTED),
        (["local"], "info@example.com/+4930123456", REDACTED),
        (["local"], "info@example.com?cc=jane%40example.com", REDACTED),
        (["local"], "info@jane.doe\uff20example.com", REDACTED),
    ],
)
def test_emails(parts, value, masked):
    """The parts named are hidden with their length; what is no single plain address is redacted."""
    assert one(rule("mask_email", parts=parts), value) == masked


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("192.0.2.17", "192.0.2.0"),
        ("2001:db8:1:2:3::4", "2001:db8:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:192.0.2.17", "::ffff:192.0.2.0"),
        ("192.0.2.017", REDACTED),
        ("192.0.2.17/24", REDACTED),
        ("host", REDACTED),
    ],
)
def test_ips(value, masked):
    """The network of the prefix; no address: redacted."""
    assert one(rule("mask_ip"), value) == masked


@given(st.ip_addresses(), st.integers(0, 31), st.integers(0, 127))
def test_ip_laws(address, v4, v6):
    """The host's bits are gone and the network's stay; masking twice is masking once."""
    made = rule("mask_ip", v4_prefix=v4, v6_prefix=v6)
    masked = one(made, str(address))
    assert one(made, masked) == masked
    if address.version == 4 or address.ipv4_mapped is None:
        prefix = v4 if address.version == 4 else _v6_prefix(made, int(address))
        assert prefix <= (v4 if address.version == 4 else v6)
        network = ipaddress.ip_network((str(address), prefix), strict=False)
        assert ipaddress.ip_address(masked) == network.network_address


@pytest.mark.parametrize(
    ("parameters", "value", "masked"),
    [
        ({}, "https://jane:pw@Example.com:8443/users/jane?token=1#top", "https://***@example.com:8443/***?***#***"),
        ({}, "https://example.com", "https://example.com"),
        ({}, "https://example.com/", "https://example.com/"),
        ({"parts": ["query"]}, "http://[2001:db8::1]/a?b", "http://[2001:db8::1]/a?***"),
        ({"parts": ["host"]}, "ftp://jane.example.com/x", "ftp://***/x"),
        ({}, "mailto:jane@example.com", REDACTED),
        ({}, "javascript:alert(1)", REDACTED),
        ({}, "/users/jane", REDACTED),
        ({}, "http://exa mple.com/", REDACTED),
        ({}, "http://example.com:99999/", REDACTED),
        ({}, "http://[::1/", REDACTED),
    ],
)
def test_urls(parameters, value, masked):
    """User and password always go, the parts named where they are there; what has no host is redacted."""
    assert one(rule("mask_url", **parameters), value) == masked


@given(st.text(alphabet="htp:/@?#[].ex1%", max_size=30), st.sampled_from(["mask_email", "mask_url"]))
def test_masking_twice_is_masking_once(text, name):
    """Whatever the text; the redaction itself may only be redacted again."""
    masked = one(rule(name), "http://x" + text if name == "mask_url" else text)
    assert one(rule(name), masked) == masked
