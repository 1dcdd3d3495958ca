r"""The ledger of a study: every decision and result, one record per line, never rewritten.

A record is a JSON object whose first member is `kind` and whose last is `crc`:

    {"kind": "trial", "trial": 7, "mean_reward": 0.5, "crc": "af1b6f0b"}

The checksum is over bytes, so any tool can check it: take the line without its "\n", put "}" in
place of its last 20 characters (`, "crc": "af1b6f0b"}`); the CRC-32 of that, as zlib and gzip
compute it, in eight lower-case hexadecimal digits, is the crc. Lines are plain ASCII.

The first record, of kind `study`, says in `format` how the others are written. The order of records
is the order of lines; times in them are information and decide nothing. Records of kind `trial` and
`proposal` are unique by their number (`trial`).

A line counts if its checksum holds. A torn last line, left by a writer that was killed, is passed
over by readers and cut off by the next writer, who keeps its bytes in `ledger.jsonl.torn`. Any
other line that does not hold is damage: nothing is read until `repair_ledger` has taken it out.
"""

import errno
import json
import os
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hotlap.store.atomic import make_folder, tidy, write_file
from hotlap.store.closing import Closing
from hotlap.store.plain import pack_json
from hotlap.store.writer_lock import WriterLock

FORMAT = 1
FIRST = "study"
UNIQUE = ("trial", "proposal")
"""Kinds of which there is one record for each trial."""

Entry = dict[str, Any]
"""A record as it was appended: `kind` first, no checksum."""


class DamagedLedger(ValueError):
    """A ledger is not what was written."""


@dataclass(frozen=True)
class BadLine:
    """A line that does not count."""

    number: int
    """Where it stands, from 1."""
    data: bytes
    """What it says."""
    problem: str
    """Why it does not count."""


class Contents:
    """What a ledger holds, in memory."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        """What was passed over: a torn last line, records that stand there twice."""
        self._all: list[Entry] = []
        self._by_kind: defaultdict[str, list[Entry]] = defaultdict(list)
        self._numbered: set[tuple[str, int]] = set()

    @property
    def header(self) -> Entry:
        """The first record, of kind `study`."""
        return self._all[0]

    def records(self, kind: str | None = None) -> list[Entry]:
        """Every record, or those of one kind, in order; they are not to be changed."""
        return list(self._all if kind is None else self._by_kind.get(kind, ()))

    def add(self, record: Entry) -> None:
        """Take in one more."""
        self._all.append(record)
        self._by_kind[record["kind"]].append(record)
        if record["kind"] in UNIQUE:
            self._numbered.add((record["kind"], record["trial"]))

    def holds(self, record: Entry) -> bool:
        """Whether a record that must be unique is there already."""
        kind = record["kind"]
        if kind in UNIQUE:
            return (kind, record["trial"]) in self._numbered
        return kind == FIRST and kind in self._by_kind


class Ledger(Closing):
    """A ledger that this process, and no other, writes; `create` or `open` it."""

    def __init__(self, path: Path, contents: Contents, lock: WriterLock) -> None:
        self.path = path
        self.contents = contents
        self._lock = lock
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._size = os.fstat(self._handle).st_size
        self._half_written = False

    @classmethod
    def create(cls, path: Path, header: Entry) -> Self:
        """Begin a ledger where there is none; `header` becomes part of its first record."""
        if taken := {"kind", "format"} & header.keys():
            raise ValueError(f"the header's {min(taken)} is set by the ledger itself; leave it out")
        line = _line({"kind": FIRST, "format": FORMAT, **header})
        make_folder(path.parent)
        lock = _lock(path)
        try:
            if path.exists():
                raise ValueError(f"{path} is there already; go on with it, or name another study")
            write_file(path, line)
            return cls(path, _contents(line, path), lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: Path) -> Self:
        """Go on with a ledger, after clearing away what its last writer left half done."""
        _refuse_missing(path)
        lock = _lock(path)
        try:
            tidy(path.parent)
            data = path.read_bytes()
            contents = _contents(data, path)
            _heal(path, data)
            return cls(path, contents, lock)
        except BaseException:
            lock.release()
            raise

    def records(self, kind: str | None = None) -> list[Entry]:
        """Every record so far, or those of one kind, in order; they are not to be changed."""
        return self.contents.records(kind)

    def append(self, kind: str, **fields: Any) -> Entry:
        """Add a record; when this returns it is on the disk, if it fails the ledger is as before.

        Returns:
            The record, as every reader will find it.
        """
        line = _line({"kind": kind, **fields})
        record = parse_line(line[:-1])
        if self.contents.holds(record):
            which = f" of trial {record['trial']}" if kind in UNIQUE else ""
            raise ValueError(f"{self.path} has a {kind} record{which} already; it stays as it is")
        self._write(line)
        self.contents.add(record)
        return record

    def close(self) -> None:
        """Let others write."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
            self._lock.release()

    def _write(self, line: bytes) -> None:
        if self._half_written:  # and could not be taken back when it happened
            self._take_back()
        self._refuse_changed()
        self._half_written = True
        try:
            if os.write(self._handle, line) != len(line):
                raise OSError(errno.ENOSPC, "only part of a record could be written", self.path)
            os.fsync(self._handle)
        except BaseException:
            self._take_back()
            raise
        self._size += len(line)
        self._half_written = False

    def _take_back(self) -> None:
        """Cut off a torn record, or the next one would continue it."""
        os.ftruncate(self._handle, self._size)
        self._half_written = False

    def _refuse_changed(self) -> None:
        """Stop where records would be lost: in a file that was removed or that others write."""
        if self._handle < 0:
            raise RuntimeError(f"{self.path} was closed; open it again to append to it")
        stat = os.fstat(self._handle)
        if stat.st_nlink == 0 or stat.st_size != self._size:
            raise RuntimeError(
                f"{self.path} was removed, replaced or changed by another program while this "
                "process writes it; see that it is whole, then go on with the study"
            )


def read_ledger(path: Path) -> Contents:
    """What a ledger holds at this moment; needs no lock and changes nothing."""
    _refuse_missing(path)
    data = path.read_bytes()
    while True:
        try:
            return _contents(data, path)
        except DamagedLedger:
            # A record may have been taken back while the file was being read.
            before, data = data, path.read_bytes()
            if data == before:
                raise


def repair_ledger(path: Path) -> list[BadLine]:
    """Take out the lines that are damaged, and those only; the file as it was is kept beside.

    Returns:
        The lines taken out; none where there was no damage, and nothing is changed then.
    """
    _refuse_missing(path)
    lock = _lock(path)
    try:
        data = path.read_bytes()
        _refuse_other_formats(data, path)
        _, bad, _ = _scan(data)
        if any(line.number == 1 for line in bad):
            raise DamagedLedger(
                f"{path}: the first record, which says what the study is, is damaged and cannot be "
                "mended; restore the file from a copy, or begin another study with this file as "
                "its earlier results"
            )
        if bad:
            write_file(_unused(path.with_name(f"{path.name}.damaged")), data)
            numbers = {line.number for line in bad}
            lines = enumerate(data.split(b"\n"), start=1)
            write_file(path, b"\n".join(line for number, line in lines if number not in numbers))
        return bad
    finally:
        lock.release()


def parse_line(line: bytes) -> Entry:
    r"""A line, without its "\n", as the record it was; ValueError says what is wrong with it."""
    ending = _ENDING.fullmatch(line[-_ENDING_LENGTH:])
    if ending is None:
        raise ValueError("it does not end in a checksum")
    text = line[:-_ENDING_LENGTH] + b"}"
    if b"%08x" % zlib.crc32(text) != ending[1]:
        raise ValueError("its checksum does not hold")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError("it is no JSON object")
    if problem := _problem(record):
        raise ValueError(f"it should have {problem}")
    return record


def _line(record: Entry) -> bytes:
    """A record as it is written."""
    text = pack_json(record).decode()
    if problem := _problem(record):
        raise ValueError(f"a record must have {problem}: {record!r:.200}")
    return f'{text[:-1]}, "crc": "{zlib.crc32(text.encode()):08x}"}}\n'.encode()


_ENDING = re.compile(rb', "crc": "([0-9a-f]{8})"\}')
_ENDING_LENGTH = len(', "crc": "01234567"}')


def _problem(record: Entry) -> str | None:
    """What a record lacks."""
    kind = record.get("kind")
    if not isinstance(kind, str) or not kind or next(iter(record)) != "kind":
        return "its kind, a word, as the first member"
    if "crc" in record:
        return "no member `crc` of its own"
    if kind in UNIQUE and type(record.get("trial")) is not int:
        return "the number of its trial, `trial`"
    return None


def _scan(data: bytes) -> tuple[list[tuple[int, Entry]], list[BadLine], bytes]:
    """The records with the numbers of their lines, the damaged lines, and a torn tail."""
    *lines, tail = data.split(b"\n")
    if tail and _counts(tail):  # torn between its last byte and the line's end
        lines, tail = [*lines, tail], b""
    records, bad = [], []
    for number, line in enumerate(lines, start=1):
        try:
            records.append((number, parse_line(line)))
        except ValueError as error:
            bad.append(BadLine(number, line, str(error)))
    return records, bad, tail


def _counts(line: bytes) -> bool:
    try:
        parse_line(line)
    except ValueError:
        return False
    return True


def _contents(data: bytes, path: Path) -> Contents:
    """Everything a ledger's bytes say; refuses damage."""
    _refuse_other_formats(data, path)
    records, bad, tail = _scan(data)
    if bad:
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise DamagedLedger(
            f"{path}, line {bad[0].number}{more}: {bad[0].problem}; the line is damaged or was not "
            "written by hotlap. Restore the file from a copy, or run the study with --repair, "
            "which takes such lines out and keeps the file as it is beside"
        )
    if not records or records[0][1]["kind"] != FIRST or records[0][1].get("format") != FORMAT:
        raise DamagedLedger(
            f"{path} does not begin with a whole {FIRST} record of format {FORMAT}; restore it "
            "from a copy, or remove it and begin the study again"
        )
    contents = Contents()
    for number, record in records:
        if contents.holds(record):
            which = f" of trial {record['trial']}" if record["kind"] in UNIQUE else ""
            note = f"line {number}: a second {record['kind']} record{which}; the first one counts"
            contents.notes.append(note)
        else:
            contents.add(record)
    if tail:
        contents.notes.append(f"the last line is torn: {len(tail)} bytes of it do not count")
    return contents


def _heal(path: Path, data: bytes) -> None:
    """End the file with a whole line; bytes that do not count are kept in another one."""
    torn = data[data.rfind(b"\n") + 1 :]
    if torn and _counts(torn):
        _append(path, b"\n")
    elif torn:
        _append(path.with_name(f"{path.name}.torn"), torn + b"\n")
        with open(path, "r+b") as file:
            file.truncate(len(data) - len(torn))
            os.fsync(file.fileno())


def _append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _refuse_missing(path: Path) -> None:
    if not path.is_file():
        raise ValueError(f"no ledger {path}; begin the study first, or name another one")


def _refuse_other_formats(data: bytes, path: Path) -> None:
    """Stop at a ledger of a later hotlap, whose lines may look different, and at plain results."""
    try:
        first = json.loads(data.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return  # damage, which is told where it is found
    if not isinstance(first, dict):
        return
    found = first.get("format")
    if first.get("kind") == FIRST and isinstance(found, int) and found > FORMAT:
        raise ValueError(
            f"{path} is of format {found}, written by a later hotlap; this one reads format "
            f"{FORMAT}. Update hotlap, or begin another study"
        )
    if "kind" not in first and "params" in first:
        raise ValueError(
            f"{path} holds plain results, no ledger; begin another study with this file as its "
            "earlier results"
        )


def _lock(path: Path) -> WriterLock:
    return WriterLock(path.with_name("lock"), remedy="name another study")


def _unused(path: Path) -> Path:
    names = (path, *(path.with_name(f"{path.name}-{number}") for number in range(2, 1000)))
    return next(name for name in names if not name.exists())
