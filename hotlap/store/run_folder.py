"""One training run on disk, so written that a run killed at any moment can go on.

config.json    the resolved settings           model/        the finished model, a bundle
NAME.jsonl     tables that grow by rows        best/         the best state so far
checkpoints/   where training can go on from   replay/       rows of the replay buffer
milestones/    models of the latest segments   lock          held by the one process that writes
"""

from pathlib import Path
from typing import Any, Self

from torch import Tensor

from hotlap.store.atomic import make_folder, read_folder, remove, tidy, write_file
from hotlap.store.checkpoints import Checkpoint, Checkpoints
from hotlap.store.closing import Closing
from hotlap.store.plain import pack_json, unpack_json
from hotlap.store.rows import append_row, forget_rows_after, heal_rows, read_rows
from hotlap.store.state import State, read_state, write_state
from hotlap.store.writer_lock import WriterLock

CONFIG = "config.json"
PARTS = (CONFIG, "checkpoints", "replay", "best", "model", "milestones")
"""Where any of these is, there is a run, or what is left of one."""


class RunFolder(Closing):
    """A run. Made by its name alone it can only be read; `create` and `open` can write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checkpoints = Checkpoints(path)
        self._lock: WriterLock | None = None

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> Self:
        """Begin a run where there is none."""
        data = pack_json(config, indent=2)
        make_folder(path)
        run = cls(path)
        run._lock = WriterLock(path / "lock")
        try:
            run.refuse_used()
            write_file(path / CONFIG, data)
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """Go on with a run, after clearing away what its last writer left half done."""
        run = cls(path)
        run._refuse_empty()
        run._lock = WriterLock(path / "lock")
        try:
            run._recover()
        except BaseException:
            run.close()
            raise
        return run

    @property
    def config(self) -> dict[str, Any]:
        """The settings the run was begun with."""
        self._refuse_empty()
        return unpack_json((self.path / CONFIG).read_bytes(), self.path / CONFIG)

    @property
    def model_folder(self) -> Path:
        """Where the finished model goes, as a bundle."""
        return self.path / "model"

    def milestone_folder(self, segment: int) -> Path:
        """Where the model that a segment ended with goes, as a bundle."""
        return self.path / "milestones" / f"{segment:06d}"

    def forget_milestones(self, newest: int, keep: int) -> None:
        """Remove the models of all but the last `keep` segments up to the newest."""
        self._refuse_reader()
        kept = {self.milestone_folder(newest - back) for back in range(keep)}
        for folder in set((self.path / "milestones").glob("[0-9]*")) - kept:
            remove(folder)

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add a row to a table; when this returns it is on the disk."""
        self._refuse_reader()
        append_row(self._table(name), row)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table; none if there is no such table."""
        return read_rows(self._table(name))

    def forget_after(self, name: str, segment: int) -> None:
        """Remove the rows whose `segment` is later, because that work will be done again."""
        self._refuse_reader()
        forget_rows_after(self._table(name), segment)

    def save_checkpoint(
        self,
        segment: int,
        tensors: dict[str, Tensor],
        numbers: dict[str, Any],
        replay: dict[str, Tensor] | None = None,
        keep: int = 3,
        replay_first: int = 0,
    ) -> None:
        """Save the end of a segment; the newest `keep` checkpoints stay loadable.

        `replay` holds the rows added since the last checkpoint; rows of segments before
        `replay_first` are no longer in the buffer.
        """
        self._refuse_reader()
        self._checkpoints.save(segment, tensors, numbers, replay, keep, replay_first)

    def load_checkpoint(self) -> Checkpoint | None:
        """The newest whole checkpoint; None if none was saved, DamagedFile if none is whole."""
        return self._checkpoints.load()

    def save_best(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Save the best state so far, in place of the last."""
        self._refuse_reader()
        write_state(self.path / "best", tensors, {"numbers": numbers})

    def load_best(self) -> State | None:
        """The best state so far, if one was saved."""
        return read_folder(self.path / "best", _read_best)

    def withdraw(self) -> None:
        """Undo `create`, because the run cannot begin: another may, in the same folder."""
        self._refuse_reader()
        (self.path / CONFIG).unlink()

    def close(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _table(self, name: str) -> Path:
        if not name or Path(name).name != name or name.startswith("."):
            raise ValueError(f"a table's name is one plain word such as 'episodes', got {name!r}")
        return self.path / f"{name}.jsonl"

    def _recover(self) -> None:
        tidy(self.path)
        if (self.path / "milestones").is_dir():
            tidy(self.path / "milestones")
        self._checkpoints.recover()
        for table in self.path.glob("*.jsonl"):
            heal_rows(table)

    def used(self) -> list[str]:
        """Parts of a run that are there already."""
        tables = (path.name for path in self.path.glob("*.jsonl"))
        return [name for name in (*PARTS, *tables) if (self.path / name).exists()]

    def refuse_used(self) -> None:
        """Stop where a run is there already."""
        if found := self.used():
            raise ValueError(
                f"{self.path} already holds a run ({', '.join(found)}); go on with it with "
                "--resume, or choose another --save-dir"
            )

    def _refuse_empty(self) -> None:
        if not (self.path / CONFIG).is_file():
            raise ValueError(
                f"no run in {self.path}: expected {CONFIG} there; leave --resume out to begin one, "
                "or name the folder of a run"
            )

    def _refuse_reader(self) -> None:
        if self._lock is None:
            raise RuntimeError(
                f"{self.path} is open for reading only; use RunFolder.open to write in it"
            )


def _read_best(folder: Path) -> State | None:
    if not folder.exists():
        return None
    tensors, table = read_state(folder)
    return State(tensors, table["numbers"])
