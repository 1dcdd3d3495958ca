"""Judging under other looks, friction and delay than a driver was trained with."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.config.augmentation import AugmentationConfig
from hotlap.config.judging import EvaluateConfig
from hotlap.config.learners import PPOConfig
from hotlap.config.strengths import find_randomisation
from hotlap.config.training import TrainConfig
from hotlap.research import commands
from hotlap.research.contestants import scripted
from hotlap.research.judged_looks import as_asked
from hotlap.research.worlds import known_tasks
from hotlap.sim.looks import make_looks

from .tiny import ROAD

DRIVER = "scripted:pure_pursuit"


def evaluate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, dict[str, Any]]:
    """What is said, and what is answered."""
    assert main(["evaluate", *words, "--json"]) == 0
    *said, answer = capsys.readouterr().out.strip().splitlines()
    return "\n".join(said), json.loads(answer)


def test_settings_stay_unless_something_is_asked() -> None:
    own = ROAD
    assert as_asked(own, EvaluateConfig("model")) == own
    asked = as_asked(own, EvaluateConfig("model", randomise="full"))
    assert replace(asked.randomise, paint=0) == find_randomisation("full")
    assert asked.tracks == own.tracks


@pytest.mark.parametrize("asked", [None, "full", "looks"])
def test_nobody_is_judged_in_looks_that_were_trained_in(asked: str | None) -> None:
    own = replace(ROAD, randomise=find_randomisation("full"))
    judged = as_asked(own, EvaluateConfig("model", randomise=asked)).randomise
    assert judged.paint != own.randomise.paint
    trained_in, judged_in = (
        make_looks(("road",), 3, r.paint, r.light, r.colour, r.texture).gray.view(3, -1)
        for r in (own.randomise, judged)
    )
    same = [bool((a == b).all()) for a in trained_in for b in judged_in]
    assert same == [True] + 8 * [False]  # the plain look alone


def test_a_driver_is_judged_under_other_conditions_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = replace(scripted(DRIVER), settings=replace(scripted(DRIVER).settings, max_steps=40))
    monkeypatch.setattr(commands, "scripted", lambda name: short)
    said, plain = evaluate(capsys, DRIVER, "--episodes", "2")
    assert "randomised: none, as its own settings say" in said and plain["randomised"] == "none"
    said, other = evaluate(capsys, DRIVER, "--episodes", "2", "--randomise", "full")
    assert "randomised: full, as asked; its own settings say none" in said
    assert other["randomised"] == "full" and other["mean_return"] != plain["mean_return"]


def test_a_report_on_many_tracks_is_randomised_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def stop(contestant: Any, config: Any) -> Any:
        seen.append(contestant.settings.randomise)
        raise ValueError("enough")

    monkeypatch.setattr(commands, "generalise", stop)
    with pytest.raises(ValueError, match="enough"):
        commands._report(scripted(DRIVER), EvaluateConfig(DRIVER, sets=1, randomise="light"))
    assert [replace(ranges, paint=0) for ranges in seen] == [find_randomisation("light")]


def test_a_model_is_judged_as_it_was_trained_unless_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = tmp_path / "tiny.toml"
    preset.write_text('sensor = "telemetry"\nmax_steps = 12\nstart = "random"\n')
    run = tmp_path / "run"
    small = "--envs 4 --ppo.steps 8 --ppo.batch-size 16 --ppo.net 8 --timesteps 32"
    words = f"train donkey-telemetry --preset {preset} --randomise light {small}"
    assert main([*words.split(), "--eval-episodes", "2", "--save-dir", str(run)]) == 0
    capsys.readouterr()
    said, own = evaluate(capsys, str(run), "--episodes", "2")
    assert "randomised: light, as its own settings say" in said and own["randomised"] == "light"
    said, none = evaluate(capsys, str(run), "--episodes", "2", "--randomise", "none")
    assert "its own settings say light" in said and none["randomised"] == "none"


@pytest.mark.parametrize("words", ["--ppo.augment.shift 2", "--agent dqn --dqn.augment.flip 0.5"])
def test_numbers_that_are_to_be_changed_are_wrong_words(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"train donkey-telemetry --timesteps 64 --root {tmp_path} {words}"
    assert main(given.split()) == 2
    assert "only pictures can be shifted" in capsys.readouterr().err


def test_no_picture_is_changed_unless_asked_and_ppo_changes_those_of_our_own_tasks_only() -> None:
    config = TrainConfig()
    assert not config.ppo.augment.active and not config.sac.augmentation.active
    asked = TrainConfig(task="CarRacing-v3", ppo=PPOConfig(augment=AugmentationConfig(shift=2)))
    with pytest.raises(ValueError, match=r"ppo\.augment is for hotlap's own tasks only"):
        asked.settle("cpu", False, known_tasks())
