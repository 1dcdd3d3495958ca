"""SAC: its update worked out by hand, and problems it solves."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure

from hotlap.config.learners import SACConfig
from hotlap.learning.critics import values_of
from hotlap.learning.replay import Samples
from hotlap.learning.sac import SAC, draw_actions, make_sac

torch.set_num_threads(1)


class Mirror(gym.Env):
    """Three steps; each pays for doing what is shown. Doing it always earns 0, nothing -1 or so."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Box(-2, 2, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count = 0
        return self._show(), {}

    def _show(self) -> np.ndarray:
        self.shown = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.shown

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        reward = -float(np.square(action - self.shown).sum())
        self.count += 1
        return self._show(), reward, self.count == 3, False, {}


def small(**settings: Any) -> SAC:
    config = {"net": (32, 32), "batch_size": 64, "warm_up": 64, "envs": 4, "replay_size": 4000}
    return make_sac(
        SACConfig(**config | settings), make_vec_env(Mirror, 4, seed=0), "cpu", 0, total_steps=4000
    )


def samples(count: int = 8, **given: Any) -> Samples:
    columns = {
        "observations": torch.rand(count, 1),
        "actions": 2 * torch.rand(count, 1) - 1,
        "next_observations": torch.rand(count, 1),
        "dones": torch.zeros(count, 1),
        "rewards": torch.rand(count, 1),
        "discounts": torch.full((count, 1), 0.9),
    }
    return Samples(**columns | given)


# --- the update ----------------------------------------------------------------------------------


def test_actions_and_densities_are_those_of_stable_baselines() -> None:
    model = small()
    seen = torch.rand(50, 1)
    torch.manual_seed(0)
    actions, density = draw_actions(model.actor, seen)
    torch.manual_seed(0)
    theirs, their_density = model.actor.action_log_prob(seen)
    torch.testing.assert_close(actions, theirs)
    torch.testing.assert_close(density[:, 0], their_density)
    parameters = list(model.actor.latent_pi.parameters())
    found = [
        torch.autograd.grad((d.sum() + a.sum()), parameters)
        for a, d in ((actions, density), (theirs, their_density))
    ]
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


def test_an_update_is_that_of_stable_baselines() -> None:
    """Without clipping, and with the same noise, all nets move to the same place."""
    batch = samples(64)
    moved = []
    for kind in (SAC, stable_baselines3.SAC):
        model: Any = kind(
            "MlpPolicy", make_vec_env(Mirror, 1, seed=0), seed=1, ent_coef="auto_0.1",
            policy_kwargs={"net_arch": [32, 32]},
        )  # fmt: skip
        model.set_logger(configure(None, []))
        model.replay_buffer.sample = lambda *_, **__: batch
        torch.manual_seed(0)
        model.train(gradient_steps=5, batch_size=64)
        moved.append(model)
    for mine, theirs in zip(*(m.policy.state_dict().values() for m in moved), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=2e-5)
    torch.testing.assert_close(moved[0].log_ent_coef, moved[1].log_ent_coef)


def test_critics_are_taught_at_the_action_that_was_replayed() -> None:
    """Fault 1 of the reference project: they were taught at the policy's own action.

    Half of the samples earn 1 for steering left, half -1 for steering right; the policy itself
    steers anywhere.
    """
    model = small(learning_rate=5e-3)
    actions = torch.tensor([[-0.8], [0.8]]).repeat(32, 1)
    batch = samples(64, actions=actions, rewards=-actions.sign(), dones=torch.ones(64, 1))
    for _ in range(150):
        told = model._update(batch)
    values = values_of(model.critic, torch.rand(2, 1), torch.tensor([[-0.8], [0.8]]))
    assert (values[0] > 0.8).all() and (values[1] < -0.8).all()
    assert float(told["losses/critic"]) < 0.05
    with torch.no_grad():
        drawn = draw_actions(model.actor, torch.rand(50, 1))[0]
    assert float(drawn.mean()) < -0.2  # and so the policy learns


def test_a_backup_by_hand() -> None:
    model = small(learn_entropy=False, entropy=0.5)
    for critic, value in zip(model.critic_target.q_networks, (3.0, 2.0), strict=True):
        critic[-1].weight.data.zero_()
        critic[-1].bias.data.fill_(value)
    batch = samples(2, rewards=torch.ones(2, 1), dones=torch.tensor([[0.0], [1.0]]))
    torch.manual_seed(0)
    backup, beyond = model._back_up(batch, torch.tensor(0.5))
    torch.manual_seed(0)
    density = draw_actions(model.actor, batch.next_observations)[1].detach()
    assert float(backup[0]) == pytest.approx(1 + 0.9 * (2.0 - 0.5 * float(density[0])), rel=1e-5)
    assert float(backup[1]) == 1.0 and float(beyond) == 0.0
    model.backup_clip = 1.2
    backup, beyond = model._back_up(batch, torch.tensor(0.5))
    assert float(backup[0]) == pytest.approx(1.2) and float(beyond) == 0.5


def test_twin_critics_differ_from_the_beginning() -> None:
    """Fault 5 of the reference project: both were made from one seed."""
    model = small()
    one, two = model.critic.q_networks
    for mine, other in zip(one, two, strict=True):
        if isinstance(mine, torch.nn.Linear):
            assert not torch.equal(mine.weight, other.weight)
    for slow, fast in zip(model.critic_target.parameters(), model.critic.parameters(), strict=True):
        assert torch.equal(slow, fast)
    assert float(model._update(samples())["debug/q_difference"]) > 0


def test_the_slow_copy_follows_by_tau() -> None:
    model = small(tau=0.25)
    before = [p.clone() for p in model.critic_target.parameters()]
    model._update(samples())
    after = zip(before, model.critic.parameters(), model.critic_target.parameters(), strict=True)
    for old, fast, slow in after:
        torch.testing.assert_close(slow, 0.75 * old + 0.25 * fast)


@pytest.mark.parametrize(("target", "bound"), [(50.0, 0.3), (-50.0, 0.02)])
def test_the_weight_of_entropy_is_learned_within_its_bounds(target: float, bound: float) -> None:
    model = small(
        target_entropy=target, entropy_rate=0.2, entropy_bounds=(0.02, 0.3), learning_rate=1e-4
    )
    model.learn(200)
    assert float(model.log_ent_coef.detach().exp()) == pytest.approx(bound)
    assert model.ent_coef_optimizer.param_groups[0]["lr"] == 0.2
    assert model.actor.optimizer.param_groups[0]["lr"] == 1e-4


def test_a_fixed_weight_of_entropy_stays() -> None:
    model = small(learn_entropy=False, entropy=0.07)
    model.learn(200)
    assert model.logger.name_to_value["train/entropy_coef"] == pytest.approx(0.07)


def test_an_update_is_one_and_the_same_function_of_its_samples() -> None:
    """No hidden state: what would be captured on a GPU does the same at every replay."""
    found = []
    for _ in range(2):
        model = small()
        torch.manual_seed(1)
        batch = samples(16)
        found.append([model._update(batch) for _ in range(3)])
    for one, two in zip(*found, strict=True):
        assert all(torch.equal(one[name], two[name]) for name in one)
    assert all(value.dim() == 0 and not value.requires_grad for value in found[0][0].values())


# --- problems ------------------------------------------------------------------------------------


def test_it_learns_to_do_what_is_shown() -> None:
    model = small(learning_rate=5e-3, updates_per_step=0.5, entropy=0.02)
    model.learn(1000)
    mean, _ = evaluate_policy(model, make_vec_env(Mirror, 1, seed=9), n_eval_episodes=30)
    assert mean > -0.2  # doing nothing earns -1, anything -5
