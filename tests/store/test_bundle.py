import shutil
from pathlib import Path

import pytest
import torch

from hotlap.store.bundle import Bundle, is_bundle, load_bundle, save_bundle
from hotlap.store.manifest import DamagedFile, seal

FULL = Bundle(
    weights={"net.weight": torch.arange(6.0).reshape(2, 3).T / 7, "net.bias": torch.zeros(0)},
    config={"task": "donkey", "learner": {"rate": 3e-4, "steps": 128}},
    normaliser={"mean": [0.1 + 0.2], "count": 2**40},
    model_zip=b"PK not really a zip",
    evaluation={"lap_time": 12.5, "finished": None},
)
FILES = ["weights.safetensors", "config.json", "normaliser.json", "evaluation.json", "model.zip"]
FILES += ["manifest.json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_bundle(tmp_path / "model", FULL)
    return tmp_path / "model"


def same(one: Bundle, other: Bundle) -> bool:
    plain = ("config", "normaliser", "model_zip", "evaluation")
    return (
        one.weights.keys() == other.weights.keys()
        and all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)
        and all(getattr(one, name) == getattr(other, name) for name in plain)
    )


def test_a_bundle_comes_back_exactly(folder: Path) -> None:
    assert same(load_bundle(folder, with_zip=True), FULL)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)


def test_the_zip_is_read_only_when_asked_for(folder: Path) -> None:
    assert load_bundle(folder).model_zip is None


def test_what_a_bundle_does_not_have_is_none(folder: Path) -> None:
    least = Bundle(weights={}, config={})
    save_bundle(folder, least)
    assert same(load_bundle(folder, with_zip=True), least)
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("name", FILES)
def test_flipping_any_byte_of_any_file_is_found(name: str, folder: Path) -> None:
    path = folder / name
    data = path.read_bytes()
    for index in range(len(data)):
        path.write_bytes(data[:index] + bytes([data[index] ^ 255]) + data[index + 1 :])
        with pytest.raises(DamagedFile):
            load_bundle(folder)
    path.write_bytes(data)
    assert same(load_bundle(folder, with_zip=True), FULL)


@pytest.mark.parametrize("name", FILES)
def test_cutting_any_file_is_found(name: str, folder: Path) -> None:
    path = folder / name
    data = path.read_bytes()
    for length in {0, 1, len(data) // 2, len(data) - 1}:
        path.write_bytes(data[:length])
        with pytest.raises(DamagedFile, match=f"{name} is damaged"):
            load_bundle(folder)
    path.write_bytes(data + b" ")
    with pytest.raises(DamagedFile, match=f"{name} is damaged"):
        load_bundle(folder)


@pytest.mark.parametrize("name", FILES[:-1])
def test_a_missing_file_is_found(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(DamagedFile, match=f"{name} is damaged: .* found no such file"):
        load_bundle(folder)


def test_a_sealed_folder_without_weights_is_no_bundle(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    seal(folder, {"kind": "bundle"})
    with pytest.raises(DamagedFile, match="a file every bundle has"):
        load_bundle(folder)
    seal(folder, {"kind": "state"})
    with pytest.raises(DamagedFile, match="expected the facts"):
        load_bundle(folder)


def test_a_folder_without_a_bundle_says_what_is_missing(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        assert not is_bundle(path)
        with pytest.raises(FileNotFoundError, match=r"no model bundle in .*manifest.json"):
            load_bundle(path)
    assert is_bundle(folder)


def test_saving_never_removes_what_is_no_bundle(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds 'notes.txt'.*choose a new folder"):
        save_bundle(folder, FULL)
    assert (folder / "notes.txt").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="is a file"):
        save_bundle(tmp_path / "file", FULL)


def test_a_damaged_bundle_can_be_saved_again(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    save_bundle(folder, FULL)
    assert same(load_bundle(folder, with_zip=True), FULL)


def test_values_that_cannot_be_written_leave_the_old_bundle(folder: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        save_bundle(folder, Bundle(weights={}, config={"rate": float("nan")}))
    assert same(load_bundle(folder, with_zip=True), FULL)


def test_a_bundle_can_be_copied_elsewhere(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    assert same(load_bundle(tmp_path / "copy", with_zip=True), FULL)
