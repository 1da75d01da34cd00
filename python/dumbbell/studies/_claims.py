"""Files that one process at a time may write, whole or not at all.

A file is claimed by an exclusive flock on a `.part` beside it; what is written goes into that, is
synced, and is renamed. Renaming ends the claim and publishes the file in one step, and the kernel
drops the locks of a process that dies: a `.part` that nobody holds locked is free to be claimed
again, whatever is in it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


class Claim:
    """The right to write one file, held until it is written, released, or the process ends."""

    def __init__(self, part: Path, final: Path, fd: int) -> None:
        self._part = part
        self._final = final
        self._fd = fd

    def write(self, data: bytes) -> None:
        """Publish the file and give up the claim. Raises OSError; the claim is then still held."""
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        os.fsync(self._fd)
        self._part.rename(self._final)
        os.close(self._fd)

    def release(self) -> None:
        """Let others have it."""
        with suppress(OSError):
            self._part.unlink()
        os.close(self._fd)


def lock(part: Path, final: Path, *, wait: bool = False) -> Claim | None:
    """The claim of a file that is to be written, None if another process has it. Raises OSError."""
    while True:
        fd = os.open(part, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            os.close(fd)
            if isinstance(error, BlockingIOError):
                return None
            if error.errno in _NO_LOCKS:
                raise OSError(error.errno, "its file system has no locks") from None
            raise
        # Who had it before may have renamed or removed the file between the two calls.
        if _is_at(part, fd):
            return Claim(part, final, fd)
        os.close(fd)


def is_locked(part: Path) -> bool:
    """Whether a process that this file system's locks know of has a claim."""
    try:
        fd = os.open(part, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _is_at(path: Path, fd: int) -> bool:
    """Whether an open file still stands at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
