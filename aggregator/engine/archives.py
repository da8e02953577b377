"""This module makes Python workers forget the archives that they import from, such as Spark's `pyspark.zip`.

Invariant: only the interpreter's caches change. A forgotten archive is found again at the next import.
"""

import sys
import zipimport


def forget_archives() -> None:
    """Call it at the end of a task, for the sake of the next one in the same worker.

    Before each task PySpark has its worker look everything up anew (`importlib.invalidate_caches`); for an archive that
    means to read its whole directory, once for each package that was ever imported from it: 16 times, some 0.2 s.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]
