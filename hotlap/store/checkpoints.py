"""Checkpoints of one run, and the replay buffer beside them.

A replay buffer is too large to write whole every time. Each segment's new rows become a piece of
their own, and a checkpoint names the pieces that fill the ring with their fingerprints:
    checkpoints/000012/       tensors, numbers, and which pieces are needed
    replay/000012.safetensors the rows added in segment 12
A piece is on the disk before the checkpoint that names it, and goes when no kept one names it.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from hotlap.store.atomic import make_folder, remove, tidy, write_file
from hotlap.store.formats import tensor_parts, unpack_tensors
from hotlap.store.manifest import verify
from hotlap.store.plain import DamagedFile
from hotlap.store.state import State, read_state, read_table, write_state

ENDING = ".safetensors"
Fingerprints = dict[str, dict[str, Any]]
"""Size and sha256 of replay pieces, by name, oldest first."""


@dataclass(frozen=True, eq=False)
class Checkpoint(State):
    """The end of a segment, from which training goes on."""

    segment: int
    replay_first: int
    """The oldest segment whose rows are still in the replay buffer."""
    replay_pieces: Iterator[dict[str, Tensor]]
    """The replay buffer's rows, oldest piece first; each is read when it is its turn."""
    damaged: list[str]
    """What is wrong with each newer checkpoint that had to be passed over."""


class Checkpoints:
    """Reads and writes the checkpoints of the run in a folder."""

    def __init__(self, run: Path) -> None:
        self.folder = run / "checkpoints"
        self.replay_folder = run / "replay"
        self._last: tuple[int, Fingerprints] | None = None  # what the next checkpoint builds on

    def save(
        self,
        segment: int,
        tensors: dict[str, Tensor],
        numbers: dict[str, Any],
        replay: dict[str, Tensor] | None,
        keep: int,
        replay_first: int,
    ) -> None:
        """Write a checkpoint; once it is safe, remove those it makes needless."""
        if self._last is None:
            self.load()
        last, pieces = self._last or (-1, {})
        if segment <= last or keep < 1:
            raise ValueError(
                f"checkpoints go up from segment {last} and at least one is kept, "
                f"got segment {segment} and keep {keep}"
            )
        pieces = {name: piece for name, piece in pieces.items() if int(name) >= replay_first}
        if replay is not None:
            pieces[_name(segment)] = self._write_piece(segment, replay)
        table = dict(segment=segment, numbers=numbers, replay_first=replay_first, replay=pieces)
        write_state(self.folder / _name(segment), tensors, table)
        self._last = segment, pieces
        self._prune(segment, keep)

    def load(self) -> Checkpoint | None:
        """The newest whole checkpoint, None if there never was one."""
        damaged: list[str] = []
        for segment in reversed(self.segments()):
            try:
                return self._load(segment, damaged)
            except (DamagedFile, OSError) as error:
                damaged.append(f"checkpoint {_name(segment)}: {error}")
        if damaged:
            raise DamagedFile(
                f"none of the checkpoints in {self.folder} is whole; restore one from a copy, or "
                "start again in another folder\n" + "\n".join(damaged)
            )
        return None

    def segments(self) -> list[int]:
        """The segments that have a checkpoint, whole or not, oldest first."""
        return _numbers(self.folder)

    def recover(self) -> None:
        """Clear away what an interrupted writer left: half a checkpoint, pieces without one."""
        for folder in (self.folder, self.replay_folder):
            if folder.is_dir():
                tidy(folder)
        newest = max(self.segments(), default=-1)
        for number in _numbers(self.replay_folder, ENDING):
            if number > newest:
                remove(self._piece(_name(number)))

    def _load(self, segment: int, damaged: list[str]) -> Checkpoint:
        tensors, table = read_state(self.folder / _name(segment))
        pieces: Fingerprints = table["replay"]
        for name, expected in pieces.items():
            verify(self._piece(name), expected)
        self._last = segment, pieces
        rows = self._read_pieces(pieces)
        first = table["replay_first"]
        return Checkpoint(tensors, table["numbers"], segment, first, rows, damaged)

    def _piece(self, name: str) -> Path:
        return self.replay_folder / (name + ENDING)

    def _write_piece(self, segment: int, replay: dict[str, Tensor]) -> dict[str, Any]:
        make_folder(self.replay_folder)
        digest, size = hashlib.sha256(), 0

        def told() -> Iterator[bytes | memoryview]:
            nonlocal size
            for part in tensor_parts(replay):
                digest.update(part)
                size += len(part)
                yield part

        write_file(self._piece(_name(segment)), told())
        return {"size": size, "sha256": digest.hexdigest()}

    def _read_pieces(self, pieces: Fingerprints) -> Iterator[dict[str, Tensor]]:
        for name, expected in pieces.items():
            path = self._piece(name)
            verify(path, expected)  # again: much may have happened since the checkpoint was loaded
            yield unpack_tensors(path.read_bytes(), path)

    def _prune(self, newest: int, keep: int) -> None:
        """Remove old checkpoints, those of a future that was given up, and unused pieces."""
        kept = [segment for segment in self.segments() if segment <= newest][-keep:]
        for segment in set(self.segments()) - set(kept):
            remove(self.folder / _name(segment))
        needed = {name for segment in kept for name in self._needed(segment)}
        for number in _numbers(self.replay_folder, ENDING):
            if _name(number) not in needed:
                remove(self._piece(_name(number)))

    def _needed(self, segment: int) -> Fingerprints:
        try:
            pieces: Fingerprints = read_table(self.folder / _name(segment))["replay"]
        except (DamagedFile, OSError, KeyError):  # it cannot be loaded, so it needs nothing
            return {}
        return pieces


def _name(segment: int) -> str:
    return f"{segment:06d}"


def _numbers(folder: Path, ending: str = "") -> list[int]:
    """The numbers that things in a folder are named by."""
    paths = folder.glob(f"*{ending}") if folder.is_dir() else ()
    stems = (path.name.removesuffix(ending) for path in paths)
    return sorted(int(stem) for stem in stems if stem.isdecimal())
