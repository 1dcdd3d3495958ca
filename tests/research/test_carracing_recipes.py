"""Recipes for CarRacing: the published settings, those that spare memory, and that all run."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium import spaces

from hotlap.cli import read_config
from hotlap.config.carracing import CarRacingConfig
from hotlap.config.learners import DQNConfig, PPOConfig, ReplayConfig, SACConfig
from hotlap.config.presets import SHIPPED, to_table
from hotlap.config.runs import RunConfig
from hotlap.config.training import TrainConfig
from hotlap.learning.replay import Replay
from hotlap.research.experiment import Run
from hotlap.research.progress import Progress
from hotlap.research.worlds import judged_tracks, known_tasks, tracks_of
from hotlap.store.run_folder import RunFolder
from hotlap.tasks.carracing import CarRacingTask

torch.set_num_threads(1)
RECIPES = sorted(path.stem for path in (SHIPPED / "recipes").glob("carracing-*.toml"))
CLASSIC = ["carracing-dqn-classic", "carracing-ppo-classic", "carracing-sac-classic"]
SPARING = [name for name in RECIPES if name.endswith("-low-memory")]
SMALL: dict[str, Any] = {
    "batch_size": 8,
    "replay_size": 240,
    "warm_up": 32,
    "updates_per_step": 0.25,
}
TRACK_BYTES = 4.3e6
"""What the recipes reckon a gray track takes."""


def settled(name: str, device: str = "cpu") -> RunConfig:
    config = read_config("train", ["--recipe", name])
    assert isinstance(config, TrainConfig)
    return config.settle(device, has_compiler=device != "cpu", known_tasks=known_tasks())


def settings_of(run: RunConfig) -> CarRacingConfig:
    assert isinstance(run.settings, CarRacingConfig)
    return run.settings


def tiny(name: str) -> RunConfig:
    """A recipe's run, made so short that it can be tried."""
    run = settled(name)
    agent: Any = replace(run.agent, envs=min(run.agent.envs, 4))
    if isinstance(agent, PPOConfig):
        agent = replace(agent, steps=16, batch_size=16, epochs=1)
    else:
        agent = replace(agent, **SMALL)
    return replace(
        run,
        settings=replace(settings_of(run), tracks=("carracing:0-1",), max_frames=24),
        agent=agent,
        timesteps=192,
        segment_steps=192,
        evaluation=replace(run.evaluation, episodes=2, tracks=("carracing:80000-80001",)),
    )


@pytest.mark.parametrize(
    ("words", "recipe"),
    [
        ("carracing", "carracing-small"),  # there is no GPU in this test
        ("carracing --device cpu --seed 3", "carracing-small"),
        ("carracing --agent dqn", "carracing-dqn"),
        ("--env carracing --agent sac --timesteps 5000", "carracing-sac"),
        ("carracing --agent tqc", None),
        ("carracing --preset carracing/classic", None),
        ("carracing --backend gymnasium", None),
        ("carracing --init-from zoo:carracing", None),
        ("donkey", None),
    ],
)
def test_by_itself_a_learner_takes_the_best_that_is_known(
    words: str, recipe: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = read_config("train", words.split())
    assert isinstance(config, TrainConfig) and config.recipe == recipe
    if recipe is not None:
        named = settled(recipe)
        own = config.settle("cpu", False, known_tasks())
        assert (own.settings, own.agent) == (named.settings, named.agent)
        assert own.evaluation.tracks == named.evaluation.tracks


# --- the published settings ----------------------------------------------------------------------


def test_classic_ppo_is_the_one_of_stable_baselines() -> None:
    run = settled("carracing-ppo-classic")
    assert run.agent == PPOConfig(
        envs=8, learning_rate=3e-4, steps=2048, batch_size=64, epochs=10, gamma=0.99,
        gae_lambda=0.95, clip=0.2, entropy=0.01, normalise_rewards=True, stack=4,
        encoder="nature", features=512, net=(), log_std=0.0, precision="float32",
    )  # fmt: skip


def test_classic_dqn_is_the_one_of_stable_baselines() -> None:
    run = settled("carracing-dqn-classic")
    assert run.agent == DQNConfig(
        envs=1, replay_size=150_000, batch_size=32, warm_up=100, updates_per_step=0.25,
        learning_rate=1e-4, gamma=0.99, double=False, target_every=10_000, stack=4,
        exploration_fraction=0.1, exploration_final=0.05, critic_grad_norm=10.0,
        encoder="nature", features=512, net=(), precision="float32",
    )  # fmt: skip
    assert settings_of(run).view == "warp"


def test_classic_sac_is_the_one_with_random_shifts() -> None:
    run = settled("carracing-sac-classic")
    assert run.agent == SACConfig(
        envs=1, replay_size=30_000, batch_size=256, warm_up=10_000, updates_per_step=2.0,
        learning_rate=1e-4, gamma=0.99, tau=0.01, shift=4, entropy=0.1, learn_entropy=True,
        entropy_bounds=(1e-8, 1e3), stack=4, encoder="nature", features=64, net=(1024, 1024),
        precision="float32",
    )  # fmt: skip
    assert isinstance(run.agent, SACConfig) and run.agent.augmentation.shift == 4
    assert settings_of(run).view == "crop"


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_recipes_drive_as_gymnasium_has_it(name: str) -> None:
    run = settled(name)
    settings = settings_of(run)
    assert (settings.reward, settings.start, settings.repeat) == ("default", "line", 1)
    assert settings.shape == (84, 84, 1) and settings.brake == 1.0 and settings.actions == "pair"
    assert run.timesteps == 1_000_000  # as the references were trained for


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "carracing-small"])
def test_all_are_judged_on_the_same_tracks(name: str) -> None:
    run = settled(name)
    judged = judged_tracks(run, run.evaluation.episodes)
    assert judged == tuple(f"carracing:{seed}" for seed in range(80_000, 80_064))
    assert run.evaluation.episodes == 64 and run.evaluation.reward == "default"


# --- little memory -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_gray_track_takes_what_the_recipes_reckon_with() -> None:
    task = CarRacingTask(CarRacingConfig(tracks=("carracing:0-31",)))
    tables = [value for value in vars(task.tiles).values() if isinstance(value, torch.Tensor)]
    held = task.painter.maps.pool.nbytes + sum(table.nbytes for table in tables)
    assert held / len(task.tracks) == pytest.approx(TRACK_BYTES, rel=0.1)


@pytest.mark.parametrize("name", SPARING)
def test_low_memory_recipes_leave_room_on_a_card_of_4_gb(name: str) -> None:
    run = settled(name, "cuda")
    agent, shape = run.agent, settings_of(run).shape
    tracks = len(tracks_of(run)) + len(judged_tracks(run, run.evaluation.episodes))
    held = tracks * TRACK_BYTES
    if isinstance(agent, ReplayConfig):
        seen = spaces.Box(0, 255, (*shape[:2], agent.stack), "uint8")
        actions = spaces.Box(-1, 1, (2,))
        steps = min(run.segment_steps, agent.replay_size)  # copied while they are saved
        for size in (agent.replay_size, steps):
            held += Replay.bytes_needed(size, seen, actions, agent.envs, agent.stack)
    else:
        held += agent.steps * agent.envs * math.prod(shape) * agent.stack
    assert held < 2.4e9  # the rest is for CUDA itself and for what nets work on
    assert not run.compiled  # the compiler's helpers take memory too


# --- they run ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["carracing-ppo-classic", "carracing-dqn", "carracing-sac-classic"]
)
def test_recipes_train(name: str, tmp_path: Path) -> None:
    run = tiny(name)
    with RunFolder.create(tmp_path / "run", to_table(run)) as folder:
        training = Run(run, folder, Progress("", run.timesteps, live=False))
        before = [part.clone() for part in training.learner.policy.parameters()]
        result = training.train()
    assert training.learner.num_timesteps >= 192
    after = training.learner.policy.parameters()
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert result.count == 2 and math.isfinite(result.mean_return)
    five = training.learner.action_space == spaces.Discrete(5)
    assert five == (run.agent_name == "dqn")
