"""`hotlap evaluate`, `hotlap watch` and `hotlap race` of CarRacing models."""

import json
from pathlib import Path
from typing import Any, get_args

import imageio_ffmpeg
import pytest
import torch

from hotlap.cli import main
from hotlap.config.carracing import Look
from hotlap.research.experiment import prepare
from hotlap.research.models import open_model, save_model

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


@pytest.fixture(scope="module")
def rival(models: dict[str, Path]) -> Path:
    """The same, with its foot on the gas."""
    folder, run = models["carracing"].parent / "rival", open_model(str(models["carracing"])).run
    assert run is not None
    made = prepare(run, print)
    with torch.no_grad():
        made.learner.policy.action_net.bias.copy_(torch.tensor([0.0, 1.0]))
    save_model(folder, run, made.learner, made.env.observation_space, None)
    return folder


def test_a_model_raced_against_itself_is_even_and_filmed_twice(
    models: dict[str, Path], tmp_path: Path, capsys: Captured
) -> None:
    car, film = models["carracing"], tmp_path / "new" / "race.mp4"
    told = answer(f"race {car} {car} --episodes 2 --look bars --video {film}", capsys)
    assert told["winner"] == "even" and told["lap_time"] is None
    assert told["episode_return"] == {"mean": 0.0, "interval": [0.0, 0.0], "pairs": 2}
    assert (told["backend"], told["look"], told["seed"]) == ("twin", "bars", 20_000)
    assert told["a"] == told["b"] and told["a"]["count"] == 2
    assert imageio_ffmpeg.count_frames_and_secs(str(film))[0] == 1 + 24 + 50


def test_a_race_scores_either_as_an_evaluation_does(
    models: dict[str, Path], rival: Path, capsys: Captured
) -> None:
    words = "--track carracing:3 carracing:10000 --episodes 2"
    raced = answer(f"race {models['carracing']} {rival} {words}", capsys)
    means = [answer(f"evaluate {model} {words}", capsys)["mean_return"]
             for model in (models["carracing"], rival)]  # fmt: skip
    assert [raced[side]["mean_return"] for side in "ab"] == means and means[0] != means[1]
    assert raced["episode_return"]["mean"] == pytest.approx(means[0] - means[1])
    assert raced["tracks"] == ["carracing:3", "carracing:10000"]
    assert raced["trained_on"] == {"a": 1, "b": 1}
    assert "environment" not in raced


def test_a_zip_races_as_the_model_that_it_is_of(models: dict[str, Path], capsys: Captured) -> None:
    car = models["carracing"]
    preset = f"--trust --task carracing --preset {car.parent}/carracing.toml"
    told = answer(f"race {car} {car}/model/model.zip {preset} --episodes 2", capsys)
    assert told["winner"] == "even" and told["a"] == told["b"]
    assert told["trained_on"] == {"a": 0, "b": None}


@pytest.mark.slow
def test_a_race_in_the_real_one_is_scored_and_filmed_there(
    models: dict[str, Path], rival: Path, tmp_path: Path, capsys: Captured
) -> None:
    pytest.importorskip("Box2D")
    film = tmp_path / "race.mp4"
    words = f"--episodes 2 --backend gymnasium --video {film}"
    told = answer(f"race {models['carracing']} {rival} {words}", capsys)
    assert told["backend"] == "gymnasium" and "gymnasium" in told["environment"].lower()
    assert told["a"] != told["b"]
    assert imageio_ffmpeg.count_frames_and_secs(str(film))[0] == 1 + 24 + 50


def test_models_that_were_given_other_times_are_not_raced(
    models: dict[str, Path], tmp_path: Path, capsys: Captured
) -> None:
    preset, longer = tmp_path / "longer.toml", tmp_path / "longer"
    preset.write_text(PRESET.replace("max_frames = 24", "max_frames = 40"))
    words = f"train carracing --preset {preset} {PPO} --timesteps 32 --eval-episodes 1"
    assert main([*words.split(), "--save-dir", str(longer)]) == 0
    why = "last 24 frames and those of"
    assert why in refusal(f"race {models['carracing']} {longer} --episodes 2", capsys)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("CAR scripted:racing_line", "nobody is scripted for CarRacing; race two models"),
        ("CAR DONKEY", "does not drive in CarRacing, and the other one does"),
        ("CAR ZIP --trust", "if it is a zip of CarRacing, say --task carracing"),
        ("ZIP ZIP --trust --look bars", "or for zips of it say --task carracing"),
        ("CAR CAR --start line", "--start is for races on roads"),
        ("CAR CAR --plot a.png", "--plot is for races on roads"),
        ("CAR CAR --reward v1", "--reward is for races on roads"),
        ("CAR CAR --track carracing:0-9 --episodes 3", "write --episodes 10"),
        ("CAR CAR --preset carracing/classic", "--preset is for zips"),
        ("DONKEY DONKEY --look bars", "--backend and --look are for models of CarRacing"),
        ("CAR CAR --track carracing:nowhere", "nowhere"),
    ],
)
def test_what_carracing_has_no_race_for_is_refused(
    words: str, why: str, models: dict[str, Path], capsys: Captured
) -> None:
    car = models["carracing"]
    named = {"CAR": car, "DONKEY": models["donkey-telemetry"], "ZIP": f"{car}/model/model.zip"}
    given = " ".join(str(named.get(word, word)) for word in words.split())
    assert why in refusal(f"race {given}", capsys)
