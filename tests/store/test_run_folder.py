import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hotlap.store.plain import DamagedFile
from hotlap.store.run_folder import RunFolder

CONFIG = {"task": "donkey", "rate": 0.1 + 0.2, "steps": 128, "note": None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    RunFolder.create(tmp_path / "runs" / "run", CONFIG).close()
    return tmp_path / "runs" / "run"


def test_settings_come_back_exactly(path: Path) -> None:
    assert RunFolder(path).config == CONFIG
    with RunFolder.open(path) as run:
        assert run.config == CONFIG
        assert run.model_folder == path / "model"


@pytest.mark.parametrize("part", ["config.json", "episodes.jsonl", "checkpoints", "best"])
def test_a_run_is_never_begun_over_another(part: str, tmp_path: Path) -> None:
    (tmp_path / part).write_text("{}")
    with pytest.raises(ValueError, match=rf"already holds a run \({part}\).*--resume.*--save-dir"):
        RunFolder.create(tmp_path, CONFIG)
    (tmp_path / part).unlink()
    RunFolder.create(tmp_path, CONFIG).close()  # the refusal kept no lock


def test_there_must_be_a_run_to_go_on_with(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no run in .*leave --resume out"):
        RunFolder.open(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no run in"):
        _ = RunFolder(tmp_path).config
    assert list(tmp_path.iterdir()) == []


def test_a_reader_cannot_write(path: Path) -> None:
    reader = RunFolder(path)
    for write in (
        lambda: reader.append("rows", {}),
        lambda: reader.forget_after("rows", 0),
        lambda: reader.save_checkpoint(0, {}, {}),
        lambda: reader.save_best({}, {}),
    ):
        with pytest.raises(RuntimeError, match="open for reading only"):
            write()


def test_a_second_writer_is_refused_and_told_who_writes(path: Path) -> None:
    with RunFolder.open(path) as run:
        with pytest.raises(RuntimeError, match=f"being written by process {os.getpid()} "):
            RunFolder.open(path)
        with pytest.raises(RuntimeError, match=f"being written by process {os.getpid()} "):
            RunFolder.create(path, CONFIG)
        run.append("rows", {"segment": 0})
        assert RunFolder(path).rows("rows") == [{"segment": 0}]  # readers need no lock
    RunFolder.open(path).close()


def test_closing_twice_and_failing_inside_release_the_lock(path: Path) -> None:
    with pytest.raises(KeyError), RunFolder.open(path) as run:
        raise KeyError
    run.close()
    RunFolder.open(path).close()


def test_the_lock_of_a_killed_process_is_free(path: Path) -> None:
    code = f"""
import pathlib, time
from hotlap.store.writer_lock import WriterLock
lock = WriterLock(pathlib.Path({str(path / "lock")!r}))
print("held", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(RuntimeError, match=f"process {child.pid} "):
            RunFolder.open(path)
        child.send_signal(signal.SIGKILL)
    RunFolder.open(path).close()


def test_the_best_state_is_replaced_whole(path: Path) -> None:
    assert RunFolder(path).load_best() is None
    with RunFolder.open(path) as run:
        for score in (1 / 3, 2.0):
            run.save_best({"w": torch.full((3,), score)}, {"score": score, "segment": 7})
            best = RunFolder(path).load_best()
            assert best is not None
            assert best.numbers == {"score": score, "segment": 7}
            assert torch.equal(best.tensors["w"], torch.full((3,), score))


@pytest.mark.parametrize("name", ["state.safetensors", "state.json", "manifest.json"])
def test_a_damaged_best_state_is_an_error(name: str, path: Path) -> None:
    with RunFolder.open(path) as run:
        run.save_best({"w": torch.ones(3)}, {})
    file = path / "best" / name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedFile, match=name):
        RunFolder(path).load_best()


def test_opening_clears_away_what_was_left_half_done(path: Path) -> None:
    (path / ".config.json.1234.hotlap-part").write_text("half")
    (path / ".best.hotlap-new").mkdir()
    (path / "checkpoints").mkdir()
    (path / "checkpoints" / ".000001.hotlap-new").mkdir()
    RunFolder.open(path).close()
    assert sorted(str(p.relative_to(path)) for p in path.rglob("*")) == [
        "checkpoints",
        "config.json",
        "lock",
    ]


def test_a_run_that_cannot_begin_leaves_its_folder_free(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", {"seed": 1}) as run:
        run.withdraw()
    with RunFolder.create(tmp_path / "run", {"seed": 2}) as again:
        assert again.config == {"seed": 2}
    with pytest.raises(RuntimeError, match="open for reading only"):
        RunFolder(tmp_path / "run").withdraw()
