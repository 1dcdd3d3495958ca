"""One writer per folder. The operating system holds the lock, so it ends with the process."""

import fcntl
import os
import socket
from pathlib import Path


class WriterLock:
    """The right to write in a folder. The file stays when it is released: only its lock counts.

    `remedy` is what whoever is refused may do instead of waiting.
    """

    def __init__(self, path: Path, remedy: str = "choose another --save-dir") -> None:
        self._owner = os.getpid()
        self._file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 (held until released)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.truncate(0)
            self._file.write(f"{self._owner} on {socket.gethostname()}\n")
            self._file.flush()
        except BlockingIOError as error:
            holder = self._holder()
            self._file.close()
            raise RuntimeError(
                f"{path.parent} is being written by process {holder} or one it started; wait until "
                f"it ends, stop it, or {remedy}"
            ) from error
        except BaseException:
            self._file.close()
            raise

    def release(self) -> None:
        """Let others write; in a forked child this leaves the parent's lock alone."""
        if not self._file.closed and os.getpid() == self._owner:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # closing is not enough while a child has it too
        self._file.close()

    def _holder(self) -> str:
        self._file.seek(0)
        return self._file.read(300).strip() or "unknown"
