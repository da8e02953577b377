"""The clusters that a record has passed: which records come back, who says so, and what is believed."""

import base64
import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.coordinates import CHAIN_HEADER
from aggregator.errors import Reason
from aggregator.header_columns import HeaderTable
from aggregator.machine_clock import utc_today
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.identity.chains import (
    MAX_CLUSTERS,
    Chains,
    ChainVerdict,
    chain_keys,
    chained_topics,
    digest,
    place_of,
)
from aggregator.schema.memory import MemoryRegistry
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.delivered import deliver

KEY = b"k" * 32
A, B, C, D = ("4L6g3nShT-eMCtK--X86sw", "lkc-b", "redpanda.c", "d" * 200)


def hub(source: str, target: str, keys=(KEY,)) -> Chains:
    return Chains(target, {"edge": source}, keys)


def passed(hubs, topics=None) -> list[ChainVerdict]:
    """What becomes of a record that a producer writes, hub by hub, until one does not deliver it."""
    fates, chain = [], None
    for number, one in enumerate(hubs):
        read, written = ("t", "t") if topics is None else topics[number]
        fate, chain = one.judge("edge", read, written, chain)
        fates.append(fate)
        if fate not in (ChainVerdict.DELIVERED, ChainVerdict.CLAIMED):
            break
    return fates


@pytest.mark.parametrize("clusters", [[A, B], [A, B, C], [A, B, C, D]])
@pytest.mark.parametrize(("keys", "last"), [((KEY,), ChainVerdict.CYCLE), ((), ChainVerdict.UNPROVEN)])
def test_a_record_goes_round_once(clusters, keys, last):
    """Two hubs in opposite directions, and rings: nothing comes to a cluster twice, with a shared key or without."""
    ring = [hub(one, then, keys) for one, then in zip(clusters, [*clusters[1:], clusters[0]], strict=True)] * 2
    assert passed(ring) == [ChainVerdict.DELIVERED] * (len(clusters) - 1) + [last]


def test_renamed_topics_close_no_loop():
    """The names of topics and hubs are nobody's business: it is the cluster that counts."""
    assert passed([hub(A, B), hub(B, A)], [("x", "eu.x"), ("eu.x", "x")]) == [
        ChainVerdict.DELIVERED,
        ChainVerdict.CYCLE,
    ]


def test_one_hub_without_the_key_breaks_the_proof_and_not_the_chain():
    """What it passes on is not proven any more: suppressed by a dead letter, and never delivered twice."""
    assert passed([hub(A, B), hub(B, C, ()), hub(C, A)]) == [
        ChainVerdict.DELIVERED,
        ChainVerdict.DELIVERED,
        ChainVerdict.UNPROVEN,
    ]
    assert passed([hub(A, B), hub(B, C, (b"o" * 32,)), hub(C, A)])[-1] is ChainVerdict.UNPROVEN
    assert passed([hub(A, B), hub(B, C, (b"n" * 32, KEY)), hub(C, A)])[-1] is ChainVerdict.UNPROVEN
    rotated = hub(B, A, (b"n" * 32, KEY))
    assert passed([hub(A, B), rotated]) == [ChainVerdict.DELIVERED, ChainVerdict.CYCLE]


def test_a_cluster_without_an_id_is_passed_over():
    """An edge that tells none costs one round more; a central that tells none neither writes nor judges chains."""
    assert hub(A, "").judge_batch("edge", "t", "t", [None, []]).chains is None
    assert passed([hub("", B), hub(B, A), hub(A, B)]) == [
        ChainVerdict.DELIVERED,
        ChainVerdict.DELIVERED,
        ChainVerdict.CYCLE,
    ]


def test_a_forged_chain_suppresses_nothing_in_silence():
    """What names our central without a seal is a dead letter by name; what is no chain of this record is delivered."""
    ours = hub(B, A)
    here = place_of(B, "t")
    forged = b"/".join([digest(A), digest(B), here])
    seal = b"/" + base64.urlsafe_b64encode(b"s" * 16).rstrip(b"=")
    real = hub(A, B).judge("edge", "t", "t", None).chain
    for header, fate in [
        (real, ChainVerdict.CYCLE),
        (forged, ChainVerdict.UNPROVEN),
        (forged + seal, ChainVerdict.UNPROVEN),
        (real[:-22] + real[-22:].swapcase(), ChainVerdict.UNPROVEN),
        (
            b"/".join([digest(A), digest(C), place_of(C, "t")]),
            ChainVerdict.UNPROVEN,
        ),  # a mirror may have brought it from C
        (b"/".join([digest(C), here]), ChainVerdict.DELIVERED),
        (b"", ChainVerdict.CLAIMED),
        (b"x", ChainVerdict.CLAIMED),
        (real + b"/", ChainVerdict.CLAIMED),
        (b"/" + real, ChainVerdict.CLAIMED),
        (real.replace(b"/", b"\n"), ChainVerdict.CLAIMED),
        (real * 200, ChainVerdict.CLAIMED),
    ]:
        assert ours.judge("edge", "t", "t", header).fate is fate, header
    assert ours.judge("edge", "derived", "derived", real).fate is ChainVerdict.CLAIMED, (
        "an application copied the header"
    )


def test_a_forged_chain_is_not_sealed_on_its_way():
    """Or somebody's forgery would be a proof at the next hub, and its records would be suppressed in silence."""
    forged = b"/".join([digest(C), digest(A), place_of(A, "t")])
    fate, chain = hub(A, B).judge("edge", "t", "t", forged)
    assert fate is ChainVerdict.DELIVERED
    assert hub(B, C).judge("edge", "t", "t", chain).fate is ChainVerdict.UNPROVEN


@given(st.lists(st.binary(min_size=8, max_size=8), min_size=1, max_size=MAX_CLUSTERS - 2), st.binary(max_size=300))
def test_nothing_that_is_not_proven_comes_out(clusters, noise):
    """No part of a header that somebody at an edge wrote is written to central, whatever it looks like."""
    tokens = [base64.urlsafe_b64encode(one).rstrip(b"=") for one in clusters]
    for header in (b"/".join([*tokens, tokens[0]]), noise):
        _, chain = hub(A, B).judge("edge", "t", "t", header)
        own = {digest(A), digest(B), place_of(B, "t")}
        parts = set(chain.split(b"/"))
        assert not (parts & set(header.split(b"/"))) - own


def test_a_chain_has_an_end():
    """More clusters than a chain takes: a dead letter by name; the chain of any delivered record fits."""
    ids = [f"cluster-{number}" for number in range(MAX_CLUSTERS + 3)]
    line = [hub(one, then) for one, then in pairwise(ids)]
    fates = passed(line)
    assert fates == [ChainVerdict.DELIVERED] * (MAX_CLUSTERS - 1) + [ChainVerdict.TOO_LONG]
    assert passed([hub(one, then, ()) for one, then in pairwise(ids)]) == fates


@pytest.mark.slow
def test_any_walk_comes_to_an_end():
    """Any hubs between any clusters, with keys or without: a record is never delivered to a cluster twice."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"SEED={seed}")
    chance = random.Random(seed)
    for _ in range(2000):
        clusters = [f"c{number}" for number in range(chance.randrange(2, 6))]
        at, chain, topic = chance.choice(clusters), None, "t"
        seen = {at}
        while True:
            to = chance.choice([one for one in clusters if one != at])
            written = chance.choice(["t", "u"])
            keys = chance.choice([(), (KEY,), (b"o" * 32, KEY)])
            fate, chain = hub(at, to, keys).judge("edge", topic, written, chain)
            if fate is not ChainVerdict.DELIVERED:
                assert fate in (ChainVerdict.CYCLE, ChainVerdict.UNPROVEN)
                assert to in seen
                break
            assert to not in seen
            seen.add(to)
            at, topic = to, written


def strip():
    registry = MemoryRegistry()
    return ReferenceStrip(
        policy=parse_policy(
            "policy: p\nversion: 1\ntopics: {orders: {key: keep, headers: [x], fields: {},"
            " drop_record: [{header: z, is_null: true}]}}"
        ),
        edge_topic="orders", central_topic="eu.orders", edge_registry=registry, central_registry=MemoryRegistry(),
        key_rings={}, today=utc_today, now_s=time.monotonic,
    )  # fmt: skip


def test_a_batch_is_judged_record_by_record():
    """Delivered, suppressed and dead records side by side; the last header counts; consumed is the sum."""
    ours = Chains(A, {"eu": B}, (KEY,))
    real = Chains(B, {"edge": A}, (KEY,)).judge("edge", "orders", "orders", None).chain
    unproven = b"/".join([digest(A), digest(B), place_of(B, "orders")])
    there = ("z", b"1")
    rows = [
        [there],
        [there, (CHAIN_HEADER, real)],
        [there, (CHAIN_HEADER, unproven)],
        [(CHAIN_HEADER, b"no chain"), there],
        [(CHAIN_HEADER, unproven)],
        [(CHAIN_HEADER, unproven), there, (CHAIN_HEADER, b"no chain")],
        [there, (CHAIN_HEADER, None)],
    ]
    for headers in (rows, HeaderTable.of(rows)):
        produced = deliver(strip(), [None] * 7, [b"%d" % n for n in range(7)], headers, chains=ours)
        assert [key for key, _, _ in produced.central] == [b"0", b"3", b"5", b"6"]
        assert [(one["offset"], one["reason"]) for one in produced.letters] == [
            (1002, Reason.UNPROVEN_CYCLE),
            (1004, Reason.UNPROVEN_CYCLE),
        ]
        assert produced.counts == (4, 2, 1)
        entry = produced.flow.cursor.entry
        assert (entry.cycles, entry.forged) == (1, 3)
        fresh = ours.judge("eu", "orders", "eu.orders", None).chain
        assert [dict(own)[CHAIN_HEADER] for _, _, own in produced.central] == [fresh] * 4


def test_of_many_chains_of_one_record_only_the_last_is_judged(monkeypatch):
    """Each would cost a few digests: a record of nothing but chains, a second of the slot."""
    judged, judge = [], Chains.judge
    monkeypatch.setattr(Chains, "judge", lambda *of: (judged.append(of[4]), judge(*of))[1])
    crowd = [(CHAIN_HEADER, b"%d" % at) for at in range(1000)]
    out = Chains("C", {"e": "E"}, (b"k" * 32,)).judge_batch(
        "e", "t", "t", [crowd, [], crowd[:10], [*crowd[:5], ("x", b"")]]
    )
    assert out.claimed == {0, 2, 3}
    assert judged == [None, b"999", b"9", b"4"]


def test_what_a_person_asks_for_by_its_letter_is_delivered():
    """Whoever replays a letter has seen that the record is a stranger's: it goes on, and is proven to nobody."""
    ours = Chains(A, {"eu": B}, (KEY,))
    unproven = b"/".join([digest(A), digest(B), place_of(B, "t")])
    judged = ours.judge_batch("eu", "t", "w", [[(CHAIN_HEADER, unproven)]] * 2, frozenset({1}))
    assert dict(judged.rejected) == {0: Reason.UNPROVEN_CYCLE}
    assert judged.chains[1].count(b"/") == 3


def test_where_a_chain_begins():
    """Where names may come back, or hubs are meant to follow one another; one that came along goes on everywhere."""
    assert chained_topics(frozenset({"orders"}), None) == {"orders"}
    assert chained_topics(frozenset(), "hubs") is None
    quiet = Chains(B, {"eu": A}, (), frozenset({"orders"}))
    assert quiet.judge_batch("eu", "orders", "eu.orders", [None, []]).chains is None
    assert quiet.judge_batch("eu", "orders", "orders", [None, []]).chains is not None
    there = Chains(A, {"eu": C}, ()).judge("eu", "orders", "orders", None).chain
    assert None not in quiet.judge_batch("eu", "orders", "eu.orders", [[(CHAIN_HEADER, there)], []]).chains.tolist()


def test_all_versions_of_the_shared_key_are_known(monkeypatch):
    """The current one seals; a hub that was not told of it yet sealed with the one before."""
    monkeypatch.setenv("ONE", base64.b64encode(bytes(range(32))).decode())
    monkeypatch.setenv("TWO", base64.b64encode(bytes(range(1, 33))).decode())
    refs = ((1, SecretRef("env", "ONE")), (2, SecretRef("env", "TWO")))
    one, two = chain_keys({"k": KeyRing(1, refs)}, "k"), chain_keys({"k": KeyRing(2, refs)}, "k")
    assert one == tuple(reversed(two))
    assert chain_keys({"k": KeyRing(1, refs)}, None) == ()
