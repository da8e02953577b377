"""Writes the files that pyiceberg puts beside a table's data, through the client that stages the data, and keeps them.

Invariant: files of a refused commit stay until the sweep removes them. pyiceberg takes a conflict as proof that nothing
was applied, and removes the manifests. But a gateway may send a commit twice; then the newest version names these
manifests.
"""

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

IMPLEMENTATION = f"{__name__}.KeptFiles"
_REPLACED = ".metadata.json"  # after a commit, a catalogue removes the metadata that a hundred later versions replaced


class KeptFiles(PyArrowFileIO):
    """The files of pyarrow, of which a writer removes only replaced metadata."""

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove replaced metadata, and nothing else.

        Args:
            location: An address, or the file there.
        """
        address = location if isinstance(location, str) else location.location
        if address.endswith(_REPLACED):
            super().delete(address)
