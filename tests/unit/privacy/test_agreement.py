"""What `config lint` and the start of a run say about policies and configuration together."""

from datetime import date
from pathlib import Path

import pytest

from aggregator.config.model import HubConfig
from aggregator.errors import ConfigError
from aggregator.privacy.policy.cross_check import drops_key, read_policies
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.discovery.compacted_keys import losing_keys
from aggregator.replicate.discovery.edge_topic import EdgeTopic

TODAY = date(2026, 11, 1)
KEEPS = "{keep: {reason: r, owner: o, expires: 2026-11-02}}"


def _config(tmp_path, policy, **rule):
    (tmp_path / "p.yaml").write_text(f"policy: p\nversion: 1\n{policy}\n")
    return HubConfig(
        hub="h",
        central={"bootstrap_servers": "c:1"},
        edges={"eu": {"bootstrap_servers": "e:1"}},
        topics=({"match": "orders|pay.*", "policy": tmp_path / "p.yaml", **rule},),
        keys={"customer": "env:KEY"},
    )


COMPACT = {"central_config": {"cleanup.policy": "compact,delete"}}


@pytest.mark.parametrize(
    ("policy", "rule", "told"),
    [
        ("topics: {orders: {key: keep}, payments: {key: keep}}", COMPACT, []),
        ("topics: {orders: {key: drop}}", {}, []),
        ("topics: {orders: {key: drop}}", COMPACT, ["topic orders is compacted"]),
        ("topics: {orders: {key: keep}, payments: {}}", COMPACT, ["topic payments is compacted"]),
        ("topics: {'[a-z]+': {key: keep}}", COMPACT, []),
        ("topics: {'or.*': {key: keep}, orders: {key: keep}, other: {}}", COMPACT, []),
        ("", COMPACT, ["topic orders is compacted"]),
        ("topics: {orders: {value_format: json}}", {"lake": "{topic}"}, ["topic orders has JSON values"]),
        ("topics: {payments: {value_format: json}}", {"lake": "{topic}"}, ["topic payments has JSON values"]),
        ("topics: {orders: {value_format: json}}", {}, []),
        ("topics: {orders: {value_format: text}}", {"lake": "{topic}"}, ["topic orders has text values"]),
        ("topics: {orders: {value_format: bytes}}", {"lake": "{topic}"}, ["topic orders has bytes values"]),
        ("topics: {orders: {value_format: text, value: drop}}", {}, []),
        ("topics: {orders: {value_format: text, value: {pseudonymize: {key: partner, domain: d}}}}", {},
         ["key partner is used here"]),
        ("topics: {orders: {value_format: text}, 'o.*': {value_format: bytes}}", {},
         ["two value formats for topic orders"]),
        ("topics: {orders: {value_format: text}, 'o.*': {drop_record: [{field: a, equals: b}]}}", {},
         ["a condition on a field for topic orders"]),
        ("topics: {other: {value_format: json}}", {"lake": "{topic}"}, []),
        ("tags: {P: {pseudonymize: {key: partner, domain: d}}}", {}, ["key partner is used here"]),
        ("tags: {P: {date_shift: {key: partner, entity: e, days: 3}}}", {}, ["key partner is used here"]),
        ("topics: {orders: {format: long}, 'o.*': {format: json}}", {}, ["two key formats for topic orders"]),
    ],
)  # fmt: skip
def test_faults(tmp_path, policy, rule, told):
    """Each by itself; topics are judged as far as somebody wrote their names."""
    config = _config(tmp_path, policy, **rule)
    if not told:
        assert read_policies(config, TODAY)[tmp_path / "p.yaml"].policy == "p"
        return
    with pytest.raises(ConfigError) as caught:
        read_policies(config, TODAY)
    lines = caught.value.message.splitlines()
    assert len(lines) == len(told)
    assert all(part in line and str(tmp_path / "p.yaml") in line for part, line in zip(told, lines, strict=True))


def test_a_key_that_is_not_there_is_told_with_the_line_of_its_first_use(tmp_path):
    """Beneath a tag or a path, in whichever style it is written."""
    tags = "tags:\n  A: {pseudonymize: {key: k, domain: d}}\n  B:\n    pseudonymize:\n      domain: d\n"
    tags += "      key: partner\n"
    policy = tags + "topics:\n  pay.a: {key: keep}\n  orders:\n    key: drop\n    fields:\n"
    policy += "      x: {pseudonymize: {key: other, domain: partner}}\n      y: {pseudonymize: {key: drop, domain: d}}"
    with pytest.raises(ConfigError) as caught:
        read_policies(_config(tmp_path, policy), TODAY)
    first = (tmp_path / "p.yaml").read_text().splitlines().index("tags:") + 1
    told = [line.removeprefix(f"{tmp_path / 'p.yaml'}:").split(" is used")[0] for line in caught.value.lines]
    assert told == [
        f"{first + 12}: key drop",
        f"{first + 1}: key k",
        f"{first + 11}: key other",
        f"{first + 5}: key partner",
    ]


def test_all_faults_at_once(tmp_path):
    """Of several policies, those that cannot be read among them."""
    config = _config(tmp_path, "topics: {orders: {value_format: json}}", lake="x", **COMPACT)
    bad = tmp_path / "bad.yaml"
    bad.write_text("policy: p\nversion: zero\n")
    rules = (*config.topics, config.topics[0].model_copy(update={"policy": bad}))
    with pytest.raises(ConfigError) as caught:
        read_policies(config.model_copy(update={"topics": rules}), TODAY)
    assert [part in caught.value.message for part in ("bad.yaml:2", "JSON values", "compacted")] == [True] * 3


@pytest.mark.parametrize(
    ("key", "drops"), [("", True), ("key: drop", True), ("key: keep", False), (f"key: {KEEPS}", False)]
)  # fmt: skip
def test_what_drops_a_key(key, drops):
    """Nothing written drops it; so does a `keep` from its day on."""
    policy = parse_policy(f"policy: p\nversion: 1\ntopics: {{orders: {{{key}}}}}\n")
    assert drops_key(policy, "orders", TODAY) is drops
    assert drops_key(policy, "orders", date(2026, 11, 2)) is (drops or KEEPS in key)


def test_flows_are_judged_by_what_central_shows(tmp_path):
    """Whoever made the central topic, and whatever the configuration says of it; heartbeats are none of a policy's."""
    config = _config(tmp_path, "topics: {'pay.*': {key: keep}}")
    topic = EdgeTopic("t", "id", (0,), (0,), (0,), (None,))
    snapshots = {"eu": dict.fromkeys(("orders", "payments", "heartbeats"), topic)}
    central = {f"eu.{name}": {"cleanup.policy": "compact"} for name in snapshots["eu"]}
    policies = read_policies(config, TODAY)
    found = losing_keys(config, policies, snapshots, central, now_ms=0)
    assert list(found) == [("eu", "orders")]
    assert "eu.orders is compacted" in found["eu", "orders"]
    plain = {name: {"cleanup.policy": "delete"} for name in central}
    assert losing_keys(config, policies, snapshots, plain, now_ms=0) == {}
    assert Path(tmp_path / "p.yaml") in policies
