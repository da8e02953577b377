"""An edge's password stops being right while the hub runs."""

import re

import pytest

from tests.chaos.flowing import keeps_flowing, state_of
from tests.chaos.lines import FIRST_PASSWORD, password_settings
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(900)]

RECOVERY_S = 40.0


def guard(trial, lines, edge: str) -> None:
    """Let a trial's hub reach an edge by name and password only; the password lies in a file."""
    (trial.folder / "password").write_text(FIRST_PASSWORD)
    trial.settings["edges"][edge] |= {
        "bootstrap_servers": f"127.0.0.1:{lines.guarded[edge]}",
        "client": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "hub",
            "sasl.password": "file:password",
        },
    }
    trial.write()


def test_credentials_that_become_wrong(trial, lines, arrivals):
    """Fault 24 (I1, I4, I7, I8): that edge is named and waits, the other flows, no log has the secret; it returns."""
    broker = trial.sandbox.edges["eu"]
    guard(trial, lines, "eu")
    told = ""
    with trial.running("--only", "replicate") as hub, trial.traffic("us") as produced:
        trial.produce("eu", 100)
        for edge in ("eu", "us"):
            arrivals[edge].reach(100, hub=hub, timeout=120)
        broker.kill()
        broker.start(password_settings("another-password-of-the-broker"))
        trial.produce("eu", 100)
        print("wrong:", keeps_flowing(arrivals["us"], produced, "us", for_s=8, hub=hub))
        assert arrivals["eu"].count() == 100, "the old password still works: the fault did not hit"
        assert state_of(trial, "eu")[0] == "UNREACHABLE"
        drained = trial.run("status")
        told += drained.stdout + drained.stderr
        broker.kill()
        broker.start()
        print(f"right again: recovered in {arrivals['eu'].reach(200, hub=hub, timeout=RECOVERY_S)} s")
        wait_for(lambda: state_of(trial, "eu")[0] == "UP", timeout=20, what="the state UP")
        told += hub.log.read_text()
    assert re.search(r"edge eu: .*", told), "the hub says nothing about the edge"
    for secret in (FIRST_PASSWORD, "another-password"):
        assert secret not in told
        for log in trial.folder.glob("run-*.log"):
            assert secret.encode() not in log.read_bytes()
    trial.drain("--only", "replicate")
    trial.check_exactly_once("eu", 200, lake=False)
    trial.check_exactly_once("us", produced["us"], lake=False)
