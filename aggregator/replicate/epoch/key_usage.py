"""This module limits how many values one AES-GCM key seals: the ledger counts, and the hub warns and then refuses.

    bound          2³² values under one key and random nonces of 96 bits      NIST SP 800-38D, section 8.3
    refused at     2³¹ values that the ledger counts
    warned of at   2³⁰

Invariant: pure. The other half of the bound is a reserve for values that the ledger does not count. Those are values of
transactions that were aborted and repeated, of other backfills, and of the rest of the epoch. An epoch lasts half an
hour, and seals less than 2³¹ values even at a million a second. A key version that no longer seals still opens its
envelopes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from aggregator.config.secrets import KeyRing
from aggregator.errors import ConfigError
from aggregator.state.ledger import LedgerRecord

REFUSE_AT, WARN_AT = 2**31, 2**30


def usage_warnings(key_rings: Mapping[str, KeyRing], ledger: Iterable[LedgerRecord]) -> Iterator[str]:
    """Sentences about keys that should be replaced soon.

    Args:
        key_rings: Key rings by name.
        ledger: Every flow's record.

    Raises:
        ConfigError: one must not seal any more.
    """
    sealed: Counter[str] = Counter()
    for record in ledger:
        sealed.update(dict(record.sealed))
    for name, ring in sorted(key_rings.items()):
        count = sealed[f"{name}/{ring.current}"]
        usage = f"key {name} version {ring.current} has sealed {count:,} values under random nonces"
        hint = f"give it another version: `{name}: {{current: {ring.current + 1}, versions: …}}`; old ones open"
        if count >= REFUSE_AT:
            raise ConfigError(f"{usage}, which is as much as one AES-GCM key may", hint=hint)
        if count >= WARN_AT:
            yield f"{usage}, and may seal {REFUSE_AT - count:,} more: {hint}"
