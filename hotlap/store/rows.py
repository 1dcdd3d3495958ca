r"""Growing tables: one JSON object per line. A row counts once its "\n" is written."""

import errno
import os
from pathlib import Path
from typing import Any

from hotlap.store.atomic import write_file
from hotlap.store.plain import pack_json, unpack_json


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Add a row and wait until it is on the disk; if that fails, the table is as before."""
    line = pack_json(row) + b"\n"
    with open(path, "ab", buffering=0) as file:
        size = file.tell()
        try:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, "only part of a row could be written", str(path))
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(size)  # or the next row would continue the torn one
            raise


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All whole rows; a torn last line is left out, any other damage is an error."""
    return [_parse(line, number, path) for number, line in enumerate(_lines(path), start=1)]


def heal_rows(path: Path) -> None:
    """Cut off a torn last line, which a writer that was killed may have left."""
    with open(path, "r+b") as file:
        data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)
            os.fsync(file.fileno())


def forget_rows_after(path: Path, segment: int) -> None:
    """Remove rows of later segments, whose work will be done again; other rows stay as they are."""
    lines = _lines(path)
    rows = (_parse(line, number, path) for number, line in enumerate(lines, start=1))
    kept = [
        line
        for line, row in zip(lines, rows, strict=True)
        if row.get("segment", segment) <= segment
    ]
    if len(kept) < len(lines):
        write_file(path, b"".join(line + b"\n" for line in kept))


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _parse(line: bytes, number: int, path: Path) -> dict[str, Any]:
    return unpack_json(line, path.with_name(f"{path.name}, line {number},"))
