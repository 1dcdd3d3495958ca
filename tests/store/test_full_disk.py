import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from hotlap.store.bundle import Bundle, load_bundle, save_bundle
from hotlap.store.run_folder import RunFolder

from .small_disk import run_on_small_disk

STEPS = ("open", "mkdir", "rename", "replace", "fsync")
BIG = {"x": torch.arange(100_000)}  # 800 kB


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """The system stops writing in the middle of a file, as it does where the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fail_once_at(step: int, patch: pytest.MonkeyPatch) -> list[str]:
    """One of the coming steps fails with a full disk; the steps that were called."""
    called: list[str] = []

    def failing(name: str, original):
        def call(*args, **kwargs):
            called.append(name)
            if len(called) == step + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return original(*args, **kwargs)

        return call

    for name in STEPS:
        patch.setattr(os, name, failing(name, getattr(os, name)))
    return called


def everything(path: Path) -> list[str]:
    return sorted(str(entry.relative_to(path)) for entry in path.rglob("*"))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.create(tmp_path / "run", {}) as run:
        run.save_checkpoint(0, {"x": torch.zeros(1)}, {}, {"x": torch.zeros(1)})
        run.save_best({"x": torch.zeros(1)}, {"score": 0})
        run.append("rows", {"segment": 0})
        yield run


def test_a_checkpoint_that_does_not_fit_leaves_the_old_one(run: RunFolder) -> None:
    before = everything(run.path)
    for saved in ("tensors", "replay"):
        small = {"x": torch.zeros(1)}
        tensors, replay = (BIG, None) if saved == "tensors" else (small, BIG)
        with no_file_longer_than(100_000), pytest.raises(OSError, match="File too large"):
            run.save_checkpoint(1, tensors, {}, replay)
        assert everything(run.path) == before
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None and (checkpoint.segment, checkpoint.damaged) == (0, [])
    run.save_checkpoint(1, BIG, {}, BIG)  # space was made, and the run goes on
    checkpoint = run.load_checkpoint()
    assert checkpoint is not None and torch.equal(checkpoint.tensors["x"], BIG["x"])


def test_a_best_state_or_bundle_that_does_not_fit_leaves_the_old_one(run: RunFolder) -> None:
    save_bundle(run.model_folder, Bundle(weights={}, config={"version": 0}))
    before = everything(run.path)
    with no_file_longer_than(100_000):
        with pytest.raises(OSError, match="File too large"):
            run.save_best(BIG, {"score": 1})
        with pytest.raises(OSError, match="File too large"):
            save_bundle(run.model_folder, Bundle(weights=BIG, config={"version": 1}))
    assert everything(run.path) == before
    best = run.load_best()
    assert best is not None and best.numbers == {"score": 0}
    assert load_bundle(run.model_folder).config == {"version": 0}


def test_a_row_that_does_not_fit_leaves_the_table_whole(run: RunFolder) -> None:
    with no_file_longer_than(1000):
        for text in ("x" * 2000, "y" * 3000):
            with pytest.raises(OSError, match="only part of a row"):
                run.append("rows", {"text": text})
        run.append("rows", {"segment": 1})
    assert run.rows("rows") == [{"segment": 0}, {"segment": 1}]


def test_whichever_step_fails_old_or_new_is_whole_and_the_run_goes_on(run: RunFolder) -> None:
    segment, step, done = 1, 0, False
    while not done:
        value = {"x": torch.full((1,), segment)}
        with pytest.MonkeyPatch.context() as patch:
            called = fail_once_at(step, patch)
            try:
                run.save_checkpoint(segment, value, {}, value, keep=2, replay_first=segment)
            except OSError as error:
                assert error.errno == errno.ENOSPC
            done = len(called) <= step
        for reader in (run, RunFolder(run.path)):
            checkpoint = reader.load_checkpoint()
            assert checkpoint is not None and checkpoint.segment in (segment - 1, segment)
            assert checkpoint.damaged == []
            assert checkpoint.tensors["x"].item() == checkpoint.segment
        segment, step = checkpoint.segment + 1, step + 1
    assert step > 10


FILL_UP = """
import pathlib, sys, torch
from hotlap.store.run_folder import RunFolder

with RunFolder.create(pathlib.Path(sys.argv[1]) / "run", {}) as run:
    try:
        for segment in range(1000):
            data = {"x": torch.full((10_000,), segment)}
            run.save_checkpoint(segment, data, {}, data)
            run.append("rows", {"segment": segment})
    except OSError as error:
        assert error.errno == 28, error  # ENOSPC
    checkpoint = run.load_checkpoint()
    assert checkpoint.segment == segment - 1 > 2 and not checkpoint.damaged
    assert bool((checkpoint.tensors["x"] == segment - 1).all())
    assert [int(rows["x"][0]) for rows in checkpoint.replay_pieces] == list(range(segment))
    assert [row["segment"] for row in run.rows("rows")] == list(range(segment))
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    run_on_small_disk(FILL_UP, tmp_path, "2m")  # which asserts, and fails if it does
