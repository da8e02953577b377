"""This module notices when files with passwords, keys and certificates are renewed while the hub runs.

Invariant: only a file's stamp is looked at; this module does not read its content. A change is reported until somebody
has taken it. If files are renewed one after the other, they are tried again until they fit together.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from aggregator.config.secrets import SecretRef

EVERY_S = 2.0
_FILES = (".location", ".keytab", ".file")
# The stamp of each file: when it was written, its size, its inode.
_Look = tuple[tuple[int, int, int], ...]


class Credentials:
    """The files that a `client:` block names.

    Args:
        options: The block.
    """

    def __init__(self, options: Mapping[str, str | SecretRef]) -> None:
        self._paths = sorted(_paths(options))
        self._taken = self._found = self._look()
        self._looked_s = time.monotonic()

    def changed(self) -> bool:
        """Whether a file is another one than was taken last; False while one is missing or empty. Looks every 2 s."""
        now_s = time.monotonic()
        if not self._paths or now_s - self._looked_s < EVERY_S:
            return False
        self._looked_s = now_s
        self._found = self._look()
        return self._found is not None and self._found != self._taken

    def mark_applied(self) -> None:
        """Mark the files of the last look as used by the current client. Later writes count as a change."""
        self._taken = self._found

    def _look(self) -> _Look | None:
        try:
            found = [path.stat() for path in self._paths]
        except OSError:
            return None
        whole = all(one.st_size for one in found)
        return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found) if whole else None


def _paths(options: Mapping[str, str | SecretRef]) -> set[Path]:
    references = (value for value in options.values() if isinstance(value, SecretRef))
    secrets = {Path(one.target) for one in references if one.scheme == "file"}
    named = {name: value for name, value in options.items() if name.endswith(_FILES) and isinstance(value, str)}
    return secrets | {Path(value) for value in named.values() if Path(value).is_file()}
