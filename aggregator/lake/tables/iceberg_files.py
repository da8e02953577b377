"""The files that pyiceberg writes beside a table's data: by the client that stages the data, and kept.

Invariant: what a refused commit wrote stays for the sweep. pyiceberg takes a conflict as proof that nothing was
applied, and removes the manifests. Behind a gateway that sends a commit twice, these belong to the newest version.
"""

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

IMPLEMENTATION = f"{__name__}.KeptFiles"
_REPLACED = ".metadata.json"  # a catalogue removes those that a hundred later versions replaced, after a commit


class KeptFiles(PyArrowFileIO):
    """pyarrow's files, of which a writer removes nothing but replaced metadata."""

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove replaced metadata, and nothing else.

        Args:
            location: An address, or the file there.
        """
        address = location if isinstance(location, str) else location.location
        if address.endswith(_REPLACED):
            super().delete(address)
