"""A running hub takes changed policies on SIGHUP, and refuses what is looser unless the policy says that it is."""

import json
import logging
import os
import signal
from datetime import date

import pytest

from aggregator.cli.policy_reload import PolicyReload, Reload
from aggregator.config.load import load_config
from aggregator.privacy.policy.cross_check import read_policies
from aggregator.state.decisions import DecisionKind, decode, read_decisions
from aggregator.state.names import HubNames
from tests.trial import ORDER, POLICY, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.slow]

TODAY = date(2026, 11, 1)
STRICTER = POLICY.replace("      amount: keep\n", "").replace("version: 1", "version: 2")
LOOSER = STRICTER.replace("[traceparent]", "[traceparent, x-user-email]")
SAID = LOOSER.replace("version: 2", "version: 3\nloosens: {version: 2, reason: r, owner: o}")


class Taking:
    """A reload as a hub has it, whose policies are kept in a list instead."""

    def __init__(self, trial):
        self.trial = trial
        self.config = load_config(trial.config, {})
        self.policies = [read_policies(self.config, TODAY)]
        self.told, self.is_stale = [], False
        self.reload = PolicyReload(
            self.config,
            self.policies[0],
            self.policies.append,
            told=self.told.append,
            is_stale=lambda: self.is_stale,
            today=lambda: TODAY,
        )

    def after(self, policy):
        """Whether the hub goes by what the file says now."""
        (self.trial.folder / "policy.yaml").write_text(policy)
        return self.reload.reload() is Reload.TAKEN

    @property
    def version(self):
        """Of the policy in force."""
        (policy,) = self.policies[-1].values()
        return policy.version


def test_what_is_taken_and_what_is_not(trial, caplog):
    """Stricter is taken; looser, unproved, broken or held is not, and says why; looser with a word is."""
    trial.produce("eu", 5)
    trial.drain_here()
    taking = Taking(trial)
    caplog.set_level(logging.INFO)
    assert not taking.after(POLICY)
    assert "nothing is reloaded" in caplog.text
    assert "restart it" not in caplog.text
    taking.is_stale = True
    assert not taking.after(POLICY)
    assert "the hub's own file has changed since it started, and counts at its next start" in caplog.text
    assert taking.told == [(), ()]
    for policy, why in (
        (POLICY.replace("[traceparent]", "[traceparent, x-user-email]"), "x-user-email: dropped becomes passes"),
        (POLICY.replace("amount: keep", "amount: keep\n      '**': keep"), "fields.**: - becomes keep"),
        (POLICY.replace("key: keep", "key: keep\n    nonsense: 1"), "nonsense"),
        (POLICY.replace("domain: customer", "domain: other"), "which is other"),
        (POLICY.replace("PII: drop", "PII: {pseudonymize: {key: unheard, domain: d}}"), "key unheard is used here"),
    ):
        caplog.clear()
        assert not taking.after(policy), why
        assert "the policies stay as they are" in caplog.text
        assert why in caplog.text
        assert why in " ".join(taking.told[-1])
    assert taking.version == 1
    assert taking.after(STRICTER)
    assert (taking.version, taking.told[-1]) == (2, [])
    for policy in (LOOSER, LOOSER.replace("version: 2", "version: 3"), SAID.replace("{version: 2", "{version: 1")):
        assert not taking.after(policy)
    assert taking.after(SAID)
    assert (taking.version, len(taking.policies)) == (3, 3)


def test_what_would_be_held_is_not_taken_whatever_it_says(trial, caplog):
    """A number that becomes a token breaks readers of central; the plan says so before the hub does."""
    trial.produce("eu", 5)
    trial.drain_here()
    taking = Taking(trial)
    token = "id: {pseudonymize: {key: customer, domain: id}}"
    breaking = POLICY.replace("id: keep", token).replace("version: 1", "version: 2")
    assert not taking.after(breaking)
    assert "orders" in caplog.text
    assert "\n" not in "".join(taking.told[-1]), "a line of a log, and of a status"
    assert taking.version == 1


def test_what_is_held_already_speaks_against_no_policy(trial):
    """Writers changed a type, which no policy mends; another field may be closed all the same, under a new version."""
    trial.produce("eu", 5)
    trial.drain_here()
    texts = json.loads(json.dumps(ORDER))
    texts["fields"][0]["type"] = "string"
    (trial.folder / "schemas" / f"{trial.topic}-value" / "2-8.avsc").write_text(json.dumps(texts))
    trial.produce_raw("eu", [(b"k", trial.value(2, 8, texts, id="2"), 0)])
    trial.drain_here(expect=4)
    taking = Taking(trial)
    assert taking.after(STRICTER), taking.told
    assert taking.version == 2


@pytest.mark.parametrize(("edges", "is_taken"), [(["eu"], True), (["eu", "us"], False)])
def test_only_an_edge_that_a_changed_policy_is_about_has_to_answer(trial, caplog, edges, is_taken):
    """One that no rule with the policy speaks of may be down; of another one nobody knows what it would open."""
    trial.produce("eu", 5)
    trial.drain_here()
    trial.settings["edges"]["us"]["bootstrap_servers"] = "127.0.0.1:1"
    trial.settings["topics"][0]["edges"] = edges
    trial.write()
    taking = Taking(trial)
    assert taking.after(STRICTER) is is_taken
    assert ("send SIGHUP again when it does" in caplog.text) is not is_taken


@pytest.mark.whole
def test_a_hub_that_runs_goes_by_other_policies(trial):
    """By SIGHUP, without a restart: what was read before keeps its form, what comes after has the new one."""
    policy = trial.folder / "policy.yaml"
    trial.produce("eu", 5)
    with trial.running("--only", "replicate") as hub:
        wait_for(lambda: trial.central_count("eu") == 5, timeout=90, what="the first records")

        def told(words):
            return words in hub.log.read_text()

        policy.write_text(LOOSER.replace("version: 2", "version: 7"))
        os.kill(hub.pid, signal.SIGHUP)
        wait_for(lambda: told("x-user-email: dropped becomes passes"), timeout=30, what="the refusal")
        wait_for(lambda: trial.status("--problems")["policies_refused"], timeout=30, what="the refusal in status")
        policy.write_text(STRICTER)
        os.kill(hub.pid, signal.SIGHUP)
        wait_for(lambda: told("version 2 is in force from now on"), timeout=30, what="the taking")
        wait_for(lambda: not trial.status()["policies_refused"], timeout=30, what="a status without it")
        wait_for(lambda: hub.log.read_text().count(" flows on 1 slots") == 2, timeout=30, what="the next epoch")
        trial.produce("eu", 5)
        wait_for(lambda: trial.central_count("eu") == 10, timeout=30, what="the later records")
        policy.write_text(SAID)
        os.kill(hub.pid, signal.SIGHUP)
        wait_for(lambda: hub.log.read_text().count(" flows on 1 slots") == 3, timeout=30, what="the third epoch")
        trial.produce("eu", 5)
        wait_for(lambda: trial.central_count("eu") == 15, timeout=30, what="the last records")
        assert hub.poll() is None
        os.kill(hub.pid, signal.SIGTERM)
        assert hub.wait(30) == 0
    orders = sorted(trial.orders("eu"), key=lambda one: one["id"])
    assert ["amount" in one for one in orders] == [True] * 5 + [False] * 10
    passed = [dict(one.headers() or ()).keys() >= {"x-user-email"} for one in trial.central_records("eu")]
    assert sorted(passed) == [False] * 10 + [True] * 5
    config = load_config(trial.config, {})
    links = map(decode, read_decisions(config.central, HubNames(trial.hub)))
    assert [link.about.split("version ")[1][0] for link in links if link and link.kind is DecisionKind.POLICY] == [
        "1",
        "2",
        "3",
    ]
