"""The reasons why a known setting of MirrorMaker has no equivalent in a hub, and the keys that may be shown.

Invariant: pure. A key that may be a piece of a secret, on a line of its own, is never shown.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from aggregator.mirrormaker import settings
from aggregator.mirrormaker.client_properties import fate, is_sign_in
from aggregator.mirrormaker.result import NO_KEY, FileKey
from aggregator.mirrormaker.scoped_settings import Mirror, ScopedSetting

ADDRESS = ("bootstrap.servers", "metadata.broker.list")
ELSEWHERE = "another setting of this name is taken"
_SHOWN = re.compile(r"[.\[\]A-Za-z0-9_${}<>@*:-]{1,300}")
# A longer word without a dot may be the name of a setting, or a cryptographic key.
_LONGEST_WORD = 40
_SETTING = re.compile(r"(\w+->\w+|[a-z_-]+)(\.[a-z_-]+)+")
_NOT_ENABLED = "the flow is not enabled"
_NO_FLOW = "no flow that is enabled has this cluster"
_NOT_THERE = "MirrorMaker does not look for it under the name of a cluster"
_OF_RECORDS = "the connector that copies records decides this"
_BY_NAME = {
    "enabled": "names no flow: write `source->target.enabled`",
    "target.cluster.alias": "`clusters` names the target",
    "auto.offset.reset": "only the consumer that reads a source begins somewhere",
}


def is_of_client(setting: ScopedSetting) -> bool:
    """Whether it says how a client reaches its cluster, or how it works."""
    name = setting.name
    return name in ADDRESS or name[:1] == "@" or is_sign_in(name) or fate(name, setting.value, setting.role) is not None


def is_known(setting: ScopedSetting) -> bool:
    """Whether MirrorMaker has such a setting."""
    name = setting.name
    return bool(settings.destination(name)) or settings.reason(name) is not None or is_of_client(setting)


def why_not(setting: ScopedSetting, flows: Collection[tuple[str, str]], clusters: Collection[str]) -> str | None:
    """Why a setting without a decision has no place in the hub; None where MirrorMaker does not know it.

    Args:
        setting: The setting.
        flows: Flows that are enabled.
        clusters: Theirs.
    """
    if not is_known(setting):
        return None
    if setting.source and setting.target and (setting.source, setting.target) not in flows:
        return _NOT_ENABLED
    if not settings.destination(setting.name) and (why := settings.reason(setting.name)):
        return why
    return _NO_FLOW if setting.cluster and setting.cluster not in clusters else _passed_over(setting)


def _passed_over(setting: ScopedSetting) -> str:
    """Why a setting that the hub has was not taken from here."""
    if setting.name in settings.OF_RECORDS and not setting.of_records:
        return _OF_RECORDS
    if setting.name in settings.OF_RECORDS and setting.cluster:
        return _NOT_THERE
    return _BY_NAME.get(setting.name, ELSEWHERE)


def shown_keys(entries: Iterable[FileKey], mirror: Mirror) -> Mapping[int, str]:
    """Each key as it may be shown, by the number of its entry."""
    scoped_settings = {setting.entry.number: setting for setting in mirror.scoped_settings}
    return {
        entry.number: _shown(scoped_settings.get(entry.number) or ScopedSetting(entry, entry.key, entry.value), mirror)
        for entry in entries
    }


def _shown(setting: ScopedSetting, mirror: Mirror) -> str:
    key = setting.entry.key
    is_word = len(key) <= _LONGEST_WORD or "." in key
    is_key = is_word and _SHOWN.fullmatch(key) and (mirror.keys_are_places or is_known(setting) or _is_named(setting))
    return key if is_key else NO_KEY


def _is_named(setting: ScopedSetting) -> bool:
    """Whether an unknown key is written as settings are; else it may be a line of a password or of a key in PEM."""
    return bool(setting.entry.value.strip("=")) and _SETTING.fullmatch(setting.name) is not None
