"""Training in Gymnasium's own CarRacing: what is refused, what is driven, and going on."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.cli import main, read_config
from hotlap.config.carracing import CarRacingConfig
from hotlap.config.presets import to_table
from hotlap.config.runs import RunConfig
from hotlap.config.training import TrainConfig
from hotlap.research.experiment import Run, prepare
from hotlap.research.models import save_model
from hotlap.research.progress import Progress
from hotlap.research.worlds import judged_at_once, known_tasks
from hotlap.store.run_folder import RunFolder
from hotlap.tasks.bridges.carracing import CarRacingBridge
from hotlap.tasks.bridges.carracing_park import CarsGone

torch.set_num_threads(1)
Captured = pytest.CaptureFixture[str]
REAL = ["carracing", "--backend", "gymnasium"]
PRESET = """
tracks = ["carracing:0-1"]
repeat = 4
reward = "thorough"
start = "random"
max_frames = 24
"""
TINY = [
    "--envs", "2", "--timesteps", "32", "--segment-steps", "16", "--eval-episodes", "2",
    "--evaluation-track", "carracing:80000-80001", "--ppo.steps", "8",
    "--ppo.batch-size", "16", "--ppo.epochs", "1", "--ppo.net", "8",
]  # fmt: skip
REPLAY = [
    ["replay-size", "32"], ["batch-size", "8"], ["warm-up", "8"], ["updates-per-step", "0.25"],
    ["net", "8"],
]  # fmt: skip


def settle(*words: str) -> Any:
    config = read_config("train", list(words))
    assert isinstance(config, TrainConfig)
    return config.settle("cpu", True, known_tasks())


@pytest.fixture
def preset(tmp_path: Path) -> str:
    path = tmp_path / "preset.toml"
    path.write_text(PRESET)
    return str(path)


# --- settings ------------------------------------------------------------------------------------


def test_what_is_seen_and_done_is_the_twins_and_the_rest_gymnasiums() -> None:
    twin, real = settle("carracing", "--preset", "carracing/default"), settle(*REAL)
    assert (twin.settings.reward, twin.settings.start) == ("thorough", "mixed")
    assert real.settings == replace(
        twin.settings, backend="gymnasium", reward="default", start="line"
    )
    assert real.interface == twin.interface
    assert real.evaluation == twin.evaluation


def test_a_few_cars_are_driven_for_longer() -> None:
    agent = settle(*REAL).agent
    assert (agent.envs, agent.steps, agent.batch_size) == (8, 128, 128)
    own = settle(*REAL, "--envs", "4", "--ppo.steps", "16").agent
    assert (own.envs, own.steps, own.batch_size) == (4, 16, 64)
    assert not settle(*REAL, "--compiled", "on").compiled
    assert judged_at_once(replace(settle(*REAL), device="cuda")) == 64


def test_a_preset_may_name_the_real_one(tmp_path: Path) -> None:
    path = tmp_path / "preset.toml"
    path.write_text('backend = "gymnasium"\n' + PRESET)
    settings = settle("carracing", "--preset", str(path)).settings
    assert (settings.backend, settings.reward) == ("gymnasium", "default")
    back = settle("carracing", "--preset", str(path), "--backend", "twin").settings
    assert (back.backend, back.reward) == ("twin", "thorough")


def test_the_recipe_finishes_what_the_twins_began() -> None:
    twin, real = settle("--recipe", "carracing"), settle("--recipe", "carracing-real")
    assert real.settings.backend == "gymnasium"
    assert (real.settings.tracks, real.interface) == (twin.settings.tracks, twin.interface)
    for name in ("encoder", "features", "net", "policy", "layer_norm", "standardise", "gamma"):
        assert getattr(real.agent, name) == getattr(twin.agent, name), name
    assert real.agent.learning_rate < twin.agent.learning_rate


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["donkey", "--backend", "gymnasium"], "--backend is for carracing only"),
        (["CartPole-v1", "--backend", "gymnasium"], "--backend is for hotlap's own tasks"),
        (["carracing", "--backend", "envpool"], "use --backend gymnasium"),
        ([*REAL, "--port", "9091"], "only donkey is driven over the wire"),
        ([*REAL, "--schedule", "plr"], "--schedule plr is for worlds in this process; leave it "
         "out, or drive in the twin"),
        ([*REAL, "--ppo.knowing"], "ppo.knowing is for worlds in this process; leave it out"),
        (["--recipe", "carracing", "--backend", "gymnasium"], "beside a recipe: --ppo.no-knowing"),
        ([*REAL, "--ppo.ramp", "0", "0.5"], "ppo.ramp is for donkey tasks only"),
        ([*REAL, "--ppo.teacher", "x"], "ppo.teacher is for donkey tasks only"),
        ([*REAL, "--reward-shaping", "thorough"], "--reward-shaping thorough is for the twin"),
        ([*REAL, "--evaluation-reward", "thorough"], "Gymnasium pays its own reward only"),
        ([*REAL, "--envs", "4096"], "write --envs 8"),
        ([*REAL, "--track", "carracing:10000"], "are for judging only"),
        ([*REAL, "--evaluation-track", "carracing:29999"], "are for judging only"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused(
    words: list[str], told: str, capsys: Captured, tmp_path: Path
) -> None:
    assert main(["train", *words, "--root", str(tmp_path)]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_randomised_looks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "preset.toml"
    path.write_text('look = "varied"\n' + PRESET)
    with pytest.raises(ValueError, match="the look varied is for the twin"):
        settle(*REAL, "--preset", str(path))


def test_a_missing_package_is_named_before_a_folder_is_made(
    preset: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hotlap.tasks.bridges import carracing_backends

    monkeypatch.setitem(carracing_backends.MISSING, "gymnasium", "pip install 'hotlap[carracing]'")
    folder = tmp_path / "run"
    assert main(["train", *REAL, "--preset", preset, "--save-dir", str(folder), *TINY]) == 2
    assert "hotlap[carracing]" in capsys.readouterr().err
    assert not folder.exists()


# --- training ------------------------------------------------------------------------------------


def save_untrained(run: RunConfig, folder: Path) -> None:
    """A model of a run that has not begun."""
    prepared = prepare(run, print)
    save_model(folder, run, prepared.learner, prepared.env.observation_space, None)


def test_a_model_of_the_twin_is_finished_in_the_real_one(
    preset: str, tmp_path: Path, capsys: Captured
) -> None:
    pytest.importorskip("Box2D")
    twin, real = tmp_path / "twin", tmp_path / "real"
    words = ["--preset", preset, *TINY]
    save_untrained(settle("carracing", *words), twin)
    words += ["--init-from", str(twin), "--save-dir", str(real), "--json"]
    assert main(["train", *REAL, *words]) == 0
    told = capsys.readouterr().out
    assert "CarRacing-v3 of Gymnasium" in told
    answer = json.loads(told.splitlines()[-1])
    assert (answer["timesteps"], len(answer["rewards"])) == (32, 2)
    # 24 frames cost 2.4, and the first two of some 300 tiles are under the car: Gymnasium's own.
    assert min(answer["rewards"]) > 2 * 1000 / 400 - 2.4
    kept = RunFolder(real)
    assert kept.config["settings"]["backend"] == "gymnasium"
    before, *rows = kept.rows("evaluations")
    assert (before["steps"], [row["steps"] for row in rows]) == (0, [16, 32])


def trained(run: RunConfig, folder: RunFolder) -> Run:
    """A run that is over."""
    with folder:
        training = Run(run, folder, Progress("", run.timesteps, live=False))
        training.train()
    return training


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["dqn", "sac", "tqc"])
def test_the_other_learners_train_there_too(agent: str, preset: str, tmp_path: Path) -> None:
    pytest.importorskip("Box2D")
    own = [word for name, value in REPLAY for word in (f"--{agent}.{name}", value)]
    run = settle(*REAL, "--agent", agent, "--preset", preset, *TINY, *own)
    training = trained(run, RunFolder.create(tmp_path / "run", to_table(run)))
    assert training.learner.num_timesteps == 32
    assert isinstance(training.env.task, CarRacingBridge)


@pytest.mark.slow
def test_a_run_whose_cars_were_lost_goes_on_to_the_same_weights(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("Box2D")
    run = settle(*REAL, "--preset", preset, *TINY)
    assert isinstance(run.settings, CarRacingConfig)
    calm = trained(run, RunFolder.create(tmp_path / "calm", to_table(run)))
    folder, note = RunFolder.create(tmp_path / "torn", to_table(run)), Run._save

    def lose(self: Run) -> None:
        note(self)
        os.kill(self.env.task.cars._workers[0].pid, signal.SIGKILL)

    with monkeypatch.context() as patched, pytest.raises(CarsGone, match="code -9"):
        patched.setattr(Run, "_save", lose)
        trained(run, folder)
    assert "CarsGone" in folder.rows("failures")[-1]["text"]
    torn = trained(run, RunFolder.open(tmp_path / "torn"))
    for one, other in zip(
        calm.learner.policy.parameters(), torn.learner.policy.parameters(), strict=True
    ):
        assert torch.equal(one, other)
    tables = [RunFolder(tmp_path / name).rows("evaluations") for name in ("calm", "torn")]
    assert tables[0] == tables[1]
