"""Translates the content of MirrorMaker's files into hubs: one hub for each cluster into which records are copied.

Invariant: pure. Every key has an outcome at the end. Every written value passes the configuration's own rules, or it is
left out and named.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from aggregator.config.fields import group_pattern, servers
from aggregator.config.patterns import literal
from aggregator.errors import ConfigError
from aggregator.mirrormaker import settings
from aggregator.mirrormaker.client_properties import NAMES, fate, is_sign_in
from aggregator.mirrormaker.file_reader import Read
from aggregator.mirrormaker.naming import Circles, central_pattern, edge_names, hub_names
from aggregator.mirrormaker.reasons import ADDRESS, ELSEWHERE, is_of_client, shown_keys, why_not
from aggregator.mirrormaker.references import FilePlace, Variables, filled, own_names, variable_name
from aggregator.mirrormaker.result import ClusterDraft, HubDraft, Imported, OffsetsDraft, RuleDraft
from aggregator.mirrormaker.scoped_settings import Mirror, ScopedSetting, by_weight
from aggregator.mirrormaker.sign_in import ConnectedCluster, SignIn
from aggregator.mirrormaker.topics import Patterns, joined

TOPICS = ("topics", "topics.whitelist", "whitelist")
EXCLUDED = ("topics.exclude", "topics.blacklist")
_PROTOCOL = re.compile(r"^[A-Za-z_]+://")
# This number of unknown keys get a suggestion of the key that was meant; each suggestion takes milliseconds.
_MANY = 50
_TRIED_ADDRESS = "tried:1"
_STARTS = {"earliest": "earliest", "smallest": "earliest", "latest": "latest", "largest": "latest"}
_CIRCLE = (
    "these hubs form a circle, and topics keep their names: give all of them a key in common (`chain_key`), by which"
    " each knows what it has delivered"
)
_MORE_TOPICS = "`exclude` lacks a part that could not be taken over: topics are read that MirrorMaker passed over"
_ONE_ADDRESS = "`bootstrap_servers` of the cluster is the one address of all its clients"
_FACTORS = re.compile(r"-1|[1-9]\d{0,4}")
# A hub publishes positions only on request, and these drafts request none.
_NO_POSITIONS = (OffsetsDraft(), OffsetsDraft(checkpoints=False), OffsetsDraft(checkpoints=False, syncs=False))
_SECONDS = re.compile(r"[1-9]\d{0,5}")


def translate(found: Read) -> Imported:
    """Translate what MirrorMaker's files say into hubs.

    Args:
        found: The contents of the files.

    Raises:
        ConfigError: nothing is copied, so that there is nothing to write.
    """
    mirror = found.mirror
    if not mirror.flows:
        why = mirror.remarks or ["no flow between two of its clusters is enabled"]
        raise ConfigError(
            [f"{found.entries[0].file}: MirrorMaker copies nothing by this", *why],
            hint="enable a flow (`source->target.enabled = true`), or give the files that do",
        )
    translator = _Translator(mirror)
    targets = list(dict.fromkeys(target for _, target in mirror.flows))
    aliases = [setting.value for setting in mirror.scoped_settings if setting.name == "source.cluster.alias"]
    names = hub_names(targets, translator.names, [*mirror.clusters, *aliases])
    hubs = [translator.hub(target, names, is_alone=len(targets) == 1) for target in targets]
    translator.rest()
    commands = tuple(translator.commands)
    remarks = list(dict.fromkeys([*mirror.remarks, *translator.remarks]))
    if len(targets) > 1:
        remarks.append("a hub has one central cluster: each target has a folder with a hub.yaml of its own")
    outcomes = mirror.fates.outcomes(found.entries, shown_keys(found.entries, mirror))
    variables = translator.variables
    return Imported(mirror.form, hubs, outcomes, variables.found, variables.stand_ins, commands, remarks)


class _Translator:
    """Translates one import, and keeps the state that all its hubs share."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.fates = mirror.fates
        self.names = edge_names(mirror.clusters)
        self._flows = frozenset(mirror.flows)
        self._circles = Circles(mirror.flows)
        self._patterns: dict[int, str] = {}
        self._of_cluster: dict[str, list[ScopedSetting]] = {}
        self._named: dict[tuple[str, str], list[ScopedSetting]] = {}
        for setting in mirror.scoped_settings:
            if is_of_client(setting):
                self._of_cluster.setdefault(setting.cluster, []).append(setting)
            self._named.setdefault((setting.name, setting.source), []).append(setting)
        self.variables = Variables(own_names(setting.value for setting in mirror.scoped_settings))
        self.commands: dict[str, None] = {}
        self.remarks: list[str] = []

    def hub(self, target: str, hubs: Mapping[str, str], *, is_alone: bool) -> HubDraft:
        """The hub whose central cluster is `target`."""
        sources = [source for source, other in self.mirror.flows if other == target]
        folder = "certificates" if is_alone else "../certificates"
        central = self._cluster(target, target, "central", "producer", folder)
        edges = {
            self.names[source]: self._cluster(source, target, f"edges.{self.names[source]}", "consumer", folder)
            for source in sources
        }
        rules = self._rules(sources, target, hubs)
        return HubDraft(
            name=hubs[target],
            target=target,
            central=central,
            edges=edges,
            rules=rules,
            replication_factor=self._replication_factor(sources, target),
            config_sync=self._config_sync(sources, target),
            emit=self._switch("emit.heartbeats.enabled", "heartbeats.emit", sources, target),
            interval=self._seconds("emit.heartbeats.interval.seconds", "heartbeats.interval", sources, target),
            offsets=self._offsets(sources, target),
        )

    def rest(self) -> None:
        """Give an outcome to whatever has none."""
        guesses = 0
        clusters = {cluster for flow in self.mirror.flows for cluster in flow}
        for setting in self.mirror.scoped_settings:
            if self.fates.is_told(setting.entry):
                continue
            if (why := why_not(setting, self._flows, clusters)) is not None:
                self.fates.not_applicable(setting.entry, why)
                continue
            guesses += 1
            self.fates.unknown(
                setting.entry, settings.did_you_mean(setting.name[:80], NAMES) if guesses <= _MANY else ""
            )

    # --- clusters

    def _cluster(self, alias: str, target: str, place: str, main: str, folder: str) -> ClusterDraft:
        scoped_settings = by_weight(
            [
                one
                for name in ("", alias)
                for one in self._of_cluster.get(name, ())
                if self._concerns(one, alias, target)
            ]
        )
        address = self._address([one for one in scoped_settings if one.name in ADDRESS], alias, place)
        name = self.names[alias]
        sign_in = SignIn(
            ConnectedCluster(name, place, address, main, folder), self.fates, self.variables, self.commands
        )
        sign_in.read([one for one in scoped_settings if is_sign_in(one.name) or one.name[:1] == "@"])
        blocks: dict[str, dict[str, str]] = {"client": sign_in.client, "consumer": {}, "producer": {}, "admin": {}}
        for setting in scoped_settings:
            if not is_sign_in(setting.name) and setting.name not in ADDRESS and setting.name != "auto.offset.reset":
                self._property(setting, blocks, place, name)
        return ClusterDraft(address, **blocks, msk_iam=sign_in.msk_iam)

    def _concerns(self, setting: ScopedSetting, alias: str, target: str) -> bool:
        """Whether it says how to reach a cluster within the hub of a target."""
        if setting.source and setting.target and (setting.source, setting.target) not in self._flows:
            return False
        if setting.cluster:
            return setting.cluster == alias and (not setting.target or setting.target == target)
        return not setting.source and not setting.target

    def _address(self, scoped_settings: Sequence[ScopedSetting], alias: str, place: str) -> str:
        """`host:port`, several with commas; a variable where the files do not hold any."""
        variable = variable_name(self.names[alias], "BOOTSTRAP_SERVERS")
        to = f"{place}.bootstrap_servers"
        address, winner = "", None
        for setting in sorted(scoped_settings, key=lambda one: bool(one.role)):
            if winner is not None:
                self._another_address(setting, winner)
                continue
            winner = setting
            address = self._written(setting.value, variable, setting.place)
            if address:
                self.fates.mapped(setting.entry, to)
            else:
                self.fates.mapped(setting.entry, to, f"is no `host:port`: set {variable}")
                what = f"host:port of {self.names[alias]}, several with commas"
                address = f"${{{self.variables.of(variable, what, tried=_TRIED_ADDRESS)}}}"
        if not address:
            what = f"host:port of {self.names[alias]}, several with commas, which the files do not hold"
            address = f"${{{self.variables.of(variable, what, tried=_TRIED_ADDRESS)}}}"
        return address

    def _another_address(self, setting: ScopedSetting, winner: ScopedSetting) -> None:
        if setting.value == winner.value:
            self.fates.as_other(setting.entry, winner.entry, _ONE_ADDRESS)
        else:
            self.fates.not_applicable(setting.entry, _ONE_ADDRESS)

    def _written(self, value: str, variable: str, where: FilePlace) -> str:
        listed = [_PROTOCOL.sub("", one.strip()) for one in value.split(",") if one.strip()]
        try:
            servers(",".join(filled(one, _TRIED_ADDRESS, "any") for one in listed))
        except ValueError:
            return ""
        return ",".join(self.variables.text(one, variable, where, _TRIED_ADDRESS) for one in listed)

    def _property(self, setting: ScopedSetting, blocks: Mapping[str, dict[str, str]], place: str, name: str) -> None:
        found = fate(setting.name, setting.value, setting.role)
        if found is None or settings.destination(setting.name):
            return
        if not found.name:
            self.fates.not_applicable(setting.entry, found.why)
            return
        to = f"{place}.{found.block}.{found.name}"
        block = blocks[found.block]
        value = self.variables.text(setting.value, variable_name(name, found.name), setting.place)
        if block.setdefault(found.name, value) == value:
            self.fates.mapped(setting.entry, to)
        else:
            self.fates.not_applicable(setting.entry, ELSEWHERE)

    # --- flows

    def _of_flow(self, names: Sequence[str], source: str, target: str) -> ScopedSetting | None:
        """The setting that holds for a flow."""
        found = [
            one
            for name in names
            for place in ("", source)
            for one in self._named.get((name, place), ())
            if one.target in ("", target)
            and (one.cluster in ("", source) if one.name == "auto.offset.reset" else not one.cluster)
            and (one.role in ("", "consumer"))
            and (one.of_records or one.name not in settings.OF_RECORDS)
        ]
        return next(iter(by_weight(found)), None)

    def _rules(self, sources: Sequence[str], target: str, hubs: Mapping[str, str]) -> list[RuleDraft]:
        rules: dict[RuleDraft, list[str]] = {}
        for source in sources:
            rule = self._rule(source, target, hubs)
            rules.setdefault(rule, []).append(self.names[source])
        return [
            RuleDraft(one.match, one.exclude, one.central, one.start, tuple(edges))
            for one, edges in rules.items()
            if one.match
        ]

    def _rule(self, source: str, target: str, hubs: Mapping[str, str]) -> RuleDraft:
        central = self._central(source, target)
        chosen = self._of_flow(TOPICS, source, target)
        match = self._pattern(chosen, source, "topics[].match") if chosen is not None else ".*"
        if not match:
            self.remarks.append(f"no topic of {self.names[source]} is read: none of its patterns can be taken over")
        left_out = self._of_flow(EXCLUDED, source, target)
        exclude = [self._pattern(left_out, source, "topics[].exclude")] if left_out is not None else []
        if chosen is None and self.mirror.keeps_names:
            self.remarks.append(
                "the whitelist of MirrorMaker 1 stood on its command line: say --whitelist, or narrow `match`"
            )
        exclude += self._kept_out(central, source, target, hubs)
        return RuleDraft(match, joined(exclude), central, self._start(source, target))

    def _kept_out(self, central: str, source: str, target: str, hubs: Mapping[str, str]) -> Iterator[str]:
        """Topics that MirrorMaker did not know, or would not have copied either."""
        if central == "{topic}":
            yield f"{literal(hubs[target])}\\..*|.*\\.heartbeats"  # the hub's own topics at central
        if source in hubs:
            yield f"{literal(hubs[source])}\\..*"
        if not self._circles.closes(source, target):
            return
        if central == "{topic}":
            self.remarks.append(_CIRCLE)
        else:
            found = self._of_flow(("replication.policy.separator",), source, target)
            separator = literal("." if found is None else found.value)
            yield f"(.*{separator})?{literal(target)}{separator}.*"

    def _pattern(self, setting: ScopedSetting, source: str, to: str) -> str:
        if setting.entry.number not in self._patterns:
            patterns = Patterns(self.fates, self.variables, self.names[source])
            self._patterns[setting.entry.number] = patterns.read(setting, to)
            if setting.name in EXCLUDED and not patterns.is_complete:
                self.remarks.append(_MORE_TOPICS)
        return self._patterns[setting.entry.number]

    def _central(self, source: str, target: str) -> str:
        policy = self._of_flow(("replication.policy.class",), source, target)
        separator = self._of_flow(("replication.policy.separator",), source, target)
        alias = self._of_flow(("source.cluster.alias",), source, target)
        named = central_pattern(
            source if alias is None else alias.value,
            self.names[source],
            "" if policy is None else policy.value,
            None if separator is None else separator.value,
            keeps_names=self.mirror.keeps_names,
        )
        for setting in (policy, separator, alias):
            if setting is not None:
                if setting is policy and named.why:
                    self.fates.not_applicable(setting.entry, named.why)
                else:
                    self.fates.mapped(setting.entry, "topics[].central", named.note)
        if named.remark:
            self.remarks.append(named.remark)
        return named.pattern

    def _start(self, source: str, target: str) -> str:
        setting = self._of_flow(("auto.offset.reset",), source, target)
        if setting is None:
            return "earliest"
        start = _STARTS.get(setting.value.lower(), "")
        if start:
            self.fates.mapped(setting.entry, "topics[].start")
        else:
            self.fates.not_applicable(setting.entry, "is neither earliest nor latest; a gap is reported instead")
        return start or "earliest"

    # --- of the whole hub

    def _values(self, names: str, sources: Sequence[str], target: str) -> list[ScopedSetting]:
        found = [self._of_flow(names.split(), source, target) for source in sources]
        return [setting for setting in found if setting is not None]

    def _one(self, name: str, to: str, found: Sequence[ScopedSetting]) -> str:
        """The value that most flows have, where flows differ; told at each."""
        if not found:
            return ""
        value, _ = Counter(setting.value for setting in found).most_common(1)[0]
        for setting in found:
            if setting.value == value:
                self.fates.mapped(setting.entry, to)
            else:
                self.fates.not_applicable(
                    setting.entry, f"`{name}` is one for all edges of a hub; another flow's is taken"
                )
        return value

    def _replication_factor(self, sources: Sequence[str], target: str) -> str:
        found = []
        for setting in self._values("replication.factor", sources, target):
            if _FACTORS.fullmatch(setting.value) and int(setting.value) < 2**15:
                found.append(setting)
            else:
                self.fates.not_applicable(setting.entry, "is no number of brokers; the broker's default holds")
        return self._one("replication_factor", "replication_factor", found)

    def _config_sync(self, sources: Sequence[str], target: str) -> str:
        follows = self._switch("sync.topic.configs.enabled", "config_sync", sources, target)
        return "" if follows is None else "apply" if follows else "tell"

    def _switch(self, name: str, to: str, sources: Sequence[str], target: str) -> bool | None:
        found = self._values(name, sources, target)
        return self._one(to, to, found).lower() == "true" if found else None

    def _seconds(self, name: str, to: str, sources: Sequence[str], target: str) -> str:
        found = []
        for setting in self._values(name, sources, target):
            if _SECONDS.fullmatch(setting.value):
                found.append(setting)
            else:
                self.fates.not_applicable(setting.entry, "is no number of seconds; the hub's default holds")
        value = self._one(to, to, found)
        return f"{value}s" if value else ""

    def _offsets(self, sources: Sequence[str], target: str) -> OffsetsDraft | None:
        draft = OffsetsDraft(
            checkpoints=self._switch("emit.checkpoints.enabled", "offsets.checkpoints", sources, target),
            syncs=self._switch("emit.offset-syncs.enabled", "offsets.syncs", sources, target),
            sync_groups=bool(self._switch("sync.group.offsets.enabled", "offsets.sync_groups", sources, target)),
            groups=self._groups("groups groups.whitelist", "offsets.groups", sources, target),
            exclude=self._groups("groups.exclude groups.blacklist", "offsets.exclude", sources, target),
            interval=self._seconds("emit.checkpoints.interval.seconds", "offsets.interval", sources, target),
        )
        return None if draft in _NO_POSITIONS else draft

    def _groups(self, names: str, to: str, sources: Sequence[str], target: str) -> str:
        found = self._values(names, sources, target)
        taken = self._one(to, to, found)
        setting = next((one for one in found if one.value == taken), None)
        if setting is None:
            return ""
        return Patterns(self.fates, self.variables, self.names[sources[0]], group_pattern).read(setting, to)
