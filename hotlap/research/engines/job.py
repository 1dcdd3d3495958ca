"""What an engine runs, and what came of it: one command on one folder.

FOLDER/trial.json     what to try; written by whoever submits
FOLDER/result.json    what came out; a trial is done when this file is whole, whatever the exit code
FOLDER/heartbeat      progress, in the command's words; rows added to FOLDER/run/*.jsonl count too
FOLDER/stacks-ready   the command's word that it prints its stacks on SIGUSR1
FOLDER/output.txt     what the command printed, at most the newest megabytes of it
FOLDER/process.json   who is running it; gone when it has ended
"""

import faulthandler
import hashlib
import json
import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from hotlap.store.atomic import write_file

RESULT, HEARTBEAT, STACKS_READY = "result.json", "heartbeat", "stacks-ready"
FORMAT = 1

Status = Literal["done", "failed", "timeout", "killed", "lost"]


@dataclass(frozen=True)
class Job:
    """A trial to run. A limit of 0 is no limit."""

    trial: int
    """Its number in the study."""
    folder: Path
    """Where it reads and writes; as an absolute path when another machine may run it."""
    command: tuple[str, ...]
    """The program and its arguments."""
    time_limit: float = 0.0
    """Seconds from its start; the clock stands still while a laptop sleeps."""
    memory_limit: int = 0
    """Bytes in memory, of the command and all that it starts."""
    heartbeat_limit: float = 0.0
    """Seconds without progress before it counts as hung."""
    first_heartbeat_limit: float = 0.0
    """The same until the first progress, as starting takes longer; 0: five times the other."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables beside those of the controller."""
    gpu: float = 0.0
    """The share of a GPU that it takes, from 0 to 1."""

    def __post_init__(self) -> None:
        if not self.command:
            raise ValueError("command must name a program to run, got nothing")
        for name in ("time_limit", "memory_limit", "heartbeat_limit", "first_heartbeat_limit"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be 0 (none) or more, got {value}")
        if not 0 <= self.gpu <= 1:
            raise ValueError(f"gpu must lie between 0 and 1, got {self.gpu}")


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    trial: int
    status: Status
    """lost: it vanished or never began through no fault of its own, and may be run again."""
    exit_code: int | None = None
    """The command's; the negative number of the signal that ended it; None if it never ran here."""
    elapsed: float = 0.0
    """Seconds from start to end."""
    peak_memory: int = 0
    """The most bytes in memory seen, of the command and all that it started."""
    reason: str = ""
    """In words, with the last lines it printed where it is not done."""


class Engine(Protocol):
    """Runs jobs, several at once, and says how each one ended, once."""

    capacity: int
    """How many run at the same time; more may be submitted and wait their turn."""

    def submit(self, job: Job) -> dict[str, Any]:
        """Take a job, now or when there is room; who runs it (pid, started, host) as far as known.

        A job whose folder holds a whole result is done without being run.
        """

    def poll(self, timeout: float) -> list[Outcome]:
        """What ended since the last call; waits up to so many seconds for something to end."""

    def cancel(self, trial: int) -> None:
        """End a trial; its outcome, killed unless it was done before, comes with a later poll."""

    def close(self) -> None:
        """End everything that runs, leave no process behind, and report nothing more."""


def write_result(folder: Path, table: dict[str, Any]) -> None:
    """Say that the trial in this folder is done, and what came out; plain JSON values only."""
    try:
        data = _render(table)
        same = json.loads(data)["result"] == table
    except (TypeError, ValueError) as error:
        raise ValueError(f"a result must be plain JSON values: {error}") from error
    if not same:
        raise ValueError(f"a result must come back from JSON unchanged: {table!r:.200}")
    write_file(folder / RESULT, data)


def read_result(folder: Path) -> dict[str, Any] | None:
    """What came out of a trial, or None while there is no whole result."""
    return examine_result(folder)[0]


def examine_result(folder: Path) -> tuple[dict[str, Any] | None, str]:
    """The result in a folder, or None and a sentence about why there is none."""
    path = folder / RESULT
    try:
        data = path.read_bytes()
        value = json.loads(data)
        table = value["result"]
        if value["format"] != FORMAT:
            return None, f"{path} has format {value['format']!r:.20}, expected {FORMAT}"
        if not isinstance(table, dict) or _render(table) != data:
            return None, f"{path} is damaged: its checksum does not fit"
    except FileNotFoundError:
        return None, f"there is no {path}"
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return None, f"{path} is damaged: {type(error).__name__}: {error!s:.100}"
    return table, ""


def beat(folder: Path, progress: str) -> None:
    """Say how far the trial is (steps, updates); the same words again are no progress."""
    (folder / HEARTBEAT).write_text(progress, encoding="utf-8")


def promise_stacks(folder: Path) -> None:
    """Print the stacks of all threads on SIGUSR1, which an engine sends before it ends a trial."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    (folder / STACKS_READY).touch()


def _render(table: dict[str, Any]) -> bytes:
    body = {"format": FORMAT, "result": table}
    text = json.dumps(body, allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(body | {"sha256": digest}, allow_nan=False).encode() + b"\n"
