"""`hotlap race A B`: the same episodes for both, and an interval on what sets them apart."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch

from hotlap.config.racing import RaceConfig
from hotlap.research.contestants import contestant_of
from hotlap.research.experiment import prepare
from hotlap.research.head_to_head import race
from hotlap.research.models import open_model, save_model

from .test_commands import Captured, Shell, last_line, refused
from .tiny import ROAD, tiny_run

FAST, SLOW = "scripted:racing_line", "scripted:centre_line"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs on telemetry, on lidar, and on a pole."""
    folder = tmp_path_factory.mktemp("models")
    shell = Shell(folder)
    assert shell.train("tele") == 0 and shell.train("lidar", "donkey-lidar TINY") == 0
    assert shell.train("pole", "CartPole-v1") == 0
    return folder


def test_a_driver_against_itself_differs_by_nothing(models: Path) -> None:
    tele = str(models / "tele")
    for name in (SLOW, tele):
        answer = race(RaceConfig(name, name, track=("waveshare",), episodes=3, seconds=9.0))
        assert answer["winner"] == "even"
        for measure in ("pace", "episode_return"):
            assert (answer[measure]["mean"], answer[measure]["interval"]) == (0.0, [0.0, 0.0])


def test_the_slower_driver_loses_with_an_interval_off_zero(capsys: Captured) -> None:
    answer = race(RaceConfig(SLOW, FAST, track=("waveshare", "warehouse"), episodes=4, seconds=9.0))
    assert answer["winner"] == "b" and set(answer["tracks"]) == {"waveshare", "warehouse"}
    for duel in (answer, *answer["tracks"].values()):
        assert duel["winner"] == "b"
        assert duel["pace"]["interval"][1] < 0 < duel["lap_time"]["interval"][0]
    assert answer["pace"]["pairs"] == 8 and answer["pace_a"] < answer["pace_b"]
    assert "B wins: pace A - B -" in capsys.readouterr().out


def test_drivers_with_other_eyes_are_given_the_same_starts(models: Path) -> None:
    words = RaceConfig(
        str(models / "tele"), str(models / "lidar"), track=("waveshare",), episodes=2, seconds=2.0
    )
    answer = race(words)
    assert answer["a"]["count"] == answer["b"]["count"] == answer["pace"]["pairs"] == 2
    begun = []
    for name in ("tele", "lidar"):
        one = contestant_of(open_model(str(models / name)))
        env = one.enter(one.settings)[1](3, torch.arange(3), 5)
        env.reset()
        begun.append(env.world["car"]["x"])
    assert begun[0].equal(begun[1])


def backward(folder: Path, end: Literal["cte", "road"]) -> str:
    """Someone who always reverses, and for whom that, or only max_cte, ended an episode."""
    run = tiny_run(settings=replace(ROAD, throttle_min=-1.0, end=end))
    made = prepare(run, print)
    with torch.no_grad():
        made.learner.policy.action_net.weight.zero_()
        made.learner.policy.action_net.bias.copy_(torch.tensor([0.0, -1.0]))
    save_model(folder, run, made.learner, made.env.observation_space, None)
    return str(folder)


def test_what_ended_episodes_in_training_ends_none_in_a_race(tmp_path: Path) -> None:
    a, b = backward(tmp_path / "a", "road"), backward(tmp_path / "b", "cte")
    plot = tmp_path / "laps.png"
    answer = race(RaceConfig(a, b, track=("waveshare",), episodes=2, seconds=2.0, plot=plot))
    assert answer["winner"] == "even" and answer["episode_return"]["interval"] == [0.0, 0.0]
    assert answer["plots"] == [] and not plot.exists()  # nobody drove a lap


def test_best_laps_are_laid_side_by_side_track_by_track(tmp_path: Path) -> None:
    plot, tracks = tmp_path / "new" / "laps.png", ("waveshare", "circuit:3")
    answer = race(RaceConfig(FAST, FAST, track=tracks, episodes=2, seconds=8.0, plot=plot))
    assert [Path(path).name for path in answer["plots"]] == [
        "laps-waveshare.png",
        "laps-circuit-3.png",
    ]
    assert all(Path(path).read_bytes()[1:4] == b"PNG" for path in answer["plots"])


def test_a_race_ends_with_a_line_of_json(models: Path, shell: Shell, capsys: Captured) -> None:
    zipped = f"{models}/tele/model/model.zip --trust --task donkey-telemetry"
    film = shell.folder / "race.mp4"
    words = f"--track waveshare --seconds 5 --episodes 2 --video {film} --json"
    assert shell(f"race {models}/tele {zipped} {words}") == 0
    answer = last_line(capsys.readouterr().out)
    assert answer["winner"] == "even" and answer["video"] == str(film)
    assert film.read_bytes()[4:8] == b"ftyp"
    assert answer["tracks"]["waveshare"]["episode_return"]["mean"] == 0.0  # the zip is the model


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("SCRIPTED", "B"),
        ("SCRIPTED FOLDER/none", "no model at"),
        ("SCRIPTED scripted:pure_pursit", "did you mean 'pure_pursuit'?"),
        ("SCRIPTED SCRIPTED --track waren", "unknown track 'waren'; did you mean 'warren'?"),
        ("SCRIPTED SCRIPTED --track nowhere", "available: generated_road, generated_track"),
        ("SCRIPTED SCRIPTED --episodes 1", "episodes must be at least 2, got 1"),
        ("SCRIPTED SCRIPTED --seconds 0", "seconds must be positive, got 0.0"),
        ("SCRIPTED SCRIPTED --video a.gif", "video must end in .mp4"),
        ("SCRIPTED SCRIPTED --plot a.pdf", "plot must end in .png"),
        ("SCRIPTED SCRIPTED --reward speedy", "unknown reward 'speedy'"),
        ("SCRIPTED MODELS/pole", "pole was not trained on a road"),
        ("SCRIPTED MODELS/tele/model/model.zip", "is a pickle, which can run any code"),
        (
            "SCRIPTED MODELS/tele/model/model.zip --trust --task donkey-lidar",
            "was trained on observations of shape (32,), this environment gives",
        ),
        ("SCRIPTED MODELS/tele/model/model.zip --trust --task tag", "unknown task on a road 'tag'"),
        ("SCRIPTED MODELS/pole/model/model.zip --trust", "observations of shape (4,)"),
    ],
)
def test_what_cannot_be_raced_is_refused(
    words: str, answer: str, models: Path, shell: Shell, capsys: Captured
) -> None:
    words = words.replace("SCRIPTED", SLOW).replace("MODELS", str(models))
    assert shell(f"race {words}") == 2
    refused(capsys.readouterr(), answer)
