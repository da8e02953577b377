"""`aggregator explain TOPIC`: says for each edge why a topic is replicated or not, where it goes, and what is stripped.

Invariant: the command only reads. An edge that does not answer is shown as such.
"""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.output import config_option, emit, output_option, progress, table
from aggregator.config.load import load_config
from aggregator.threads import map_concurrently

if TYPE_CHECKING:
    from aggregator.plan.explanation import Explanation

# Kafka's own rule for names of topics.
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@click.command(epilog="\b\nExamples:\n  aggregator explain orders\n  aggregator explain orders --edge eu -o json")
@click.argument("topic")
@click.option("--edge", help="This edge only.")
@config_option
@output_option
def explain(topic: str, edge: str | None, config: Path, output: str) -> None:
    """Tell why a topic is replicated or not: the rule that matches, its central topic and table, and each field's fate.

    As hub.yaml and its policies say now: a hub that runs goes by what it started with until it takes another policy
    (SIGHUP). Fields are those of the newest schema that the edge's registry has for it.
    """
    from aggregator.machine_clock import utc_today
    from aggregator.plan.explanation import explanation
    from aggregator.privacy.policy.file import load_policy

    if not _NAME.fullmatch(topic):
        raise click.BadParameter("no topic can have this name", param_hint="TOPIC")
    hub = load_config(config, os.environ)
    if edge is not None and edge not in hub.edges:
        raise click.BadParameter(f"there are {', '.join(sorted(hub.edges))}", param_hint="--edge")
    policies = {rule.policy: load_policy(rule.policy) for rule in hub.topics}
    edges, today = [edge] if edge else list(hub.edges), utc_today()
    found = [*map_concurrently(lambda one: explanation(hub, policies, one, topic, today), edges).values()]
    answer = {"topic": topic, "edges": [one.plain() for one in found]}
    emit(answer, output, lambda: _text(topic, found))
    progress("as the files say now; a hub that runs goes by those of its start, and by policies that it took since")
    quoted = shlex.quote(re.escape(topic))
    progress(f"next: aggregator status --topic {quoted} tells how its records flow, and what stands still")


def _text(topic: str, found: list["Explanation"]) -> Iterator[str]:
    for one in found:
        verdict = "replicated" if one.replicated else "would be replicated" if one.rule else "not replicated"
        yield f"{one.edge}/{topic}: {verdict}: {one.why}"
        key = f"{one.key} ({one.key_because})" if one.key else ""
        named = {"rule": one.rule, "central": one.central, "lake": one.lake, "policy": one.policy, "key": key}
        yield from (f"  {name:8} {text}" for name, text in named.items() if text)
        if one.policy:
            yield f"  headers  {', '.join(one.headers) or 'none pass'}"
            yield f"  returns  {one.returns}"
        if one.trouble:
            yield f"  fields   {one.trouble}"
        rows = [(field.path, field.type, field.operator, field.privacy_class, field.because) for field in one.fields]
        if rows:
            yield from (f"  {line}" for line in table(("path", "type", "operator", "class", "because"), rows))
        yield ""
