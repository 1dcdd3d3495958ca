"""Bytes to messages and back.

Commands come with nothing between them, or newlines, or anything else: `CommandDecoder` looks for
objects. Reports come one to a line: `ReportDecoder` cuts lines. Both take their input in pieces of
any size, keep what is incomplete, and never hold more than their limit.
"""

import json
import re
from typing import Any

from hotlap.wire.messages import (
    BadMessage,
    Command,
    Report,
    command_values,
    read_command,
    read_report,
    report_values,
)

LONGEST_COMMAND = 16 * 1024
"""Bytes of the longest command taken; the longest real one has about 400."""
LONGEST_REPORT = 16 * 1024 * 1024
"""Bytes of the longest report taken: two pictures of 512 x 512 and a lidar of 4500 points fit."""
DEEPEST = 4
"""Objects and lists within one another that a command may have; real ones are flat."""

_MARK = re.compile(rb'["{}\[\]]')
_IN_TEXT = re.compile(rb'["\\\x00-\x1f]')
# A simulator under a comma-decimal locale writes "x":1,5 which is no JSON.
_COMMA = re.compile(rb'(":-?\d+),(\d+(?:[eE][-+]?\d+)?)(?=[,}\]])')


def encode_command(command: Command) -> bytes:
    """A command as the simulator takes it: no newline, which would make it throw it away."""
    return json.dumps(command_values(command)).encode()


def encode_report(report: Report) -> bytes:
    """A report as the simulator sends it: compact, on a line of its own."""
    values = report_values(report)
    return json.dumps(values, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class CommandDecoder:
    """Finds commands in a stream of bytes.

    What cannot be a command is given up at the first byte that says so, and the search goes on at
    the next brace. A byte is looked at again only where a brace inside text given up opens another
    try; such tries nest no deeper than objects may, so the work grows with the input and no faster.

    Args:
        longest: Bytes of the longest command taken.
    """

    def __init__(self, longest: int = LONGEST_COMMAND) -> None:
        self.longest = longest
        self.malformed = 0
        """Pieces that were no commands, so far."""
        self.unknown = 0
        """Commands of types that nobody knows, so far."""
        self._buffer = bytearray()
        self._begin = -1  # where the object being read begins; -1 between objects
        self._at = 0  # where reading goes on
        self._depth = 0
        self._quoted = False
        self._gap = 0  # end of the last mark
        self._last = b""  # the last mark: a bracket, or a quote for the end of text

    def feed(self, data: bytes) -> list[Command]:
        """Take more bytes; return the commands that they complete."""
        self._buffer += data
        found = []
        while (piece := self._next_piece()) is not None:
            command = self._read(piece)
            if command is not None:
                found.append(command)
        self._forget()
        return found

    def _read(self, piece: bytes) -> Command | None:
        try:
            command = read_command(json.loads(piece.decode()))
        except (ValueError, RecursionError):  # also no UTF-8, no JSON, not a fitting field
            self.malformed += 1
            return None
        self.unknown += command is None
        return command

    def _next_piece(self) -> bytes | None:
        """The next whole object; None where more bytes are needed."""
        while self._begin >= 0 or self._open():
            if self._at - self._begin > self.longest:
                self._give_up()
                continue
            found = (_IN_TEXT if self._quoted else _MARK).search(self._buffer, self._at)
            if found is None:
                self._at = len(self._buffer)
                if self._at - self._begin > self.longest:
                    continue
                return None
            if not self._quoted:
                if self._pass_mark(found.group(), found.start()):
                    piece = bytes(self._buffer[self._begin : self._at])
                    self._begin = -1
                    return piece
            elif found.group() == b"\\":
                if found.end() == len(self._buffer):
                    self._at = found.start()
                    return None
                self._at = found.end() + 1
            elif found.group() == b'"':
                self._quoted, self._last = False, b'"'
                self._at = self._gap = found.end()
            else:  # a bare newline cannot stand in text: this one was cut off
                self._give_up()
        return None

    def _open(self) -> bool:
        """Begin at the next brace, if there is one."""
        self._begin = self._buffer.find(b"{", self._at)
        if self._begin < 0:
            self._at = len(self._buffer)
            return False
        self._at = self._gap = self._begin + 1
        self._depth, self._quoted, self._last = 1, False, b"{"
        return True

    def _pass_mark(self, mark: bytes, place: int) -> bool:
        """Go past a mark outside text; True where it ends the object."""
        opens = mark in b"{["
        if not _may_follow(self._last, bytes(self._buffer[self._gap : place]).strip(), mark) or (
            opens and self._depth == DEEPEST
        ):
            self._give_up()
            return False
        self._at = self._gap = place + 1
        self._last = mark
        self._quoted = mark == b'"'
        if not self._quoted:
            self._depth += 1 if opens else -1
        return self._depth == 0

    def _give_up(self) -> None:
        """This brace opens nothing that can be read; go on after it."""
        self.malformed += 1
        self._at = self._begin + 1
        self._begin = -1

    def _forget(self) -> None:
        """Drop what has been read."""
        done = self._at if self._begin < 0 else self._begin
        del self._buffer[:done]
        self._at -= done
        self._gap -= done
        self._begin = 0 if self._begin >= 0 else -1


def _may_follow(last: bytes, between: bytes, mark: bytes) -> bool:
    """Whether a mark can come after another with these bytes between them, in any JSON."""
    if last == b"{":
        return not between and mark in b'"}'
    if last == b"[":
        return mark in b'"{[]' and (mark == b"]" or not between or between.endswith(b","))
    separated = between[:1] in (b":", b",")
    if mark in b'"{[':
        return separated and between[-1:] in (b":", b",")
    return separated or not between


class ReportDecoder:
    """Finds reports, one to a line, in a stream of bytes.

    Args:
        longest: Bytes of the longest line taken.
    """

    def __init__(self, longest: int = LONGEST_REPORT) -> None:
        self.longest = longest
        self.unknown = 0
        """Reports of types that nobody knows, so far."""
        self._buffer = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> list[Report]:
        """Take more bytes; return the reports that they complete.

        Raises:
            BadMessage: A line is no report, or does not end.
        """
        self._buffer += data
        found = []
        begin = 0
        while (end := self._buffer.find(b"\n", self._at)) >= 0:
            line = bytes(self._buffer[begin:end]).strip()
            begin = self._at = end + 1
            if len(line) > 2:  # an empty object keeps a connection alive
                report = read_report(_parse(line))
                self.unknown += report is None
                if report is not None:
                    found.append(report)
        del self._buffer[:begin]
        self._at = len(self._buffer)
        if self._at > self.longest:
            raise BadMessage(f"a line of more than {self.longest} bytes")
        return found


def _parse(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; also of one whose numbers have commas for points."""
    try:
        try:
            values = json.loads(line.decode())
        except ValueError:
            values = json.loads(_COMMA.sub(rb"\1.\2", line).decode())
    except (ValueError, RecursionError):
        raise BadMessage(f"this line is no JSON: {line[:80]!r}") from None
    if not isinstance(values, dict):
        raise BadMessage(f"this line is no JSON object: {line[:80]!r}")
    return values
