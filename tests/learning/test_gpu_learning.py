"""On a GPU nothing is read from where it no longer is."""

import pytest
import torch

from hotlap.config.interface import InterfaceConfig
from hotlap.learning.policies import ActorCritic
from hotlap.learning.ppo import PPO
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def learner(stack: int = 1, envs: int = 8) -> PPO:
    """A captured PPO on telemetry, whose environments lend what they return."""
    task = make_task("donkey-telemetry", "cuda", start="random", max_steps=40)
    batch = BatchEnv(task, envs, borrow=True, captured=True)
    env = SB3VecEnv(Interface(batch, InterfaceConfig(stack=stack)))
    return PPO(ActorCritic, env, n_steps=16, batch_size=48, n_epochs=2, device="cuda", seed=0)


@pytest.mark.parametrize("stack", [1, 2])
def test_what_was_seen_is_kept_before_the_next_step_overwrites_it(stack: int) -> None:
    model = learner(stack)
    model.learn(8 * 16)
    rollouts = model.rollout_buffer
    model.collect_rollouts(model.env, model._init_callback(None), rollouts, 16)
    # The policy did not change between driving and this: its values are those of what it saw.
    values = model.policy.predict_values(rollouts.observations.flatten(0, 1)).flatten()
    torch.testing.assert_close(values, rollouts.values.flatten(), atol=1e-4, rtol=1e-4)


def test_the_captured_policy_follows_its_weights() -> None:
    model = learner()
    model.learn(8 * 16 * 3)  # with tails: 128 samples in minibatches of 48
    seen = torch.randn(8, *model.observation_space.shape, device="cuda")
    _, value, _ = model._decide(seen)
    wanted = model.policy.predict_values(seen).flatten()
    torch.testing.assert_close(value, wanted, atol=1e-4, rtol=1e-4)


def test_a_loaded_state_is_what_is_driven_and_learned_with() -> None:
    model = learner()
    model.learn(8 * 16)
    saved = model.state()
    model.learn(8 * 16, reset_num_timesteps=False)
    model.load_state(*saved)
    now = model.state()
    for name, value in saved[0].items():
        torch.testing.assert_close(now[0][name], value, msg=name)
    seen = torch.randn(8, *model.observation_space.shape, device="cuda")
    wanted = model.policy.predict_values(seen).flatten()
    torch.testing.assert_close(model._decide(seen)[1], wanted, atol=1e-4, rtol=1e-4)
    model.learn(8 * 16, reset_num_timesteps=False)
    step = next(iter(model.policy.optimizer.state.values()))["step"]
    assert float(step) == 2 * float(next(v for k, v in saved[0].items() if k.endswith("/step")))
