"""Stands in for central's registry when a command looks ahead: it judges new schemas and writes nothing.

Invariant: it refuses the same schemas as the registry itself, in the same words.
"""

from aggregator.schema.compatibility import incompatibility
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.registry import Registry, SchemaVersion


class DryRunRegistry(MemoryRegistry):
    """Admits beside the versions that a registry has.

    Args:
        registry: The registry to read; asked once for each subject.
    """

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self._registry = registry
        self._there: dict[str, list[SchemaVersion]] = {}

    def register_compatible(self, subject: str, text: str) -> int:
        """Give a derived schema an id of its own here, if the registry would have taken it.

        Raises:
            HoldError: it breaks compatibility with what is there; says what differs.
            Unreachable: the registry does not answer.
        """
        if subject not in self._there:
            self._there[subject] = self._registry.versions(subject)
        there = self._there[subject]
        if all(one.text != text for one in there):
            refused = incompatibility(subject, text, ((one.version, one.text) for one in reversed(there)))
            if refused is not None:
                raise refused
        return self.register(subject, text)
