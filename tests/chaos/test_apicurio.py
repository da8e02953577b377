"""A whole hub with a real Apicurio at an edge and at central, behind TLS and tokens that end while it runs."""

import io
import json

import fastavro
import pytest

from tests.apicurio import apicurio
from tests.authority import Authority
from tests.oauth import token_server
from tests.trial import ORDER

pytestmark = [pytest.mark.brokers]

SECRET = "a-client-secret-that-is-nowhere-else"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Apicurio, whose tokens last ten seconds."""
    folder = tmp_path_factory.mktemp("apicurio")
    with token_server(folder, Authority(folder), lifetime_s=10) as tokens, apicurio(folder, tokens) as made:
        yield made


def test_a_hub_reads_and_registers_at_apicurio(trial, server):
    """The edge's ids are Apicurio's, in a context; derived schemas get ids of central's, which the lake reads by."""
    (trial.folder / "client.secret").write_text(SECRET)
    client = server.client("client.secret")
    edge = trial.settings["edges"]["eu"]
    edge["schemas"], edge["schemas_client"] = server.address, client | {"context": ".eu"}
    trial.settings["schemas"], trial.settings["schemas_client"] = server.address, client
    trial.write()
    subject = f":.eu:{trial.topic}-value"
    schema_id = server.ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(ORDER)})["id"]
    trial.produce_raw("eu", [(b"k", trial.value(n, schema_id), n % 3) for n in range(300)])
    trial.produce("us", 300)
    done = trial.drain()
    assert SECRET not in done.stdout + done.stderr
    for name in ("eu", "us"):
        records = trial.central_records(name)
        ids = {int.from_bytes(one.value()[1:5], "big") for one in records}
        (text,) = {server.ask("GET", f"/schemas/ids/{one}")["schema"] for one in ids}
        schema = fastavro.parse_schema(json.loads(text))
        orders = [fastavro.schemaless_reader(io.BytesIO(one.value()[5:]), schema) for one in records]
        assert sorted(order["id"] for order in orders) == list(range(300))
        assert all("email" not in order for order in orders)
        assert server.ask("GET", f"/subjects/{name}.{trial.topic}-value/versions") == [1]
    assert len(trial.lake()) == 600
    told = json.loads(trial.run("doctor", "-o", "json").stdout)["findings"]
    assert [one["state"] for one in told if one["check"] == "registry"] == ["ok"] * 3
    assert trial.run("audit", "--from", "P1D").returncode == 0
