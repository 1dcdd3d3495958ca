"""`hotlap train`, `evaluate` and `watch`: what they answer, and with which exit code."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.cli import main
from hotlap.research import commands
from hotlap.store.run_folder import RunFolder

torch.set_num_threads(1)
Captured = pytest.CaptureFixture[str]
PPO = "--envs 4 --ppo.steps 8 --ppo.batch-size 16 --ppo.net 8 --ppo.epochs 1"
REPLAY = {"envs": 4, "net": 8, "batch-size": 8, "warm-up": 16, "replay-size": 400}
PRESET = """
start = "random"
throttle_max = 0.25
max_steps = 12
camera = {width = 40, height = 36, colour = false}
"""


def replay(agent: str) -> str:
    """Flags for a small learner with a replay."""
    flags = " ".join(f"--{agent}.{name} {value}" for name, value in REPLAY.items())
    return f"--agent {agent} {flags}"


class Shell:
    """The command line in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tiny.toml").write_text(PRESET)
        (folder / "tag.toml").write_text("max_steps = 10")
        (folder / "apart.toml").write_text('tracks = ["warren", "hills:90007"]')

    def __call__(self, words: str) -> int:
        """The exit code; FOLDER and TINY stand for the folder and the preset in it."""
        words = words.replace("TINY", f"--preset {self.folder}/tiny.toml")
        given = words.replace("FOLDER", str(self.folder)).split()
        return main([*given, "--root", str(self.folder / "root")])

    def train(self, name: str, words: str = "donkey-telemetry TINY", agent: str = PPO) -> int:
        more = f"--timesteps 64 --eval-episodes 2 --save-dir FOLDER/{name} --json"
        return self(f"train {words} {agent} {more}")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ppo, trained once; tests read it."""
    folder = tmp_path_factory.mktemp("trained")
    assert Shell(folder).train("run") == 0
    return folder / "run"


@pytest.fixture(scope="module")
def off_road(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Runs on CartPole-v1 and on tag, trained once; tests read them."""
    folder = tmp_path_factory.mktemp("off_road")
    assert Shell(folder).train("pole", "CartPole-v1") == 0
    assert Shell(folder).train("tag", "tag --preset FOLDER/tag.toml") == 0
    return folder / "pole", folder / "tag"


def last_line(output: str) -> dict[str, Any]:
    answer = json.loads(output.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


def refused(output: Any, *words: str) -> None:
    """Standard error holds these words and nobody sees a traceback."""
    told = " ".join(output.err.split())  # tyro breaks lines
    for word in words:
        assert word in told
    assert "Traceback" not in output.err + output.out


# --- training ------------------------------------------------------------------------------------


def test_training_ends_with_a_line_of_json(shell: Shell, capsys: Captured) -> None:
    assert shell.train("run") == 0
    output = capsys.readouterr().out
    answer = last_line(output)
    assert answer["agent"] == "ppo" and answer["task"] == "donkey-telemetry"
    assert answer["timesteps"] == 64 and answer["seed"] == 0
    assert len(answer["rewards"]) == 2
    assert answer["mean_reward"] == pytest.approx(sum(answer["rewards"]) / 2)
    assert answer["lap_rate"] == 0.0 and answer["video"] is None
    assert answer["model"] == str(shell.folder / "run" / "model")
    assert "64 of 64 steps" in output
    assert "ppo on donkey-telemetry (generated_track), 64 steps, seed 0" in output
    names = {path.name for path in (shell.folder / "run").iterdir()}
    assert {"config.json", "model", "best", "checkpoints", "evaluations.jsonl"} <= names


@pytest.mark.parametrize("agent", ["dqn", "sac", "tqc"])
def test_learners_with_a_replay_say_how_much_memory_it_takes(
    agent: str, shell: Shell, capsys: Captured
) -> None:
    assert shell.train("run", agent=replay(agent)) == 0
    output = capsys.readouterr().out
    assert "replay: 400 steps, 0.00 GB on cpu" in output
    assert last_line(output)["agent"] == agent


@pytest.mark.parametrize("words", [f"CartPole-v1 --agent ppo {PPO}", f"CartPole-v1 {replay('dqn')}",
                                   f"Pendulum-v1 --ppo.policy beta {PPO}"])  # fmt: skip
def test_any_gymnasium_environment_is_trained_in(
    words: str, shell: Shell, capsys: Captured
) -> None:
    assert shell.train("run", words, "") == 0
    answer = last_line(capsys.readouterr().out)
    assert len(answer["rewards"]) == 2 and answer["lap_rate"] is None
    assert shell("evaluate FOLDER/run --episodes 3 --json") == 0
    judged = last_line(capsys.readouterr().out)
    assert judged["count"] == 3 and len(judged["episodes"]) == 3


def test_a_run_that_is_over_goes_on_to_the_same_end(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    shutil.copytree(trained, shell.folder / "copy")
    first = json.loads((trained / "model" / "evaluation.json").read_text())
    assert shell("train --resume FOLDER/copy --json") == 0
    output = capsys.readouterr().out
    assert "going on after segment 0, at 64 steps" in output
    assert last_line(output)["mean_reward"] == pytest.approx(first["mean_return"])


def test_a_run_begins_with_the_weights_of_another(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    assert shell.train("next", f"donkey-telemetry TINY --init-from {trained}") == 0
    config = json.loads((shell.folder / "next" / "config.json").read_text())
    assert config["init_from"] == str(trained)


def test_without_a_gpu_it_runs_on_the_cpu_and_says_so(
    shell: Shell, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert shell.train("run", "donkey-telemetry TINY --device cuda") == 0
    sentence = "cuda was asked for, but PyTorch sees no GPU here: running on the CPU"
    assert capsys.readouterr().out.startswith(sentence)
    assert shell("evaluate FOLDER/run --episodes 1 --device cuda:1") == 0
    assert "cuda:1 was asked for" in capsys.readouterr().out


def test_a_film_is_told_of_only_where_there_is_one(
    shell: Shell, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "watch", lambda config: config.video.write_bytes(b""))
    assert shell.train("road", "donkey-telemetry TINY --video") == 0
    film = last_line(capsys.readouterr().out)["video"]
    assert film == str(shell.folder / "road" / "drive.mp4")
    assert shell.train("tag", "tag --preset FOLDER/tag.toml --video") == 0
    output = capsys.readouterr().out
    assert "only road tasks can be filmed" in output
    assert last_line(output)["video"] is None


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--learning-rate 0", "learning_rate must lie between 0 and 1, got 0.0"),
        ("--learning-rate -0.001", "learning_rate must lie between 0 and 1, got -0.001"),
        ("--timesteps 0", "timesteps must be at least 1, got 0"),
        ("--envs 0", "envs must be at least 1, got 0"),
        ("--seed -1", "seed must be 0 or more, got -1"),
        ("--eval-episodes 0", "episodes must be at least 1, got 0"),
        ("--n-steer 0 --agent dqn", "n_steer must be at least 1, got 0"),
        ("--device gpu", "device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        ("--agent dqn --actions continuous", "dqn chooses among discrete actions; leave --actions"),
        ("--agent sac --actions discrete", "sac needs continuous actions; leave --actions out"),
        ("--agent pppo", "invalid choice 'pppo'"),
        ("--track generated_trak", "did you mean 'generated_track'?"),
        ("--preset donkey/lern", "did you mean 'donkey/learn'?"),
        ("--reward-shaping speedy", "unknown reward 'speedy'"),
        ("--trackers wanb", "unknown tracker 'wanb'; did you mean 'wandb'?"),
        ("--env donkey-telemetri", "did you mean 'donkey-telemetry'?"),
        ("--env Pendulum-v1 --agent dqn", "dqn chooses among discrete actions, this environment"),
        ("--env CartPole-v1 --agent sac", "needs continuous actions, this environment takes"),
        ("--env CartPole-v1 --agent tqc", "use --agent ppo or dqn"),
        ("--env CartPole-v1 --agent dqn --dqn.stack 2", "stack is for hotlap's own tasks, got 2"),
        ("--env CartPole-v1 --track warren", "--track is for hotlap's own tasks"),
        ("--env CartPole-v1 --ppo.normalise-rewards", "ppo.normalise_rewards is for hotlap's own"),
        ("--env CartPole-v1 --evaluation-track warren", "--evaluation-track is for hotlap's own"),
        ("--env CartPole-v1 --no-evaluation-randomised", "randomised is for hotlap's own tasks"),
        ("--env CartPole-v1 --ppo.teacher FOLDER/none", "ppo.teacher is for donkey tasks only"),
        ("--env CartPole-v1 --ppo.ramp 0 0.5", "ppo.ramp is for donkey tasks only"),
        ("--env CartPole-v1 --teacher-recipe any-track", "--teacher-recipe is for hotlap's own"),
        ("--env os:Pole-v1", "os:Pole-v1 imports a module, which can run any code; say --trust"),
        ("--env FrozenLake-v1", "learners see numbers or pictures"),
        ("--env tag --track warren", "--track is for donkey tasks only"),
        ("--env tag --evaluation-track warren", "--evaluation-track is for donkey tasks only"),
        ("--env tag --no-evaluation-randomised", "randomised is for donkey tasks only"),
        ("--env tag --ppo.teacher FOLDER/none", "ppo.teacher is for donkey tasks only"),
        ("--env tag --ppo.ramp 0 0.5", "ppo.ramp is for donkey tasks only"),
        ("--env tag --teacher-recipe any-track", "--teacher-recipe is for donkey tasks only"),
        ("--env tag --ppo.finish careful", "ppo.finish is for donkey tasks only"),
        ("--ppo.spread-anew", "for runs that begin with a model: --init-from"),
        ("--ppo.spread-anew --ppo.policy beta", "spread_anew is for gaussian and squashed"),
        (
            "--ppo.spread-anew --init-from FOLDER/none --actions discrete",
            "spread_anew is for continuous actions",
        ),
        ("--ppo.finish carefull", "did you mean 'careful'?"),
        ("--ppo.finish-between 0.5 0.2", "finish_between must rise within 0..1"),
        ("--ppo.ramp 0.5 0.2", "ramp must rise within 0..1"),
        ("--env CartPole-v1 donkey-lidar", "two tasks: donkey-lidar and --env CartPole-v1"),
        ("--resume FOLDER/none --seed 3", "keeps its own settings; leave --seed out"),
        ("--resume FOLDER/none", "expected config.json there; leave --resume out to begin one"),
        ("--track circuit:90000", "circuit:90000: generated tracks from number 90000 up are for"),
        ("--track warren unseen", "circuit:90000 and 99 more: generated tracks from number 90000"),
        ("--preset FOLDER/apart.toml", "hills:90007: generated tracks from number 90000 up are"),
        ("--track circuit:0-3000", "a range holds 1 to 3000 tracks, this one 3001"),
        ("--init-from FOLDER/none", "no model at"),
        ("--replay-size 1000", "ppo keeps no replay; leave --replay-size out"),
        ("--init-from zoo:nobody", "there is no zoo:nobody"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_what_to_write(
    words: str, answer: str, shell: Shell, capsys: Captured
) -> None:
    task = "" if "--env" in words or "--resume" in words else "donkey-telemetry"
    into = "" if "--resume" in words else "--save-dir FOLDER/run"
    assert shell(f"train {task} {words} {into}") == 2
    refused(capsys.readouterr(), answer)
    RunFolder.create(shell.folder / "run", {}).close()  # the name is still free


def test_a_run_on_tracks_kept_apart_does_not_go_on(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    shutil.copytree(trained, shell.folder / "copy")
    path = shell.folder / "copy" / "config.json"
    table = json.loads(path.read_text())
    table["settings"]["tracks"] = ["circuit:90000-90001"]
    path.write_text(json.dumps(table))
    assert shell("train --resume FOLDER/copy") == 2
    refused(capsys.readouterr(), "circuit:90000 and 1 more", "for judging only")


def test_a_run_on_a_range_keeps_the_words_and_is_judged_on_some_of_it(
    shell: Shell, capsys: Captured
) -> None:
    words = "donkey-telemetry TINY --track circuit:0-3 warren"
    assert shell.train("run", words) == 0
    config = json.loads((shell.folder / "run" / "config.json").read_text())
    assert config["settings"]["tracks"] == ["circuit:0-3", "warren"]
    best = json.loads((shell.folder / "run" / "model" / "evaluation.json").read_text())
    assert list(best["tracks"]) == ["circuit:0", "circuit:2"]  # two episodes, five tracks
    capsys.readouterr()
    assert shell("watch FOLDER/run --track unseen") == 2
    refused(capsys.readouterr(), "unseen stands for many tracks; name the one to watch")
    assert shell("evaluate FOLDER/run --episodes 3 --json") == 0
    answer = last_line(capsys.readouterr().out)
    assert [row["track"] for row in answer["episodes"]] == ["circuit:0", "circuit:1", "circuit:3"]
    assert shell("evaluate FOLDER/run --track circuit:2-4 --episodes 1 --json") == 0
    rows = last_line(capsys.readouterr().out)["tracks"]
    marks = {name: row["trained"] for name, row in rows.items()}
    assert marks == {"circuit:2": True, "circuit:3": True, "circuit:4": False}


@pytest.mark.parametrize("task", ["donky", "CartPole-v99"])
def test_an_unknown_task_is_answered_with_one_that_is_there(
    task: str, shell: Shell, capsys: Captured
) -> None:
    assert shell(f"train {task}") == 2
    meant = {"donky": "donkey'?", "CartPole-v99": "CartPole-v"}[task]
    refused(capsys.readouterr(), f"unknown task '{task}'; did you mean '{meant}")


def test_a_folder_that_holds_a_run_is_left_alone(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    before = (trained / "config.json").read_bytes()
    assert shell(f"train donkey-telemetry TINY --timesteps 64 --save-dir {trained}") == 2
    refused(capsys.readouterr(), f"{trained} already holds a run", "--resume", "--save-dir")
    assert (trained / "config.json").read_bytes() == before


def test_a_model_of_another_sensor_is_refused_naming_both_shapes(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    assert shell.train("run", f"donkey-lidar TINY --init-from {trained}") == 2
    output = capsys.readouterr()
    refused(output, "was trained on observations of shape (", "this environment gives (")
    assert last_line(output.out)["exit_code"] == 2


def test_a_model_that_cannot_teach_is_about_words(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    assert shell.train("run", f"donkey-telemetry TINY --ppo.teacher {trained}") == 2
    refused(capsys.readouterr(), f"{trained} sees pictures or several moments", "donkey-state")
    assert shell.train("run", "donkey-telemetry TINY --ppo.teacher FOLDER/none") == 2
    refused(capsys.readouterr(), "no model at")
    assert not (shell.folder / "run").exists()


def test_a_replay_that_cannot_fit_says_what_it_needs_and_what_there_is(
    shell: Shell, capsys: Captured
) -> None:
    words = f"donkey-telemetry TINY --agent sac --replay-size {10**12}"
    assert shell.train("run", words, "") == 2
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    refused(output, "1,000,000,000,000 steps of replay", "take about 82000.00 GB, but only")
    refused(output, "GB are usable on cpu")
    assert "at most" in output.err
    assert not (shell.folder / "run").exists()


@pytest.mark.parametrize("tracker", ["wandb", "trackio", "mlflow"])
def test_a_tracker_that_is_not_installed_is_named(
    tracker: str, shell: Shell, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, tracker, None)  # makes importing it fail
    assert shell.train("run", f"donkey-telemetry TINY --trackers {tracker}") == 2
    answer = f"tracker {tracker} is not installed; try: pip install 'hotlap[trackers]'"
    refused(capsys.readouterr(), answer)
    RunFolder.create(shell.folder / "run", {}).close()  # the name is still free


# --- judging -------------------------------------------------------------------------------------


def test_judging_ends_with_a_line_of_json(trained: Path, shell: Shell, capsys: Captured) -> None:
    assert shell(f"evaluate {trained} --episodes 3 --json") == 0
    answer = last_line(capsys.readouterr().out)
    assert answer["count"] == 3 and len(answer["episodes"]) == 3
    returns = [row["episode_return"] for row in answer["episodes"]]
    assert answer["mean_return"] == pytest.approx(sum(returns) / 3)
    assert all(row["length"] <= 12 for row in answer["episodes"])
    assert shell(f"evaluate {trained}/model --episodes 3 --json") == 0
    again = last_line(capsys.readouterr().out)
    assert again["episodes"] == answer["episodes"]
    assert shell(f"evaluate {trained} --episodes 3 --seed 7 --json") == 0
    other = last_line(capsys.readouterr().out)
    assert other["episodes"] != answer["episodes"]


def test_a_model_is_judged_on_what_it_was_trained_on_and_not_on_what_chose_it(
    shell: Shell, capsys: Captured
) -> None:
    words = "donkey-telemetry TINY --track circuit:0 warren --evaluation-track circuit:80000-80001"
    assert shell.train("run", words) == 0
    best = json.loads((shell.folder / "run" / "model" / "evaluation.json").read_text())
    assert list(best["tracks"]) == ["circuit:80000", "circuit:80001"]
    capsys.readouterr()
    assert shell("evaluate FOLDER/run --episodes 2 --json") == 0
    answer = last_line(capsys.readouterr().out)
    assert [row["track"] for row in answer["episodes"]] == ["circuit:0", "warren"]


def test_judging_on_other_tracks(trained: Path, shell: Shell, capsys: Captured) -> None:
    assert shell(f"evaluate {trained} --episodes 2 --track warren waveshare --json") == 0
    answer = last_line(capsys.readouterr().out)
    assert [row["track"] for row in answer["episodes"]] == ["warren", "waveshare"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("FOLDER/none", "none: expected a run's folder"),
        ("zoo:nobody", "there is no zoo:nobody; the zoo has"),
        ("RUN --episodes 0", "episodes must be at least 1, got 0"),
        ("RUN --track warrren", "unknown track 'warrren'; did you mean 'warren'?"),
        ("RUN --track circuit", "unknown track 'circuit'; did you mean 'circuit:0'?"),
        ("RUN --track unsen", "unknown track 'unsen'; did you mean 'unseen'?"),
        ("RUN --track none.csv", "none.csv: there is no such track file"),
        ("RUN --task donkey-lidar", "was trained on donkey-telemetry and sees telemetry, the"),
        ("RUN/model/model.zip --trust --task donkey --track unseen", "use the task, camera and"),
        ("RUN/model/model.zip", "is a pickle, which can run any code when opened"),
        ("RUN/model/model.zip --trust --task donkey-telemetry --video a.mp4", "leave --video out"),
        ("scripted:pure_pursuit --preset donkey/small", "--preset is for a zip with its --task"),
        ("RUN/model/model.zip --trust", "does not say what it was trained for; name it by --task"),
        ("RUN/model/model.zip --trust --task Pendulum-v1", "gives (3,); use the task"),
        ("RUN/model/model.zip --trust --task donky", "did you mean 'donkey'?"),
        ("FOLDER/broken.zip --trust", "is not a whole Stable-Baselines3 model"),
        ("RUN --plot a.gif", "plot must end in .png"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    words: str, answer: str, trained: Path, shell: Shell, capsys: Captured
) -> None:
    (shell.folder / "broken.zip").write_bytes(b"PK")
    assert shell(f"evaluate {words.replace('RUN', str(trained))}") == 2
    refused(capsys.readouterr(), answer)


def test_a_damaged_model_is_refused_by_name(trained: Path, shell: Shell, capsys: Captured) -> None:
    shutil.copytree(trained, shell.folder / "copy")
    path = shell.folder / "copy" / "model" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert shell("evaluate FOLDER/copy --json") == 1
    output = capsys.readouterr()
    refused(output, "weights.safetensors is damaged", "restore it from a copy")
    assert last_line(output.out)["exit_code"] == 1


def test_zips_are_judged_where_they_fit(shell: Shell, capsys: Captured) -> None:
    assert shell.train("pole", f"CartPole-v1 {replay('dqn')}", "") == 0
    zipped = "FOLDER/pole/model/model.zip --trust --episodes 2 --json"
    assert shell(f"evaluate {zipped} --task CartPole-v1") == 0
    answers = last_line(capsys.readouterr().out)
    assert shell("evaluate FOLDER/pole --episodes 2 --json") == 0
    assert last_line(capsys.readouterr().out)["episodes"] == answers["episodes"]
    assert shell.train("road", agent=replay("dqn")) == 0
    zipped = "FOLDER/road/model/model.zip --trust --task donkey-telemetry"
    capsys.readouterr()
    assert shell(f"evaluate {zipped}") == 2
    refused(capsys.readouterr(), "acts in Discrete(15), a car takes steering and throttle")


@pytest.mark.parametrize(
    "flag", ["--track warren", "--sets 2", "--plot FOLDER/a.png", "--video FOLDER/a.mp4"]
)
def test_what_only_roads_have_is_refused_elsewhere(
    flag: str, off_road: tuple[Path, Path], shell: Shell, capsys: Captured
) -> None:
    for run in off_road:
        assert shell(f"evaluate {run} --episodes 1 {flag}") == 2
        refused(capsys.readouterr(), f"has no roads; leave {flag.split()[0]} out")


# --- many tracks ---------------------------------------------------------------------------------


def test_a_report_tells_tracks_and_sets_apart(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    tracks = "generated_track circuit:100-101"
    words = f"evaluate {trained} --track {tracks} --sets 2 --episodes 4 --plot FOLDER/m.png --json"
    assert shell(words) == 0
    output = capsys.readouterr().out
    answer = last_line(output)
    rows = answer["tracks"]
    assert list(rows) == ["generated_track", "circuit:100", "circuit:101"]
    assert [row["trained"] for row in rows.values()] == [True, False, False]
    assert "zero-shot" in output and "set 2" in output
    assert [row["count"] for row in rows.values()] == [8, 8, 8]
    told = "lap_rate mean_return interval iqm_interval lap_time_ratio sets verdict"
    for name in told.split():
        assert name in answer and all(name in row for row in rows.values())
    assert [own["count"] for own in answer["sets"]] == [12, 12]
    assert {row["seed"] for row in answer["episodes"]} == {(1 << 40) + 20_000, (1 << 40) + 20_001}
    unseen = (rows["circuit:100"]["mean_return"] + rows["circuit:101"]["mean_return"]) / 2
    gap = rows["generated_track"]["mean_return"] - unseen
    assert answer["gap"]["mean_return"] == pytest.approx(gap)
    crashes = sum(row["end"] == "crashed" for row in answer["episodes"])
    assert crashes == sum(row["crashes"]["count"] for row in rows.values()) > 0
    assert answer["verdict"] == "fails" and answer["lap_rate"] == 0.0
    assert [Path(plot).name for plot in answer["plots"]] == [
        "m-generated_track.png", "m-circuit-100.png", "m-circuit-101.png",
    ]  # fmt: skip
    assert all(Path(plot).is_file() for plot in answer["plots"])


def test_a_set_is_what_its_seed_gives_alone(trained: Path, shell: Shell, capsys: Captured) -> None:
    words = f"evaluate {trained} --track waveshare --episodes 2 --json"
    assert shell(f"{words} --sets 2 --seed 5") == 0
    both = last_line(capsys.readouterr().out)["episodes"]
    assert shell(f"{words} --sets 1 --seed 6") == 0
    assert last_line(capsys.readouterr().out)["episodes"] == both[2:]


def test_without_sets_a_range_shares_the_episodes_out(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    assert shell(f"evaluate {trained} --track circuit:7-9 --episodes 4 --json") == 0
    rows = last_line(capsys.readouterr().out)["tracks"]
    assert {name: row["count"] for name, row in rows.items()} == {
        f"circuit:{seed}": 2 for seed in (7, 8, 9)
    }


def test_a_scripted_driver_drives_and_was_trained_on_nothing(
    shell: Shell, capsys: Captured
) -> None:
    words = "scripted:pure_pursuit --track waveshare --sets 1 --episodes 2 --json"
    assert shell(f"evaluate {words}") == 0
    answer = last_line(capsys.readouterr().out)
    assert answer["verdict"] == "drives" and answer["gap"] is None
    assert answer["tracks"]["waveshare"]["trained"] is None and answer["crashes"] == {}


def test_tracks_of_the_model_it_began_with_are_trained_too(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    words = f"donkey-telemetry TINY --track waveshare --init-from {trained}"
    assert shell.train("next", words) == 0
    tracks = "waveshare generated_track warren"
    assert shell(f"evaluate FOLDER/next --track {tracks} --sets 1 --episodes 1 --json") == 0
    rows = last_line(capsys.readouterr().out)["tracks"]
    assert [row["trained"] for row in rows.values()] == [True, True, False]


def test_a_zip_is_reported_on_where_its_task_is_named(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    words = "--track circuit:1-2 --episodes 2 --json"
    zipped = f"{trained}/model/model.zip --trust --task donkey-telemetry"
    assert shell(f"evaluate {zipped} {words}") == 0
    answer = last_line(capsys.readouterr().out)
    assert [row["trained"] for row in answer["tracks"].values()] == [None, None]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--track circuit:9-3", "a range holds 1 to 3000 tracks, this one 0"),
        ("--track circuit:3-", "a range of tracks is written circuit:100-199"),
        ("--track alll --sets 1", "unknown track 'alll'"),
        ("--sets -1", "sets must be 0 or more, got -1"),
    ],
)
def test_what_cannot_be_reported_on_is_refused(
    words: str, answer: str, trained: Path, shell: Shell, capsys: Captured
) -> None:
    assert shell(f"evaluate {trained} {words}") == 2
    refused(capsys.readouterr(), answer)


# --- watching ------------------------------------------------------------------------------------


def test_a_model_is_watched(trained: Path, shell: Shell, capsys: Captured) -> None:
    assert shell(f"watch {trained} --seconds 0.5 --json") == 0
    answer = last_line(capsys.readouterr().out)
    assert answer["seconds"] <= 0.5 and answer["video"] is None
    assert answer["track"] == "generated_track"
    assert shell(f"watch {trained} --seconds 0.5 --track donkey-waveshare-v0 --json") == 0


def test_what_cannot_be_watched_is_refused(
    off_road: tuple[Path, Path], shell: Shell, capsys: Captured
) -> None:
    for run in off_road:
        assert shell(f"watch {run}") == 2
        refused(capsys.readouterr(), "was not trained on a road; it cannot be watched")
    assert shell("watch FOLDER/none") == 2
    refused(capsys.readouterr(), "expected a run's folder")


def test_a_model_is_not_watched_at_another_task(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    assert shell(f"watch {trained} --task donkey-lidar") == 2
    refused(capsys.readouterr(), "was trained on donkey-telemetry", "leave --task out")


def test_a_long_track_gets_the_time_that_a_lap_takes(
    trained: Path, shell: Shell, capsys: Captured
) -> None:
    words = "--track warren donkey-waveshare-v0 --start line --episodes 2 --json"
    assert shell(f"evaluate scripted:racing_line {words}") == 0
    answer = last_line(capsys.readouterr().out)
    assert answer["lap_rate"] == 1.0 and set(answer["tracks"]) == {"warren", "waveshare"}
    assert shell(f"evaluate {trained} --track donkey-waveshare-v0 --episodes 2 --json") == 0
    (row,) = last_line(capsys.readouterr().out)["tracks"].values()
    assert row["trained"] is False and row["count"] == 2 and "verdict" in row


@pytest.mark.slow
def test_a_scripted_drivers_judged_lap_is_filmed(shell: Shell, capsys: Captured) -> None:
    words = "--track waveshare --episodes 1 --video FOLDER/lap.mp4 --json"
    assert shell(f"evaluate scripted:racing_line {words}") == 0
    film = Path(last_line(capsys.readouterr().out)["video"])
    assert film == shell.folder / "lap.mp4" and film.read_bytes()[4:8] == b"ftyp"


@pytest.mark.slow
def test_a_model_is_filmed(trained: Path, shell: Shell, capsys: Captured) -> None:
    assert shell(f"watch {trained} --seconds 1 --video FOLDER/drive.mp4 --json") == 0
    film = Path(last_line(capsys.readouterr().out)["video"])
    assert film == shell.folder / "drive.mp4" and film.read_bytes()[4:8] == b"ftyp"
