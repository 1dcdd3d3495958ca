"""What learners with a replay share: driving, counting, saving, going on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecNormalize

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import DQNConfig, ReplayConfig, SACConfig, TQCConfig
from hotlap.config.sensors import CameraConfig
from hotlap.learning.critics import with_layer_norm
from hotlap.learning.dqn import DQN, make_dqn
from hotlap.learning.encoders import Scaled
from hotlap.learning.off_policy import OffPolicy
from hotlap.learning.replay import Replay
from hotlap.learning.sac import SAC, make_sac
from hotlap.learning.tqc import make_tqc
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

torch.set_num_threads(1)
SMALL = CameraConfig(width=40, height=36, colour=False)
MAKERS: dict[str, tuple[Any, type[ReplayConfig], type[BaseAlgorithm]]] = {
    "sac": (make_sac, SACConfig, stable_baselines3.SAC),
    "tqc": (make_tqc, TQCConfig, sb3_contrib.TQC),
    "dqn": (make_dqn, DQNConfig, stable_baselines3.DQN),
}
QUICK = {"net": (16, 16), "batch_size": 16, "warm_up": 20, "replay_size": 400, "envs": 4}


def world(agent: str, task: str = "donkey-telemetry", stack: int = 1, **settings: Any) -> SB3VecEnv:
    actions = "discrete" if agent == "dqn" else "continuous"
    batch = BatchEnv(make_task(task, **settings), 4)
    return SB3VecEnv(Interface(batch, InterfaceConfig(actions=actions, stack=stack)))


def learner(agent: str, env: VecEnv | None = None, seed: int = 0, **settings: Any) -> OffPolicy:
    make, config, _ = MAKERS[agent]
    settings = QUICK | settings
    env = env or world(agent, stack=settings.get("stack", 1), max_steps=30, start="random")
    return make(config(**settings), env, "cpu", seed, total_steps=1000)


every_agent = pytest.mark.parametrize("agent", MAKERS)


# --- driving -------------------------------------------------------------------------------------


@every_agent
@pytest.mark.parametrize("task", ["donkey-telemetry", "donkey"])
def test_a_stack_is_replayed_as_the_policy_saw_it(agent: str, task: str) -> None:
    """Frames are kept once and put together again: order, beginnings and channels agree."""
    settings = {"camera": SMALL} if task == "donkey" else {}
    env = world(agent, task, stack=3, max_steps=9, start="random", **settings)
    model = learner(agent, env, stack=3, replay_size=100, warm_up=1000)
    seen: list[torch.Tensor] = []
    explore = model._explore
    model._explore = lambda shown: (seen.append(shown.clone()), explore(shown))[1]  # type: ignore[method-assign]
    model.learn(4 * 31)
    replay = model.replay_buffer
    assert replay.frames[0, 0].numel() * 3 == seen[0][0].numel()
    for row in range(replay.oldest + 2, 30):  # a ring of 25 rows, after 31
        places = torch.arange(4)
        found = replay.at(torch.full((4,), row), places)
        assert torch.equal(found.observations, seen[row])
        for place in places[~(replay.truncated | replay.terminated)[row % 25]]:
            assert torch.equal(found.next_observations[place], seen[row + 1][place])
    assert replay.truncated.any() or replay.terminated.any()


@every_agent
def test_both_ways_of_driving_fill_the_replay_alike(agent: str) -> None:
    """Tensors all the way, or through the arrays of Stable-Baselines3: the same steps."""

    class Stranger(VecEnvWrapper):
        """Stands between, so that the batch behind is not known to be ours."""

        def reset(self) -> Any:
            return self.venv.reset()

        def step_wait(self) -> Any:
            return self.venv.step_wait()

    found = []
    for wrap in (lambda env: env, Stranger):
        env = wrap(world(agent, max_steps=12, start="random"))
        model = learner(agent, env, warm_up=60, seed=3)
        model.learn(4 * 40)
        found.append(model)
    for name, column in found[0].replay_buffer._columns().items():
        torch.testing.assert_close(column, getattr(found[1].replay_buffer, name), msg=name)
    assert found[0].replay_buffer.truncated.sum() >= 8
    returns = [[info["r"] for info in model.ep_info_buffer] for model in found]
    assert len(returns[0]) > 8 and np.allclose(*returns, atol=1e-4)
    assert found[0]._episode_num == found[1]._episode_num


def test_the_clock_is_told_apart_on_other_environments() -> None:
    model = learner("sac", make_vec_env("Pendulum-v1", 2), warm_up=1000, replay_size=1000)
    model.learn(2 * 450)
    late = model.replay_buffer.truncated.nonzero()
    assert late.tolist() == [[199, 0], [199, 1], [399, 0], [399, 1]]
    assert not model.replay_buffer.terminated.any()
    assert model.replay_buffer.ages[:3, 0].tolist() == [0, 1, 2]
    assert model.replay_buffer.ages[198:202, 0].tolist() == [198, 199, 0, 1]
    actions = model.replay_buffer.actions
    assert -1 <= float(actions.min()) < -0.9 and 0.9 < float(actions.max()) <= 1  # not -2..2


@every_agent
def test_nothing_is_drawn_from_numpy_or_from_spaces(
    agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = learner(agent)
    before = np.random.get_state()[1].copy()
    monkeypatch.setattr(type(model.action_space), "sample", None)
    model.learn(100)
    assert model._n_updates > 0
    assert np.array_equal(np.random.get_state()[1], before)


@every_agent
def test_same_seed_same_weights(agent: str) -> None:
    found = []
    for seed in (0, 0, 1):
        model = learner(agent, seed=seed)
        model.learn(120)
        found.append(torch.cat([p.flatten() for p in model.policy.parameters()]).detach())
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_environments_begun_anew_from_outside_are_not_joined_to_what_was_before() -> None:
    model = learner("sac", warm_up=1000)
    model.learn(4 * 10)
    model.learn(4 * 5)  # resets
    assert model.replay_buffer.truncated[9].all() and model.replay_buffer.written == 15
    model.learn(4 * 5, reset_num_timesteps=False)  # goes on
    assert not model.replay_buffer.truncated[14].any()
    model.learn_segment(seed=0, segment=1, steps=8)
    done = model.replay_buffer.truncated[19] | model.replay_buffer.terminated[19]
    assert done.all() and not model.replay_buffer.ages[20].any()


def test_scales_learn_from_all_that_is_driven_through() -> None:
    model = learner("sac", normalise_observations=True)
    model.learn(4 * 50)
    frames = model.replay_buffer.frames[:50].flatten(0, 1)
    scales = [part for part in model.policy.modules() if isinstance(part, Scaled)]
    assert len(scales) == 3  # actor, critics and their slow copy
    for scale in scales:
        torch.testing.assert_close(scale.mean, frames.mean(0), rtol=1e-3, atol=1e-4)
        spread = frames.std(0, unbiased=False)
        torch.testing.assert_close(scale.spread, spread, rtol=1e-2, atol=1e-3)


def test_a_step_may_overwrite_what_the_one_before_returned() -> None:
    """As it does on a GPU where a batch lends its own tensors."""

    class Lending(Interface):
        def step(self, action: torch.Tensor) -> Step:
            step = super().step(action)
            if not hasattr(self, "lent"):
                self.lent = step.observation.clone()
            self.lent.copy_(step.observation)
            return replace(step, observation=self.lent)

    found = []
    for kind in (Interface, Lending):
        batch = BatchEnv(make_task("donkey-telemetry", max_steps=30, start="random"), 4)
        model = learner("sac", SB3VecEnv(kind(batch, InterfaceConfig())))
        model.learn(4 * 20)
        found.append(model.replay_buffer.frames)
    assert torch.equal(*found)


# --- counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "cap", "updates"), [(0.3, 6.0, 26), (2.0, 6.0, 176), (9.0, 1.5, 132)]
)
def test_updates_follow_steps_and_fractions_are_kept(rate: float, cap: float, updates: int) -> None:
    model = learner("dqn", updates_per_step=rate, max_updates_per_step=cap, warm_up=12)
    model.learn(100)  # 88 steps count: those after the warm-up
    assert model._n_updates == updates
    assert model.logger.name_to_value["train/updates_per_step"] == updates / 88
    assert model._updates_owed == pytest.approx(88 * min(rate, cap) - updates)


def test_schedules_run_over_the_whole_training() -> None:
    model = learner("dqn", schedule="linear", learning_rate=1e-3, exploration_fraction=0.5)
    for _ in range(4):
        model.learn(100, reset_num_timesteps=False)
    assert model.num_timesteps == 400 and model.horizon == 1000
    assert model.logger.name_to_value["train/learning_rate"] == pytest.approx(0.6e-3)
    # One step of the batch is 4; 1 falls to 0.05 over 500 steps.
    assert model.exploration_rate == pytest.approx(1 - 0.95 * 400 / 500)


@every_agent
def test_metrics_are_finite_and_named(agent: str) -> None:
    model = learner(agent)
    model.learn(80)
    told = model.logger.name_to_value
    names = {"debug/q_a1", "debug/backup", "debug/backup_std", "debug/q1", "debug/r"}
    names |= {"losses/critic", "debug/critic_grad_norm", "train/critic_clipped"}
    names |= {"train/backup_clipped", "train/updates_per_step", "train/learning_rate"}
    if agent != "dqn":
        names |= {"losses/actor", "debug/q2", "debug/q_difference", "train/entropy_coef"}
        names |= {"debug/actor_grad_norm", "train/actor_clipped"}
        assert told["debug/q_difference"] > 0
    assert names <= set(told)
    assert all(np.isfinite(told[name]) for name in names)


@every_agent
def test_what_is_not_a_number_stops_it_by_name(agent: str) -> None:
    model = learner(agent)
    model.learn(40)
    model.replay_buffer.rewards.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="became nan"):
        model.learn(40, reset_num_timesteps=False)


@every_agent
def test_rewards_are_scaled_on_their_way_into_the_replay(agent: str) -> None:
    model = learner(agent, reward_scale=0.1)
    seen = torch.zeros(model.n_envs, *model.replay_buffer.frame_shape)
    row = (
        torch.zeros(model.n_envs, model.replay_buffer.action_dim),
        torch.full((model.n_envs,), 5.0),
    )
    over = torch.zeros(model.n_envs, dtype=torch.bool)
    model.replay_buffer.add(seen, *row, over, over)
    assert model.replay_buffer.rewards[0].tolist() == pytest.approx([0.5] * model.n_envs)


# --- stabilisers ---------------------------------------------------------------------------------


@every_agent
def test_clips_bind_where_they_are_tight_and_say_so(agent: str) -> None:
    told = []
    for limit in (1e-3, 1e6, 0.0):
        more = {} if agent == "dqn" else {"actor_grad_norm": limit}
        clip = 1e-2 if limit == 1e-3 else limit
        model = learner(agent, critic_grad_norm=limit, backup_clip=clip, **more)
        model.learn(60)
        told.append(dict(model.logger.name_to_value))
    names = ["train/critic_clipped", *([] if agent == "dqn" else ["train/actor_clipped"])]
    for name in names:
        assert [metrics[name] for metrics in told] == [1.0, 0.0, 0.0]
    assert told[0]["train/backup_clipped"] > 0.5 and abs(told[0]["debug/backup"]) <= 1e-2
    assert told[1]["train/backup_clipped"] == told[2]["train/backup_clipped"] == 0.0


def test_gradients_are_shortened_to_their_limit() -> None:
    model = learner("sac", critic_grad_norm=1e-3)
    model.learn(60)
    gradients = [p.grad.flatten() for p in model.critic.parameters()]
    assert float(torch.cat(gradients).norm()) == pytest.approx(1e-3, rel=1e-2)


@every_agent
@pytest.mark.parametrize("wanted", [True, False])
def test_hidden_layers_of_critics_are_normalised_if_asked(agent: str, wanted: bool) -> None:
    model = learner(agent, layer_norm=wanted)
    nets = [model.q_net.q_net] if agent == "dqn" else model.critic.q_networks
    for net in nets:
        kinds = [type(layer).__name__ for layer in net]
        hidden = ["Linear", "LayerNorm", "ReLU"] if wanted else ["Linear", "ReLU"]
        assert kinds == [*hidden, *hidden, "Linear"]
    target = model.q_net_target if agent == "dqn" else model.critic_target
    online = model.q_net if agent == "dqn" else model.critic
    assert target.state_dict().keys() == online.state_dict().keys()
    if agent != "dqn":
        assert not any("LayerNorm" in type(m).__name__ for m in model.actor.modules())


def test_a_normalised_net_gives_its_hidden_layers_mean_0_and_spread_1() -> None:
    net = with_layer_norm(torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Linear(8, 1)))
    hidden = net[1](net[0](100 * torch.randn(5, 3)))
    assert torch.allclose(hidden.mean(1), torch.zeros(5), atol=1e-5)
    assert torch.allclose(hidden.std(1, unbiased=False), torch.ones(5), atol=1e-3)


@pytest.mark.parametrize("agent", ["sac", "dqn"])
def test_shifted_pictures_are_learned_from(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = world(agent, "donkey", camera=SMALL, max_steps=20, start="random")
    model = learner(agent, env, shift=4, stack=1, features=8, warm_up=16)
    shown: list[torch.Tensor] = []
    update = model._update
    monkeypatch.setattr(model, "_update", lambda s: (shown.append(s.observations), update(s))[1])
    model.learn(40)
    frames = model.replay_buffer.frames[:10].flatten(0, 1)
    known = {bytes(frame.numpy()) for frame in frames}
    fresh = [bytes(picture.contiguous().numpy()) not in known for picture in shown[0]]
    assert np.mean(fresh) > 0.9
    with pytest.raises(ValueError, match="only pictures can be shifted"):
        learner(agent, shift=4)


# --- saving --------------------------------------------------------------------------------------


@every_agent
@pytest.mark.parametrize("n_step", [1, 3])
def test_a_saved_model_opens_with_the_stock_class_and_acts_the_same(
    agent: str, n_step: int, tmp_path: Path
) -> None:
    stock_class = MAKERS[agent][2]
    model = learner(agent, n_step=n_step, schedule="linear", layer_norm=True)
    model.learn(60)
    model.save(tmp_path / "model.zip")
    stock: Any = stock_class.load(tmp_path / "model.zip", device="cpu")
    assert type(stock) is stock_class
    assert not isinstance(stock.replay_buffer, Replay) and stock.buffer_size == 400
    env = world(agent, max_steps=20, start="random")
    seen = env.reset()
    acts = [m.predict(seen, deterministic=True)[0] for m in (model, stock)]
    assert np.array_equal(*acts)
    mean, _ = evaluate_policy(stock, env, n_eval_episodes=4, warn=False)
    assert np.isfinite(mean)
    again = type(model).load(tmp_path / "model.zip", env=env, device="cpu")
    again.learn(40, reset_num_timesteps=False)
    assert again.num_timesteps == 100 and isinstance(again.replay_buffer, Replay)
    for mine, theirs in zip(model.policy.parameters(), stock.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@every_agent
def test_the_stock_class_can_go_on_learning(agent: str, tmp_path: Path) -> None:
    model = learner(agent, layer_norm=True)
    model.learn(60)
    model.save(tmp_path / "model.zip")
    env = world(agent, max_steps=20, start="random")
    stock: Any = MAKERS[agent][2].load(tmp_path / "model.zip", env=env, device="cpu")
    stock.gradient_steps = 1
    stock.learn(60, reset_num_timesteps=False)
    assert stock._n_updates > model._n_updates


def test_a_file_holds_no_replay_and_no_tensors_of_what_was_seen(tmp_path: Path) -> None:
    env = world("sac", "donkey", camera=SMALL, max_steps=20)
    model = learner("sac", env, features=8)
    model.learn(40)
    model.save(tmp_path / "model.zip")
    data, _, _ = stable_baselines3.common.save_util.load_from_zip_file(tmp_path / "model.zip")
    absent = {"replay_buffer", "replay_buffer_class", "_last_obs", "_last_original_obs", "_bounds"}
    assert not absent & set(data)
    assert not any(isinstance(value, torch.Tensor) for value in data.values())


@every_agent
def test_a_run_goes_on_from_its_state_to_the_same_weights(agent: str) -> None:
    """Nets, optimisers, numbers and the rows of each segment are all there is."""
    settings = {"replay_size": 4 * 40, "n_step": 2, "updates_per_step": 0.3}
    whole = learner(agent, **settings)
    saved, first, state = [], 0, None
    for segment in range(4):
        whole.learn_segment(seed=7, segment=segment, steps=4 * 24)
        saved.append((whole.replay_buffer.rows_since(first), first))
        first = whole.replay_buffer.written
        if segment == 2:
            tensors, numbers = whole.state()
            state = {name: value.clone() for name, value in tensors.items()}, numbers
            numbers["extra"] = dict(numbers["extra"])
    again = learner(agent, seed=99, **settings)
    assert state is not None
    again.load_state(*state)
    for rows, begin in saved[1:3]:
        again.replay_buffer.put_rows(rows, begin)
    again.learn_segment(seed=7, segment=3, steps=4 * 24)
    assert again.num_timesteps == whole.num_timesteps and again._n_updates == whole._n_updates
    for mine, theirs in zip(whole.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(whole.replay_buffer.rewards, again.replay_buffer.rewards)
    assert whole.extra_state() == again.extra_state()


# --- refusals ------------------------------------------------------------------------------------


class EveryStepIsCut(gym.Env):
    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,))

    def reset(self, **_: Any) -> tuple[np.ndarray, dict]:
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(2, np.float32), 0.0, False, True, {}


def test_what_cannot_be_learned_from_is_refused() -> None:
    model = learner("sac", make_vec_env(EveryStepIsCut, 2), replay_size=20, warm_up=0)
    with pytest.raises(RuntimeError, match="cut off by the clock"):
        model.learn(100)
    with pytest.raises(ValueError, match="VecNormalize"):
        learner("sac", VecNormalize(make_vec_env("Pendulum-v1", 2)))
    with pytest.raises(TypeError, match="use replay_size"):
        SAC("MlpPolicy", make_vec_env("Pendulum-v1", 1), buffer_size=100)
    with pytest.raises(TypeError, match="use updates_per_step"):
        DQN("MlpPolicy", make_vec_env("CartPole-v1", 1), gradient_steps=2)
