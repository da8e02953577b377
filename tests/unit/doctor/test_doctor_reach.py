"""The way to a cluster, step by step: each obstacle has a sentence and a remedy of its own."""

import pytest

from aggregator.doctor import obstacles, reach
from aggregator.doctor.finding import CheckState
from aggregator.doctor.reach import Reach
from aggregator.kafka.client.address import Address
from aggregator.kafka.probes.cluster_view import ClusterView, SignInResult
from aggregator.kafka.probes.listener import Certificate, Listener, Obstacle

HERE, THERE = Address("10.0.0.1", 9092), Address("kafka.example", 9092)
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def certificate(days):
    return Certificate("CN=b", "CN=ca", ("kafka.example",), 0, NOW_MS + days * DAY_MS)


def shown(given):
    return [(one.check, one.state) for one in reach.findings("eu", given, NOW_MS) if one.state is not CheckState.OK]


def entered(*addresses, brokers=None):
    view = ClusterView("id", brokers or dict(enumerate(addresses)))
    return {address: SignInResult(view=view) for address in addresses}


@pytest.mark.parametrize("obstacle", list(Obstacle))
def test_each_obstacle_has_a_step_a_sentence_and_a_remedy(obstacle):
    """With and without what a handshake shows; the address is in each sentence."""
    for chain in ((), (certificate(1),)):
        step, what, then = obstacles.explained(Listener(THERE, obstacle, "some words", chain))
        assert step in obstacles.STEPS
        assert THERE.host in what
        assert then
        assert "{" not in what + then


def test_no_two_obstacles_say_the_same():
    """Each obstacle has a sentence and a next step of its own."""
    told = [obstacles.explained(Listener(THERE, one)) for one in Obstacle]
    assert len({what for _, what, _ in told}) == len(told)


def test_an_address_that_is_away_beside_one_that_answers_is_a_warning():
    """The hub comes in by the other one; if none is left it is a failure."""
    away, well = Listener(HERE, Obstacle.REFUSED), Listener(THERE, versions={3: 13})
    assert shown(Reach({}, (away, well), entered(THERE))) == [("port", CheckState.WARNING)]
    assert shown(Reach({}, (away,))) == [("port", CheckState.FAILED)]


def test_steps_that_were_not_come_to_are_not_told():
    """Behind a port that is closed nobody knows of TLS or passwords."""
    found = reach.findings("eu", Reach(SASL, (Listener(THERE, Obstacle.REFUSED),)), NOW_MS)
    assert [one.check for one in found if one.state is CheckState.OK] == ["name", "route"]


def test_a_certificate_that_expires_soon_is_told_before():
    """Thirty days; the client's own one as well, and that is a failure once it has expired."""
    for days, expected in ((10, [("tls", CheckState.WARNING)]), (40, [])):
        listener = Listener(THERE, chain=(certificate(days),), mechanisms=("PLAIN",))
        assert shown(Reach(SASL, (listener,), entered(THERE))) == expected
    for days, state in ((5, CheckState.WARNING), (-1, CheckState.FAILED)):
        listener = Listener(THERE, mechanisms=("PLAIN",))
        assert shown(Reach(SASL, (listener,), entered(THERE), own=certificate(days))) == [("tls", state)]


@pytest.mark.parametrize(
    ("client", "offered", "cause"),
    [
        (SASL, None, "nobody signs in"),
        ({}, ("PLAIN", "GSSAPI"), "lets in only who signs in (PLAIN, GSSAPI)"),
        (SASL, ("SCRAM-SHA-256",), "does not take PLAIN; it takes SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL"}, ("PLAIN",), "does not take GSSAPI"),
    ],
)
def test_a_mechanism_that_a_listener_does_not_take_is_told_once(client, offered, cause):
    """What follows from it, a sign-in that fails, is not told beside it."""
    refused = {THERE: SignInResult("_AUTHENTICATION", "no")}
    given = Reach(client, (Listener(THERE, mechanisms=offered),), refused)
    (found,) = [one for one in reach.findings("eu", given, NOW_MS) if one.state is not CheckState.OK]
    assert (found.check, found.state) == ("mechanism", CheckState.FAILED)
    assert cause in found.what


def test_a_listener_that_does_not_tell_its_mechanisms_is_not_blamed():
    """Not told is not none."""
    assert shown(Reach(SASL, (Listener(THERE, mechanisms=()),), entered(THERE))) == []


@pytest.mark.parametrize(
    ("code", "check"),
    [
        ("_AUTHENTICATION", "password"),
        ("SASL_AUTHENTICATION_FAILED", "password"),
        ("_SSL", "tls"),
        ("_TRANSPORT", "protocol"),
    ],
)
def test_a_sign_in_that_fails_is_told_by_its_code(code, check):
    """Password, librdkafka's own TLS, or a broker that closes."""
    given = Reach(SASL, (Listener(THERE, mechanisms=("PLAIN",)),), {THERE: SignInResult(code, "bootstrap: words")})
    assert shown(given) == [(check, CheckState.FAILED)]


def test_a_token_that_is_refused_has_another_remedy_than_a_password():
    """Nobody has a password with OAUTHBEARER."""
    client = SASL | {"sasl.mechanism": "OAUTHBEARER"}
    given = Reach(
        client, (Listener(THERE, mechanisms=("OAUTHBEARER",)),), {THERE: SignInResult("_AUTHENTICATION", "x")}
    )
    (found,) = [one for one in reach.findings("eu", given, NOW_MS) if one.state is not CheckState.OK]
    assert "token.endpoint" in found.next


def test_an_own_certificate_that_has_expired_is_the_only_cause():
    """That a broker does not take it follows from that; what else stops another address does not."""
    refused = Listener(THERE, Obstacle.REFUSES_CERTIFICATE, "tlsv1 alert certificate expired")
    other = Listener(HERE, Obstacle.REFUSED)
    given = Reach(SASL, (refused, other), own=certificate(-1))
    assert shown(given) == [("tls", CheckState.FAILED), ("port", CheckState.FAILED)]
    first = reach.findings("eu", given, NOW_MS)[0]
    assert "the client's own certificate CN=b has expired" in first.what
    assert shown(Reach(SASL, (refused,), own=certificate(90))) == [("tls", CheckState.FAILED)]


def test_brokers_are_looked_for_where_they_say_that_they_are():
    """One that is away there fails; one that says `localhost` to the outside is told, too."""
    lost = Listener(Address("inner.example", 9092), Obstacle.UNKNOWN_NAME)
    own = Listener(Address("localhost", 9092))
    brokers = {1: THERE, 2: lost.address, 3: own.address}
    given = Reach({}, (Listener(THERE),), entered(THERE, brokers=brokers), {2: lost, 3: own})
    assert shown(given) == [("advertised", CheckState.FAILED), ("advertised", CheckState.WARNING)]
    assert given.brokers == (1, 3)
    alone = Reach(
        {}, (Listener(Address("localhost", 1)),), entered(Address("localhost", 1), brokers={3: own.address}), {3: own}
    )
    assert shown(alone) == []


@pytest.mark.parametrize(
    ("why", "check"),
    [
        ("`client`: No provider for SASL mechanism GSSAPI", "mechanism"),
        ("secret env:X: the variable is not set", "password"),
        ("`client`: sasl.username and sasl.password must be set", "password"),
        ("ssl.ca.location: No such file", "tls"),
        ("`client`: something else", "settings"),
    ],
)
def test_settings_of_which_no_client_can_be_made_are_told_first(why, check):
    """And alone."""
    assert shown(Reach({}, settings=why, settings_next="do")) == [(check, CheckState.FAILED)]
