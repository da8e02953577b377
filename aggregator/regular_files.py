"""This module reads files whole, and replaces them whole.

Invariant: a read neither blocks nor goes on for ever. A pipe without a writer, a device, and a file of more than 16 MiB
are refused in the same way as a missing file. A file that is replaced holds the new text or the former one.
"""

import errno
import os
import stat
from pathlib import Path

MAX_BYTES = 16 * 1024 * 1024
# The errors of `read_bytes` about files that another reader may well read on.
UNBOUNDED = (errno.EINVAL, errno.EFBIG)


def read_bytes(path: str | Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger than 16 MiB; `strerror` says which.
        ValueError: the path holds a NUL.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "Is a pipe, socket or device", str(path))
        content = file.read(MAX_BYTES + 1)
    if content is None:  # a file of the kernel that has nothing to say now
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"Larger than {MAX_BYTES // 1024**2} MiB", str(path))
    return content


def read_text(path: str | Path) -> str:
    r"""The text of a regular file in UTF-8, with lines that end in `\n`.

    Raises:
        OSError: as above.
        ValueError: it is not UTF-8, or the path holds a NUL.
    """
    return read_bytes(path).decode().replace("\r\n", "\n").replace("\r", "\n")


def replace_file(path: Path, text: str) -> None:
    """Replace a file by writing another one beside it and renaming that.

    Args:
        path: The file.
        text: Its new text, written in UTF-8.

    Raises:
        OSError: the folder cannot be written.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def is_special(path: str | Path) -> bool:
    """Whether the path is a pipe, a socket or a device, on which an open may block for ever."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - a path may be too long for Path
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
