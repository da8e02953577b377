"""Topic settings as a cluster has them, and the drift that a command tells."""

import json

from confluent_kafka.admin import ConfigResource, ResourceType

from tests.trial import wait_for


def setting(trial, cluster, topic, name):
    """What a cluster says."""
    (future,) = trial.admin(cluster).describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return future.result(15)[name].value


def await_setting(trial, cluster, topic, name, value):
    """A broker may tell the former value for a moment after it took the new one."""
    wait_for(lambda: setting(trial, cluster, topic, name) == value, timeout=10, what=f"{name} = {value}")


def drifts(trial, command="plan", code=0):
    """What `plan` or `status` tells, by topic and setting."""
    done = trial.typed(command, "-o", "json")
    assert done.exit_code == code, done.stderr
    return {(one["topic"], one["setting"]): one for one in json.loads(done.stdout)["drifts"]}
