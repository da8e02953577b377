"""An edge's password stops being right while the hub runs, or its rights are taken away."""

import re

import pytest
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation

from tests.chaos.lines import AUTHORIZER, FIRST_PASSWORD, password_settings, right
from tests.chaos.promptness import keeps_flowing, state_of
from tests.trial import settle, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

RECOVERY_S = 40.0


def test_credentials_that_become_wrong(trial, lines, arrivals):
    """Fault 24 (I1, I4, I7, I8): that edge is named and waits, the other flows, no log has the secret; it returns."""
    broker = trial.sandbox.edges["eu"]
    lines.guard(trial, "eu")
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


def test_rights_that_are_taken_away(trial, lines, arrivals):
    """Fault 24 (I1, I4, I6, I7, I8): without Read, then hidden: the flow is named, the other edge flows, it resumes."""
    broker, produced_eu = trial.sandbox.edges["eu"], 100

    def why() -> str:
        """What `status` says of the first flow."""
        flows = trial.status()["flows"]
        (found,) = [one for one in flows if (one["edge"], one["topic"], one["partition"]) == ("eu", trial.topic, 0)]
        return found["trouble"] or ((found["gap"] or "") and "a gap")

    def grant(*operations: AclOperation) -> None:
        settle(trial.admin("eu").create_acls([right(trial.topic, one) for one in operations]))

    def take(*operations: AclOperation) -> None:
        settle(trial.admin("eu").delete_acls([_named(right(trial.topic, one)) for one in operations]))

    broker.kill()
    broker.start(AUTHORIZER)
    try:
        lines.guard(trial, "eu")
        every = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
        grant(*every)
        settle(trial.admin("eu").create_acls([right("heartbeats", one) for one in every]))
        with trial.running("--only", "replicate") as hub:
            with trial.traffic("us") as produced:
                trial.produce("eu", 100)
                for edge in ("eu", "us"):
                    arrivals[edge].reach(100, hub=hub, timeout=120)
                for taken, said in (((AclOperation.READ,), "uthoriz"), (every, "a gap")):
                    take(*taken)
                    wait_for(lambda word=said: word in why(), timeout=60, what=f"{said} in status")
                    trial.produce("eu", 100)
                    print(why(), keeps_flowing(arrivals["us"], produced, "us", for_s=4, hub=hub))
                    assert arrivals["eu"].count() == produced_eu, "it is read without the right: the fault did not hit"
                    grant(*taken)
                    produced_eu += 100
                    print(f"recovered in {arrivals['eu'].reach(produced_eu, hub=hub, timeout=RECOVERY_S)} s")
                    wait_for(lambda: not why(), timeout=30, what="no word of it any more")
            arrivals["us"].reach(produced["us"], hub=hub, timeout=30)
            hub.terminate()
            assert hub.wait(60) == 0, hub.log.read_text()
        trial.check_exactly_once("eu", produced_eu, lake=False)
        trial.check_exactly_once("us", produced["us"], lake=False)
        assert {incarnation for _, incarnation, _ in trial.origins("eu")} == {0}, "hidden is not recreated"
    finally:
        broker.kill()
        broker.start()


def _named(acl: AclBinding) -> AclBindingFilter:
    """A filter for exactly this one."""
    return AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
    )
