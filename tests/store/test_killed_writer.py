"""A writer is killed (SIGKILL) before each of its steps, and at random moments.

The file is also the script that does it, in a process of its own: it forks writers, which is safe
where there are no threads, and quick where torch is loaded already.
"""

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import torch

from hotlap.store.atomic import read_folder, recover_folder, replace_folder
from hotlap.store.run_folder import RunFolder

STEPS = ("open", "mkdir", "rename", "replace", "fsync", "unlink", "rmdir")
SIZE = 20_000  # numbers, so that a kill may well fall into the writing


def killed_at_step(subject: "Folder | Run", step: int) -> tuple[int, int]:
    """A writer that kills itself; the last number it reported, and how it ended."""
    child, reports = forked(subject, times=1, step=step)
    status = os.waitpid(child, 0)[1]
    return last_of(reports), status


def killed_after(subject: "Folder | Run", seconds: float) -> int:
    """A writer that is killed after a while; the last number it reported."""
    child, reports = forked(subject, times=sys.maxsize)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    return last_of(reports)


def forked(subject: "Folder | Run", times: int, step: int | None = None) -> tuple[int, int]:
    """A process that writes, and the end of the pipe it reports to."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if step is not None:
                die_at(step)
            subject.work(times, lambda number: os.write(send, b"%d\n" % number))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(send)
    return child, receive


def last_of(reports: int) -> int:
    with open(reports, "rb") as file:
        return int((file.read().split() or [b"-1"])[-1])


def die_at(step: int) -> None:
    """Kill this process before one of its steps."""
    steps = count()

    def dying(original: Callable) -> Callable:
        def call(*args: object, **kwargs: object) -> object:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return call

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))


class Folder:
    """Replaces a folder whose files all hold one number."""

    def __init__(self, path: Path) -> None:
        self.path = path / "folder"
        self.found = -1

    def work(self, times: int, report: Callable[[int], object]) -> None:
        for number in range(self.found + 1, self.found + 1 + times):
            replace_folder(self.path, partial(self.fill, number))
            report(number)

    def fill(self, number: int, new: Path) -> None:
        for name in "abc":
            (new / name).write_text(f"{number}\n" * SIZE)

    def check(self, reported: int) -> None:
        reported = max(reported, self.found)
        for recovered in (False, True):
            if recovered:
                recover_folder(self.path)
                assert [path.name for path in self.path.parent.iterdir()] in ([], ["folder"])
            self.found = read_folder(self.path, self.read) if self.path.parent.exists() else -1
            assert self.found in (reported, reported + 1), (self.found, reported)

    def read(self, folder: Path) -> int:
        if not folder.exists():
            return -1
        texts = {(folder / name).read_text() for name in "abc"}
        number = int(texts.copy().pop().split()[0])
        assert texts == {f"{number}\n" * SIZE}
        return number


class Run:
    """Trains, in name: rows, replay pieces, checkpoints and the best state."""

    def __init__(self, path: Path) -> None:
        self.path = path / "run"
        self.found = -1
        RunFolder.create(self.path, {}).close()

    def work(self, times: int, report: Callable[[int], object]) -> None:
        with RunFolder.open(self.path) as run:
            checkpoint = run.load_checkpoint()
            first = checkpoint.segment + 1 if checkpoint else 0
            run.forget_after("rows", first - 1)
            for segment in range(first, first + times):
                run.append("rows", {"segment": segment})
                data = {"x": torch.full((SIZE,), segment)}
                run.save_best(data, {"segment": segment})
                run.save_checkpoint(segment, data, {}, data, keep=2, replay_first=segment - 2)
                report(segment)

    def check(self, reported: int) -> None:
        reported = max(reported, self.found)
        self.look(RunFolder(self.path), reported)
        with RunFolder.open(self.path) as run:
            self.look(run, reported)
            hidden = [path.name for path in self.path.rglob(".*")]
            assert hidden == []

    def look(self, run: RunFolder, reported: int) -> None:
        checkpoint, best = run.load_checkpoint(), run.load_best()
        self.found = checkpoint.segment if checkpoint else -1
        assert self.found in (reported, reported + 1), (self.found, reported)
        segments = [row["segment"] for row in run.rows("rows")]
        assert segments in ([*range(self.found + 1)], [*range(self.found + 2)])
        if best:
            assert best.numbers["segment"] in (self.found, self.found + 1)
            assert bool((best.tensors["x"] == best.numbers["segment"]).all())
        if checkpoint:
            assert checkpoint.damaged == []
            assert bool((checkpoint.tensors["x"] == self.found).all())
            pieces = [int(rows["x"].unique()) for rows in checkpoint.replay_pieces]
            assert pieces == [*range(max(0, self.found - 2), self.found + 1)]


def kill_at_every_step(subject: Folder | Run) -> None:
    for step in count():
        reported, status = killed_at_step(subject, step)
        subject.check(reported)
        if not os.WIFSIGNALED(status):  # it had no more steps to die at
            break
    assert status == 0
    assert step > 10


def kill_at_random_moments(subject: Folder | Run, seconds: float) -> None:
    draw = random.Random(0)
    begun, longest = time.monotonic(), 0.06
    while (passed := time.monotonic() - begun) < seconds or subject.found <= 10:
        assert passed < 200, f"only {subject.found} were written"
        if passed > seconds:  # on a busy machine nobody gets far in so short a life
            longest = min(1.2 * longest, 3.0)
        subject.check(killed_after(subject, draw.uniform(0.001, longest)))


def run_this_file(*words: str) -> None:
    subprocess.run([sys.executable, __file__, *words], check=True, timeout=300)


@pytest.mark.parametrize("subject", ["Folder", "Run"])
def test_a_writer_killed_at_any_step_leaves_old_or_new(subject: str, tmp_path: Path) -> None:
    run_this_file(subject, str(tmp_path), "steps")


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["Folder", "Run"])
def test_a_writer_killed_at_any_moment_leaves_old_or_new(subject: str, tmp_path: Path) -> None:
    run_this_file(subject, str(tmp_path), "moments")


if __name__ == "__main__":
    torch.set_num_threads(1)
    subject = {"Folder": Folder, "Run": Run}[sys.argv[1]](Path(sys.argv[2]))
    if sys.argv[3] == "steps":
        kill_at_every_step(subject)
    else:
        kill_at_random_moments(subject, seconds=8)
