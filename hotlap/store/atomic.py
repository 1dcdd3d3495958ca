"""Files and folders that are replaced whole: a reader finds the old one or the new one, never half.

Everything is flushed to the disk (fsync) before it is renamed into place, and the folder after, so
a power cut cannot leave a new name on old or missing bytes. One writer at a time; readers need no
lock. Beside a folder NAME there may be, for a moment or after a crash,
    .NAME.hotlap-new   the folder being filled
    .NAME.hotlap-old   the folder that is being replaced
"""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

NEW, OLD, PART = ".hotlap-new", ".hotlap-old", ".hotlap-part"
"""How temporary names end; unusual, because what ends so is removed without asking."""


def write_file(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Put a file in place, or replace it; if that fails the old one stays.

    Args:
        path: Its name.
        data: All of it, or piece by piece.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        with open(part, "xb") as file:
            for piece in (data,) if isinstance(data, bytes) else data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, that a power cut does not take away again."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _flush(path.parent)


def replace_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Put what `fill` writes into an empty folder in place of `path`; if it fails the old stays."""
    path = path.absolute()  # "." has no name to build others from
    make_folder(path.parent)
    recover_folder(path)
    new = _beside(path, NEW)
    try:
        new.mkdir()
        fill(new)
        _flush_all(new)
        if os.path.lexists(path):
            os.rename(path, _beside(path, OLD))
        os.rename(new, path)
        _flush(path.parent)
    finally:
        recover_folder(path)


def recover_folder(path: Path) -> None:
    """Undo an interrupted replacement, or finish it if only the old folder was left to remove."""
    path = path.absolute()
    new, old = _beside(path, NEW), _beside(path, OLD)
    if os.path.lexists(old) and not os.path.lexists(path):
        os.rename(old, path)
        _flush(path.parent)
    for stale in (new, old):
        remove(stale)


def read_folder(path: Path, read: Callable[[Path], Result]) -> Result:
    """Read files that belong together, again if the folder was replaced in the meantime."""
    path = path.absolute()
    while True:
        before = _whole(path)
        try:
            result = read(before[0])
        except (OSError, ValueError):
            if _whole(path) == before:
                raise
        else:
            if _whole(path) == before:
                return result


def tidy(folder: Path) -> None:
    """Recover everything in a folder whose writer is gone."""
    for stale in list(folder.iterdir()):
        if not stale.name.startswith("."):
            continue
        if stale.suffix == PART:
            remove(stale)
        elif stale.suffix in (NEW, OLD):
            recover_folder(folder / stale.stem[1:])


def remove(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}{ending}")


def _whole(path: Path) -> tuple[Path, tuple[int, ...]]:
    """The folder to read now, old or new, and what tells it from the next."""
    for candidate in (path, _beside(path, OLD)):
        try:
            stat = candidate.stat()
        except FileNotFoundError:
            continue
        return candidate, (stat.st_dev, stat.st_ino, stat.st_mtime_ns)
    return path, ()


def _flush_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() or path.is_dir():
            _flush(path)
    _flush(folder)


def _flush(path: Path) -> None:
    """Wait until a file's bytes, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network and FUSE file systems cannot flush a folder; there is nothing more to do.
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(handle)
