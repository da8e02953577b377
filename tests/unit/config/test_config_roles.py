"""Settings of one role (`consumer:`, `producer:`, `admin:`): what may stand where, and which clients get it."""

import pytest

from aggregator.config.librdkafka import ALIASES, ALLOWED, IDENTITY, REFUSED, ROLES
from aggregator.config.model import ClusterConfig
from aggregator.kafka.client.clients import COMPRESSION, Role, compressing, connection_options

SERVER = '  bootstrap_servers: "127.0.0.1:19292"\n'
OWN = [(role, other, name) for role in ROLES for other, names in ROLES.items() if other != role for name in names]


@pytest.fixture
def told(changed):
    """Faults of a file in which central has a block of these options, by option."""

    def of(role: str, options: dict[str, str]) -> dict[str, str]:
        block = ", ".join(f"{name}: {value}" for name, value in options.items())
        lines = changed(SERVER, f"{SERVER}  {role}: {{{block}}}\n")
        start = f"hub.yaml:4: central.{role}."
        assert all(line.startswith(start) for line in lines), lines
        return dict(line.removeprefix(start).split(": ", 1) for line in lines)

    return of


@pytest.mark.parametrize("role", ROLES)
def test_each_role_takes_its_own_and_what_all_take(told, role):
    """What only others obey, and who signs in, stand elsewhere."""
    others = frozenset().union(*(names for other, names in ROLES.items() if other != role))
    every = {
        name: "true" if name == "check.crcs" else "1" for name in sorted(ALLOWED - IDENTITY - others - ALIASES.keys())
    }
    assert told(role, every) == {}


@pytest.mark.parametrize("role", ROLES)
def test_what_another_role_obeys_is_sent_there(told, role):
    """With file, line, and the block where it has an effect; in `client:` it goes to whoever obeys it."""
    homes = {name: other for of, other, name in OWN if of == role}
    found = told(role, dict.fromkeys(homes, "1"))
    assert found.keys() == homes.keys()
    assert all(f"write it in `{homes[name]}:`" in why for name, why in found.items())
    assert (
        told("client", {name: "true" if name == "check.crcs" else "1" for name in homes if name not in ALIASES}) == {}
    )


@pytest.mark.parametrize("role", ROLES)
def test_who_signs_in_is_said_once(told, role):
    """TLS, SASL and the reason of an open connection are for all clients: rights and renewal know one principal."""
    names = sorted(IDENTITY | {"insecure"})
    found = told(role, dict.fromkeys(names, "x"))
    assert sorted(found) == names
    assert all("`client:`" in why for why in found.values())


@pytest.mark.parametrize("role", ROLES)
def test_what_may_not_be_set_may_not_be_set_in_a_role(told, role):
    """With the same reason as in `client:`; what nobody knows is refused as there."""
    found = told(role, dict.fromkeys(REFUSED, "1") | {"socket.timeout": "1", "bootstrap.servers": "'h:1'"})
    assert all(reason in found[name] for name, reason in REFUSED.items())
    assert "did you mean `socket.timeout.ms`" in found["socket.timeout"]
    assert "`bootstrap_servers`" in found["bootstrap.servers"]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_inside_client_is_told_where_it_stands(told, role):
    """Other tools nest them; here the three stand beside `client:`."""
    assert told("client", {role: "{client.id: a}"})[role].startswith("stands beside `client:`")


def test_each_client_gets_its_role_and_no_other():
    """A role wins over `client:`, also where the two use different names of one property."""
    cluster = ClusterConfig(
        bootstrap_servers="h:1",
        client={"client.id": "all", "compression.codec": "gzip"},
        consumer={"client.rack": "a"},
        producer={"client.id": "writer", "compression.type": "lz4"},
        admin={"socket.timeout.ms": "5000"},
    )
    consumer, producer, admin = (connection_options(cluster, role) for role in Role)
    assert (consumer["client.id"], consumer["client.rack"]) == ("all", "a")
    assert (producer["client.id"], producer["compression.type"]) == ("writer", "lz4")
    assert "compression.codec" not in producer
    assert "client.rack" not in producer
    assert admin["socket.timeout.ms"] == "5000"
    assert "socket.timeout.ms" not in consumer | producer


def test_the_codec_of_central_is_the_configuration_s_before_the_default():
    """The default's level is none for another codec."""
    assert compressing({"client.id": "a"}) == COMPRESSION | {"client.id": "a"}
    assert compressing({"compression.level": "3"}) == COMPRESSION | {"compression.level": "3"}
    assert compressing({"compression.type": "none"}) == {"compression.type": "none"}


@pytest.mark.parametrize("block", ["client", "producer"])
def test_one_property_has_one_name_in_a_block(told, block):
    """Of two names one would win in silence; in `producer:` either wins over `client:`."""
    (why,) = told(block, {"compression.type": "lz4", "compression.codec": "gzip"}).values()
    assert "`compression.type` are two names of one property" in why
