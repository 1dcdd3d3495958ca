import shutil
from pathlib import Path

import pytest
import torch

from hotlap.store.plain import DamagedFile
from hotlap.store.run_folder import Checkpoint, RunFolder

STATE_FILES = ["state.safetensors", "state.json", "manifest.json"]


def save(
    run: RunFolder, segment: int, *, replay: bool = True, keep: int = 3, first: int = 0
) -> None:
    rows = {"reward": torch.full((2,), float(segment))} if replay else None
    tensors = {"w": torch.full((3, 2), segment / 7)}
    run.save_checkpoint(segment, tensors, {"segment": segment, "x": segment / 3}, rows, keep, first)


def load(path: Path) -> Checkpoint:
    checkpoint = RunFolder(path).load_checkpoint()
    assert checkpoint is not None
    assert torch.equal(checkpoint.tensors["w"], torch.full((3, 2), checkpoint.segment / 7))
    assert checkpoint.numbers == {"segment": checkpoint.segment, "x": checkpoint.segment / 3}
    return checkpoint


def pieces(checkpoint: Checkpoint) -> list[float]:
    return [rows["reward"].tolist()[0] for rows in checkpoint.replay_pieces]


def kept(path: Path, folder: str) -> list[int]:
    return sorted(int(entry.stem) for entry in (path / folder).iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    RunFolder.create(tmp_path / "run", {}).close()
    return tmp_path / "run"


@pytest.fixture
def saved(path: Path) -> Path:
    with RunFolder.open(path) as run:
        for segment in range(5):
            save(run, segment, first=max(0, segment - 2))
    return path


def test_no_checkpoint_is_none(path: Path) -> None:
    assert RunFolder(path).load_checkpoint() is None


def test_the_newest_comes_back_exactly(saved: Path) -> None:
    checkpoint = load(saved)
    assert (checkpoint.segment, checkpoint.replay_first, checkpoint.damaged) == (4, 2, [])
    assert pieces(checkpoint) == [2, 3, 4]


def test_only_the_newest_and_what_they_need_is_kept(saved: Path) -> None:
    assert kept(saved, "checkpoints") == [2, 3, 4]
    assert kept(saved, "replay") == [0, 1, 2, 3, 4]  # 2 still needs 0
    with RunFolder.open(saved) as run:
        run.load_checkpoint()
        save(run, 5, keep=1, first=4)
    assert kept(saved, "checkpoints") == [5]
    assert kept(saved, "replay") == [4, 5]


def test_a_run_that_goes_on_keeps_its_replay_buffer(saved: Path) -> None:
    with RunFolder.open(saved) as run:
        save(run, 5, first=3)  # without having loaded
    assert pieces(load(saved)) == [3, 4, 5]


def test_a_learner_without_replay_writes_none(path: Path) -> None:
    with RunFolder.open(path) as run:
        save(run, 0, replay=False)
    assert pieces(load(path)) == []
    assert not (path / "replay").exists()


@pytest.mark.parametrize("name", STATE_FILES)
def test_damage_anywhere_in_the_newest_falls_back(name: str, saved: Path) -> None:
    file = saved / "checkpoints" / "000004" / name
    data = file.read_bytes()
    for index in range(len(data)):
        file.write_bytes(data[:index] + bytes([data[index] ^ 255]) + data[index + 1 :])
        checkpoint = load(saved)
        assert checkpoint.segment == 3
        assert name in checkpoint.damaged[0]
    file.unlink()
    checkpoint = load(saved)
    assert (checkpoint.segment, pieces(checkpoint)) == (3, [1, 2, 3])


@pytest.mark.parametrize(("piece", "left"), [(4, 3), (3, 2)])
@pytest.mark.parametrize("lost", [True, False])
def test_a_checkpoint_needs_all_its_pieces(piece: int, left: int, lost: bool, saved: Path) -> None:
    file = saved / "replay" / f"{piece:06d}.safetensors"
    data = file.read_bytes()
    file.unlink()
    if not lost:
        file.write_bytes(data[:-1] + b"!")
    checkpoint = load(saved)
    assert checkpoint.segment == left
    assert [file.name in message for message in checkpoint.damaged] == [True] * (4 - left)


def test_after_falling_back_the_work_is_done_again(saved: Path) -> None:
    (saved / "replay" / "000003.safetensors").write_bytes(b"")  # spoils 3 and 4
    with RunFolder.open(saved) as run:
        checkpoint = run.load_checkpoint()
        assert checkpoint is not None and checkpoint.segment == 2
        save(run, 3, keep=1, first=1)
    assert kept(saved, "checkpoints") == [3]  # 4 belonged to a future that was given up
    assert pieces(load(saved)) == [1, 2, 3]


def test_when_nothing_is_whole_the_error_names_everything(saved: Path) -> None:
    for folder in (saved / "checkpoints").iterdir():
        (folder / "state.json").unlink()
    with pytest.raises(DamagedFile, match=r"(?s)none of .*000004: .*000003: .*000002: "):
        RunFolder(saved).load_checkpoint()


def test_pieces_without_a_checkpoint_go_when_the_run_is_opened(saved: Path) -> None:
    shutil.copy(saved / "replay/000004.safetensors", saved / "replay/000005.safetensors")
    RunFolder.open(saved).close()
    assert kept(saved, "replay") == [0, 1, 2, 3, 4]
    assert pieces(load(saved)) == [2, 3, 4]


def test_a_piece_lost_after_loading_is_an_error(saved: Path) -> None:
    rows = load(saved).replay_pieces
    next(rows)
    (saved / "replay/000003.safetensors").unlink()
    with pytest.raises(DamagedFile, match="000003"):
        next(rows)


@pytest.mark.parametrize(("segment", "keep"), [(4, 3), (0, 3), (-1, 3), (5, 0)])
def test_checkpoints_go_up_and_at_least_one_is_kept(segment: int, keep: int, saved: Path) -> None:
    with RunFolder.open(saved) as run, pytest.raises(ValueError, match="go up from segment 4"):
        save(run, segment, keep=keep)
    assert load(saved).segment == 4


def test_numbers_that_cannot_be_written_leave_the_old_checkpoint(saved: Path) -> None:
    with RunFolder.open(saved) as run, pytest.raises(ValueError, match="finite"):
        run.save_checkpoint(5, {}, {"loss": float("inf")}, {"reward": torch.ones(1)})
    assert load(saved).segment == 4
