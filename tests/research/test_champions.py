"""The champion on disk: what its manifest says, and where it lies."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hotlap.config.study import StopConfig, StudyConfig
from hotlap.research.book import Finish, MemoryBook
from hotlap.research.champions import find_study, read_champion, save_champion
from hotlap.research.space import make_space
from hotlap.research.study import Study

SPACE = make_space({"x": {"choices": ["a", "b"]}})


def make_study(folder: Path, scores: list[float], champion: str = "naive") -> Study:
    """A study with these scores, each run with a model that tells its number."""
    config: Any = StudyConfig(
        trials=len(scores), champion=champion, sampler="random", test_runs=0,
        stop=StopConfig(converge=False),
    )  # fmt: skip
    study = Study(SPACE, config, MemoryBook())
    for score in scores:
        plan = study.next()
        assert plan is not None
        model = folder / "trials" / str(plan.trial) / "model"
        model.mkdir(parents=True)
        (model / "weights").write_text(str(plan.trial))
        study.finish(plan, Finish("ok", score, model=f"trials/{plan.trial}/model"))
        save_champion(study, folder)
    return study


def test_a_manifest_says_which_trial_when_what_and_how_good(tmp_path: Path) -> None:
    study = make_study(tmp_path, [50.0, 80.0, 60.0])
    manifest = read_champion(tmp_path)
    assert manifest is not None
    record = study.book.records("trial")[1]
    assert manifest | {
        "trial": 2,
        "timestamp": record["timestamp"],
        "params": record["params"],
        "seed": record["seed"],
        "mean_reward": 80.0,
        "model_path": "trials/2/model",
        "claimed": 80.0,
    } == manifest  # fmt: skip
    assert (tmp_path / "champion" / "model" / "weights").read_text() == "2"
    assert json.loads((tmp_path / "champion" / "manifest.json").read_text()) == manifest


def test_a_new_champion_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    study = make_study(tmp_path, [50.0, 80.0])
    assert save_champion(study, tmp_path) is False  # nothing has changed
    (tmp_path / "champion" / "stray").touch()
    other = make_study(tmp_path / "other", [90.0])
    assert save_champion(other, tmp_path) is True
    assert sorted(path.name for path in (tmp_path / "champion").iterdir()) == [
        "manifest.json",
        "model",
    ]
    manifest = read_champion(tmp_path)
    assert manifest is not None
    assert manifest["mean_reward"] == 90.0


def test_a_copy_that_fails_leaves_the_old_champion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study(tmp_path, [50.0])
    other = make_study(tmp_path / "other", [90.0])

    def full(*paths: Any, **words: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        save_champion(other, tmp_path)
    manifest = read_champion(tmp_path)
    assert manifest is not None
    assert manifest["mean_reward"] == 50.0
    assert (tmp_path / "champion" / "model" / "weights").read_text() == "1"


def test_without_a_title_there_is_none(tmp_path: Path) -> None:
    study = make_study(tmp_path, [50.0, 80.0], champion="race")
    assert study.champion is None
    assert read_champion(tmp_path) is None
    assert not (tmp_path / "champion").exists()


def test_a_study_is_found_by_name_by_path_or_as_the_newest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no study under .* yet; begin one with: hotlap research"):
        find_study(None, tmp_path)
    for age, name in enumerate(["new", "old"]):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.jsonl").touch()
        os.utime(tmp_path / name / "ledger.jsonl", (1e9 - age, 1e9 - age))
    assert find_study("old", tmp_path) == tmp_path / "old"
    assert find_study(str(tmp_path / "old"), Path("elsewhere")) == tmp_path / "old"
    assert find_study(None, tmp_path) == tmp_path / "new"
    with pytest.raises(ValueError, match=r"no study at odl or .*: expected a ledger\.jsonl there"):
        find_study("odl", tmp_path)
