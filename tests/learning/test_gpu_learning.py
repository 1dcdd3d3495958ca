"""On a GPU nothing is read from where it no longer is."""

from dataclasses import replace

import pytest
import torch
from gymnasium import spaces

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import PPOConfig
from hotlap.learning.critics import action_values, values_of
from hotlap.learning.driver import Driver
from hotlap.learning.factory import make_policy
from hotlap.learning.policies import ActorCritic
from hotlap.learning.ppo import PPO
from hotlap.learning.teaching import Teacher
from hotlap.research.experiment import prepare
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task
from tests.research.tiny import ROAD, tiny_run

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.filterwarnings("ignore:You have specified a mini-batch size"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),  # the compiler's own
]


def learner(stack: int = 1, envs: int = 8, average_over: int = 1) -> PPO:
    """A captured PPO on telemetry, whose environments lend what they return."""
    task = make_task("donkey-telemetry", "cuda", start="random", max_steps=40)
    batch = BatchEnv(task, envs, borrow=True, captured=True)
    env = SB3VecEnv(Interface(batch, InterfaceConfig(stack=stack)))
    own = {"n_steps": 16, "batch_size": 48, "n_epochs": 2, "average_over": average_over}
    return PPO(ActorCritic, env, device="cuda", seed=0, **own)


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


def test_a_captured_teacher_looks_at_the_world_as_it_is() -> None:
    eyes = make_task("donkey-state", "cuda", start="random", max_steps=5)
    assert isinstance(eyes.observation_space, spaces.Box)
    policy = make_policy(PPOConfig(stack=1), eyes.observation_space, eyes.action_space).to("cuda")
    teacher = Teacher(Driver(policy, eyes.observation_space), eyes, 1.0, 1.0)
    batch = BatchEnv(eyes, 8, borrow=True, captured=True)
    batch.reset()
    generator = torch.Generator("cuda").manual_seed(0)
    told = []
    for count in range(12):
        if count == 7:
            batch.reset(mask=torch.arange(8) < 4)
        told.append(teacher.advise(batch.world).clone())
        torch.testing.assert_close(told[-1], teacher._look(batch.world))
        batch.step(torch.rand(8, 2, generator=generator, device="cuda"))
    assert teacher._glance._replay is not None
    assert len({float(advice.sum()) for advice in told}) == len(told)


def test_the_captured_policy_drives_with_a_lent_average_and_then_with_its_own() -> None:
    model = learner(average_over=4)
    model.learn(8 * 16 * 3)
    seen = torch.randn(8, *model.observation_space.shape, device="cuda")
    own = model._decide(seen)[1].clone()
    with model.at_its_best():
        wanted = model.policy.predict_values(seen).flatten()
        mean = model._decide(seen)[1].clone()
    torch.testing.assert_close(mean, wanted, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(mean, own)
    torch.testing.assert_close(model._decide(seen)[1], own)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_knowing_critic_sees_every_step_and_learns(compiled: bool) -> None:
    settings = replace(ROAD, sensor="camera")
    run = tiny_run(
        sensor="camera", settings=settings, knowing=True, steps=16, device="cuda", compiled=compiled
    )
    model = prepare(run, print).learner
    for segment in range(6):
        model.learn_segment(0, segment, 64)
        knowing, rollouts = model.knowing, model.rollout_buffer
        assert torch.isfinite(rollouts.values).all()
        # Every step was looked at where the cars were then: no two are alike.
        assert len(knowing._seen.flatten(0, 1).unique(dim=0)) == 64
    knowing.judge()
    told = [float((rollouts.values - rollouts.returns).square().mean())]
    for _ in range(20):
        knowing.improve(1, 16, 1e-3)
    knowing.judge()
    told.append(float((rollouts.values - rollouts.returns).square().mean()))
    assert told[1] < told[0]


@pytest.mark.parametrize("agent", ["dqn", "sac", "tqc"])
def test_pictures_looked_at_in_bfloat16_and_compiled_tell_nearly_the_same(agent: str) -> None:
    model = prepare(tiny_run(agent, "camera", device="cuda", compiled=True), print).learner
    model.learn_segment(0, 0, 64)  # enough for a capture
    assert model.precision == "bfloat16"
    assert model._compiled and model._graph._graph is not None
    seen = torch.randint(256, (64, *model.observation_space.shape), device="cuda").to(torch.uint8)

    def tell(pictures: torch.Tensor, quick: bool) -> torch.Tensor:
        how = model.precision if quick else "float32"
        if agent == "dqn":
            values = model._fast(action_values) if quick else action_values
            return values(model.q_net, pictures, how)
        values = model._fast(values_of) if quick else values_of
        return values(model.critic, pictures, torch.zeros(64, 2, device="cuda"), how)

    wanted = tell(seen, quick=False)
    off = (tell(seen, quick=True) - wanted).abs().mean()
    unlike = (tell(seen.flip(0), quick=False) - wanted).abs().mean()  # others' pictures
    assert 0 < off < 0.2 * unlike
