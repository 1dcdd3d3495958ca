"""`hotlap evaluate`, `hotlap watch` and `hotlap race` of CarRacing models."""

import json
from pathlib import Path
from typing import Any, get_args

import imageio_ffmpeg
import pytest
import torch

from hotlap.cli import main
from hotlap.config.carracing import Look

torch.set_num_threads(1)
Captured = pytest.CaptureFixture[str]
PPO = "--envs 2 --ppo.steps 8 --ppo.batch-size 16 --ppo.net 8 --ppo.epochs 1 --ppo.stack 2"
PRESET = """
tracks = ["carracing:3"]
repeat = 4
brake = 0.8
reward = "thorough"
start = "random"
max_frames = 24
"""
ROAD = "max_steps = 10"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A CarRacing run whose episodes last half a second, and a donkey's; tests read them."""
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for task, preset in (("carracing", PRESET), ("donkey-telemetry", ROAD)):
        made[task] = folder / task
        path = folder / f"{task}.toml"
        path.write_text(preset)
        words = f"train {task} --preset {path} {PPO} --timesteps 32 --eval-episodes 1"
        assert main([*words.split(), "--save-dir", str(made[task])]) == 0
    return made


def answer(words: str, capsys: Captured) -> dict[str, Any]:
    """The JSON that a command ends with."""
    assert main([*words.split(), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(told, dict)
    return told


def refusal(words: str, capsys: Captured) -> str:
    assert main(words.split()) == 2
    return " ".join(capsys.readouterr().err.split())  # tyro breaks lines


# --- judging -------------------------------------------------------------------------------------


def test_episodes_in_the_twin_are_driven_on_the_tracks_of_their_seeds(
    models: dict[str, Path], capsys: Captured
) -> None:
    told = answer(f"evaluate {models['carracing']} --episodes 2 --seed 10000", capsys)
    assert (told["backend"], told["look"]) == ("twin", "plain")
    assert "environment" not in told
    assert list(told["tracks"]) == ["carracing:10000", "carracing:10001"]
    low, high = told["interval"]
    assert low <= told["mean_return"] <= high
    # Gymnasium's own reward from the line, whatever it was trained with: 24 frames cost 2.4, and
    # the first two tiles of about 300 are under the car.
    assert [row["length"] for row in told["episodes"]] == [6, 6]
    assert all(row["episode_return"] > 2 * 1000 / 400 - 2.4 for row in told["episodes"])
    # An episode is a lap that was begun, and this one was not finished.
    assert (told["lap_rate"], told["laps_finished"]) == (0.0, 0.0)
    assert 0 < told["tiles"] < 0.1 and all(0 < row["tiles"] < 0.1 for row in told["episodes"])


@pytest.mark.slow
def test_episodes_in_the_real_one_are_nearly_those_of_the_twin(
    models: dict[str, Path], capsys: Captured
) -> None:
    pytest.importorskip("Box2D")
    words = f"evaluate {models['carracing']} --episodes 2 --seed 10000"
    twin = answer(words, capsys)
    real = answer(f"{words} --backend gymnasium", capsys)
    assert real["backend"] == "gymnasium"
    assert real["environment"].startswith("CarRacing-v3 of Gymnasium")
    assert list(real["tracks"]) == list(twin["tracks"])
    assert {"mean_return", "interval", "iqm_interval", "tracks", "backend"} <= real.keys()
    assert real["mean_return"] == pytest.approx(twin["mean_return"], abs=1e-3)
    assert real["tiles"] == pytest.approx(twin["tiles"]) and real["laps_finished"] == 0.0


def test_the_twin_is_judged_in_other_looks(models: dict[str, Path], capsys: Captured) -> None:
    words = f"evaluate {models['carracing']} --episodes 1 --seed 10000"
    told = answer(f"{words} --look varied", capsys)
    assert (told["backend"], told["look"]) == ("twin", "varied")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--backend gymnasium --look varied", "the look varied is for the twin; in gymnasium, name "
         "one of plain, recoloured, noise, bars"),
        ("--backend envpool --track carracing:3", "EnvPool makes its own tracks"),
        ("--track carracing:x", "unknown track 'carracing:x'"),
        ("--plot a.png", "--plot is for donkey tasks; leave it out"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused(
    words: str, told: str, models: dict[str, Path], capsys: Captured
) -> None:
    assert told in refusal(f"evaluate {models['carracing']} {words}", capsys)


def test_an_unknown_look_is_refused_with_the_names(
    models: dict[str, Path], capsys: Captured
) -> None:
    told = refusal(f"evaluate {models['carracing']} --look sepia", capsys)
    assert "sepia" in told and all(look in told for look in get_args(Look))


def test_tracks_that_were_trained_on_are_told(models: dict[str, Path], capsys: Captured) -> None:
    words = f"evaluate {models['carracing']} --episodes 2 --seed"
    assert answer(f"{words} 3", capsys)["trained_on"] == 1
    assert "trained_on" not in answer(f"{words} 4", capsys)


def test_a_zip_is_judged_with_the_pictures_and_actions_that_it_has(
    models: dict[str, Path], tmp_path: Path, capsys: Captured
) -> None:
    preset = tmp_path / "same.toml"
    preset.write_text(PRESET.replace("thorough", "default"))
    bundle = models["carracing"]
    zipped = f"{bundle}/model/model.zip --trust --task carracing"
    words = "--episodes 2 --seed 10000"
    own, theirs = (
        answer(f"evaluate {who} {words}", capsys) for who in (bundle, f"{zipped} --preset {preset}")
    )
    assert theirs["mean_return"] == own["mean_return"] and "trained_on" not in theirs
    (tmp_path / "full.toml").write_text('view = "full"')
    for more, told in (
        (f"--preset {tmp_path}/full.toml", "use the task, camera and stack"),
        ("--algorithm dqn", "was made by ppo; leave --algorithm out"),
    ):
        assert told in refusal(f"evaluate {zipped} {more}", capsys)
    words = f"evaluate {bundle} --preset {preset}"
    assert "--preset is for a zip with its --task" in refusal(words, capsys)
    assert "leave --preset out" in refusal(f"{words} --task carracing", capsys)
    told = refusal(f"watch {bundle} --task donkey-lidar", capsys)
    assert "was trained on carracing" in told
    assert "was made by ppo" in refusal(f"evaluate {bundle} --algorithm dqn", capsys)


@pytest.mark.parametrize("verb", ["evaluate", "watch"])
@pytest.mark.parametrize("words", ["--backend gymnasium", "--look noise"])
def test_only_carracing_has_backends_and_looks(
    verb: str, words: str, models: dict[str, Path], capsys: Captured
) -> None:
    told = refusal(f"{verb} {models['donkey-telemetry']} {words}", capsys)
    assert "does not drive CarRacing; leave --backend and --look out" in told


# --- watching ------------------------------------------------------------------------------------


def test_a_model_is_watched_on_a_track_that_is_kept_out_of_training(
    models: dict[str, Path], capsys: Captured
) -> None:
    told = answer(f"watch {models['carracing']} --seed 2 --seconds 0.16", capsys)
    assert (told["track"], told["backend"]) == ("carracing:10002", "twin")
    assert (told["end"], told["seconds"], told["video"]) == ("out of time", 0.16, None)
    told = answer(f"watch {models['carracing']} --seed 10002 --seconds 0.16", capsys)
    assert told["track"] == "carracing:10002"  # as an evaluation takes it


@pytest.mark.slow
def test_the_film_of_an_evaluation_is_its_first_episode(
    models: dict[str, Path], tmp_path: Path, capsys: Captured
) -> None:
    film = tmp_path / "a.mp4"
    words = f"{models['carracing']} --seed 10000 --look recoloured"
    told = answer(f"evaluate {words} --episodes 1 --video {film}", capsys)
    assert told["video"] == str(film)
    assert imageio_ffmpeg.count_frames_and_secs(str(film))[0] == 1 + 24 + 50
    seen = answer(f"watch {words} --track carracing:10000", capsys)
    assert seen["return"] == pytest.approx(told["mean_return"], abs=1e-3)


@pytest.mark.slow
def test_the_real_one_is_filmed(models: dict[str, Path], tmp_path: Path, capsys: Captured) -> None:
    pytest.importorskip("Box2D")
    film = tmp_path / "a.mp4"
    words = f"watch {models['carracing']} --track carracing:10003 --backend gymnasium"
    told = answer(f"{words} --look noise --video {film}", capsys)
    assert told["environment"].startswith("CarRacing-v3 of Gymnasium")
    assert imageio_ffmpeg.count_frames_and_secs(str(film))[0] == 1 + 24 + 50


def test_one_track_is_watched_at_a_time(models: dict[str, Path], capsys: Captured) -> None:
    told = refusal(f"watch {models['carracing']} --track carracing:3-5", capsys)
    assert "carracing:3-5 stands for many tracks; name the one to watch" in told


# --- racing --------------------------------------------------------------------------------------


def test_a_model_raced_against_itself_is_even_and_filmed_twice(
    models: dict[str, Path], tmp_path: Path, capsys: Captured
) -> None:
    car, film = models["carracing"], tmp_path / "race.mp4"
    told = answer(f"race {car} {car} --episodes 2 --look bars --video {film}", capsys)
    assert told["winner"] == "even" and told["lap_time"] is None
    assert told["episode_return"] == {"mean": 0.0, "interval": [0.0, 0.0], "pairs": 2}
    assert (told["backend"], told["look"], told["seed"]) == ("twin", "bars", 20_000)
    assert told["a"] == told["b"] and told["a"]["count"] == 2
    assert imageio_ffmpeg.count_frames_and_secs(str(film))[0] == 1 + 24 + 50


def test_a_race_scores_what_an_evaluation_does(models: dict[str, Path], capsys: Captured) -> None:
    words = "--episodes 2 --seed 10000"
    raced = answer(f"race {models['carracing']} {models['carracing']} {words}", capsys)
    judged = answer(f"evaluate {models['carracing']} {words}", capsys)
    assert raced["a"]["mean_return"] == judged["mean_return"]
    assert "trained_on" not in raced


def test_a_race_on_a_track_that_was_trained_on_says_so(
    models: dict[str, Path], capsys: Captured
) -> None:
    words = "--track carracing:3 carracing:4 --episodes 2"
    told = answer(f"race {models['carracing']} {models['carracing']} {words}", capsys)
    assert told["trained_on"] == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("CAR scripted:racing_line", "nobody is scripted for CarRacing; race two models"),
        ("CAR DONKEY", "does not drive in CarRacing, and the other one does"),
        ("CAR CAR --start line", "--start is for races on roads"),
        ("CAR CAR --plot a.png", "--plot is for races on roads"),
        ("CAR CAR --reward v1", "--reward is for races on roads"),
        ("DONKEY DONKEY --look bars", "--backend and --look are for models of CarRacing"),
        ("CAR CAR --track carracing:nowhere", "nowhere"),
    ],
)
def test_what_carracing_has_no_race_for_is_refused(
    words: str, why: str, models: dict[str, Path], capsys: Captured
) -> None:
    named = {"CAR": models["carracing"], "DONKEY": models["donkey-telemetry"]}
    given = " ".join(str(named.get(word, word)) for word in words.split())
    assert why in refusal(f"race {given}", capsys)
