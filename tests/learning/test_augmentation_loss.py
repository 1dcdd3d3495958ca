"""Changed pictures are judged like real ones, and what PPO compares is left honest."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.augmentation import AugmentationConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import DQNConfig, PPOConfig, SACConfig
from hotlap.config.sensors import CameraConfig
from hotlap.learning.augmentation import Augmentation
from hotlap.learning.augmentation_loss import Agreement
from hotlap.learning.augmentation_mirror import make_mirror, mirrored
from hotlap.learning.encoders import Small
from hotlap.learning.factory import make_learner
from hotlap.learning.off_policy import OffPolicy
from hotlap.learning.policies import ActorCritic
from hotlap.learning.ppo import PPO
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface, action_table
from hotlap.tasks.registry import make_task

torch.set_num_threads(1)
SMALL = CameraConfig(width=40, height=36, colour=False)
BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 0.25], np.float32))
FLIP = AugmentationConfig(flip=1.0)
EVERYTHING = AugmentationConfig(2, 0.8, 1.0, 0.5, (0.7, 1.3), (0.7, 1.3))
SPREADS = ["gaussian", "squashed", "beta", "discrete"]


def world(
    actions: str = "continuous", task: str = "donkey", stack: int = 1, device: str = "cpu"
) -> SB3VecEnv:
    settings: dict[str, Any] = {"camera": SMALL} if task == "donkey" else {}
    batch = BatchEnv(make_task(task, device, max_steps=20, start="random", **settings), 4)
    return SB3VecEnv(Interface(batch, InterfaceConfig(actions=actions, stack=stack)))  # type: ignore[arg-type]


def ppo(
    env: SB3VecEnv | None = None, compiled: bool = False, device: str = "cpu", **settings: Any
) -> PPO:
    usual = {"envs": 4, "stack": 1, "steps": 8, "batch_size": 16, "epochs": 2, "features": 8,
             "net": (8,), "encoder": "small"}  # fmt: skip
    config = PPOConfig(**usual | settings)
    learner = make_learner(config, env or world(device=device), device, 0, 1000, compiled)
    assert isinstance(learner, PPO)
    return learner


def make_policy(kind: str) -> tuple[ActorCritic, Tensor]:
    """A policy that steers to one side, and the mirror of its actions."""
    torch.manual_seed(0)
    space: spaces.Space = spaces.Discrete(15) if kind == "discrete" else BOX
    policy = ActorCritic(
        spaces.Box(0, 255, (1, 24, 32), np.uint8), space, lambda _: 3e-3, spread=kind,
        net_arch=[16], features_extractor_class=Small,
        features_extractor_kwargs={"features_dim": 16},
    )  # fmt: skip
    with torch.no_grad():
        policy.action_net.weight.normal_()
    table = action_table(BOX, InterfaceConfig("discrete", 5, 3))
    return policy, make_mirror(space, table)


def pictures(count: int) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 1, 24, 32), generator=draw, dtype=torch.uint8)


def lopsidedness(policy: ActorCritic, mirror: Tensor, seen: Tensor) -> float:
    """How far a policy is from doing in a mirror what the mirror shows."""
    with torch.no_grad():
        told, there = policy.read(seen)[0], policy.read(seen.flip(3))[0]
        return float(policy.spread.divergence(policy.spread.mirrored(told, mirror), there).mean())


@pytest.mark.parametrize("kind", SPREADS)
def test_a_policy_becomes_symmetric(kind: str) -> None:
    policy, mirror = make_policy(kind)
    agreement = Agreement(Augmentation(FLIP), 1.0, mirror)
    seen = pictures(32)
    before = lopsidedness(policy, mirror, seen)
    for _ in range(60):
        told, value = policy.read(seen)
        apart, values_apart = agreement(policy, seen, told, value, agreement.draw(torch.arange(32)))
        policy.optimizer.zero_grad()
        (apart + values_apart).backward()
        policy.optimizer.step()
    assert before > 0.01 and lopsidedness(policy, mirror, seen) < 0.2 * before


def test_real_pictures_are_the_ones_that_stay_put() -> None:
    """A picture that is not changed pulls nothing, and a target is not pulled itself."""
    policy, _ = make_policy("gaussian")
    seen = pictures(4)
    told, value = policy.read(seen)
    agreement = Agreement(Augmentation(AugmentationConfig(shift=2)), 0.5, None)
    draws = torch.full((2, 2), 0.5)
    still = agreement(policy, seen, told, value, draws)
    assert max(x.item() for x in still) < 1e-9
    wanted = told.detach().requires_grad_()
    apart, _ = agreement(policy, seen, wanted, value, torch.zeros(2, 2))
    apart.backward()
    assert wanted.grad is None and apart.item() > 0
    assert agreement.draw(torch.arange(10)).shape == (2, 5)


@pytest.mark.parametrize("kind", SPREADS)
def test_ppo_learns_with_all_changes_at_once_and_says_how_far_they_are(kind: str) -> None:
    actions = "discrete" if kind == "discrete" else "continuous"
    policy = "gaussian" if kind == "discrete" else kind
    model = ppo(world(actions), augment=EVERYTHING, policy=policy)
    model.learn_segment(0, 0, 32)
    told = model.logger.name_to_value
    assert told["train/augmented_kl"] > 0 and told["train/augmented_value_loss"] > 0


def test_ppo_with_flips_drives_more_symmetrically_than_without() -> None:
    found = []
    for settings in ({}, {"augment": FLIP, "augment_weight": 10.0, "augment_share": 1.0}):
        model = ppo(learning_rate=3e-3, **settings)
        assert isinstance(model.policy, ActorCritic)
        torch.nn.init.normal_(model.policy.action_net.weight)
        model.learn_segment(0, 0, 256)
        seen = torch.as_tensor(world().reset()).permute(0, 3, 1, 2)
        found.append(lopsidedness(model.policy, make_mirror(BOX, None), seen))
    assert found[1] < 0.5 * found[0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_update_changes_pictures_in_its_own_way(device: str) -> None:
    """Also where updates are captured, which a draw made on the way would be made once for all."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    model = ppo(device=device, augment=EVERYTHING, augment_share=1.0, learning_rate=1e-12)
    model.learn_segment(0, 0, 32)
    descend = model._gradient_step(model.rollout_buffer)  # type: ignore[arg-type]
    chosen, reach = torch.arange(16, device=device), torch.tensor(0.2, device=device)
    first, second = (
        dict(zip(descend.names, descend(chosen, reach).tolist(), strict=True)) for _ in range(2)
    )
    assert first["augmented_kl"] != second["augmented_kl"]
    assert first["value_loss"] == pytest.approx(second["value_loss"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("kind", ["gaussian", "discrete"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_compiled_updates_pull_as_plain_ones_do(kind: str, device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    actions = "discrete" if kind == "discrete" else "continuous"
    policy = "gaussian" if kind == "discrete" else kind
    told = []
    for compiled in (False, True):
        env = world(actions, device=device)
        model = ppo(env, compiled, device, augment=EVERYTHING, policy=policy)
        model.learn_segment(0, 0, 64)
        told.append(model.logger.name_to_value)
    assert told[1]["train/augmented_kl"] > 0
    if device == "cpu":  # a GPU draws otherwise while it captures
        for name in ("train/augmented_kl", "train/augmented_value_loss", "train/loss"):
            assert told[0][name] == pytest.approx(told[1][name], rel=0.02, abs=1e-5), name


def test_the_ratio_is_that_of_what_was_really_seen() -> None:
    """Before the first step of an update it is 1, whatever is done to pictures."""
    model = ppo(augment=AugmentationConfig(crop=0.5, flip=0.5), batch_size=32, epochs=1)
    model.learn_segment(0, 0, 32)  # one rollout, one minibatch
    assert abs(model.logger.name_to_value["train/approx_kl"]) < 1e-6


# --- off is off ----------------------------------------------------------------------------------


def test_without_changes_nothing_is_drawn_and_nothing_judged_twice() -> None:
    model = ppo()
    model.learn_segment(0, 0, 32)
    descend = model._gradient_step(model.rollout_buffer)  # type: ignore[arg-type]
    before = torch.get_rng_state()
    inputs = descend.fetch(torch.arange(16), torch.tensor(0.2))
    assert set(inputs[7:]) == {None} and torch.equal(before, torch.get_rng_state())
    looks: list[int] = []
    model.policy.features_extractor.register_forward_hook(lambda *_: looks.append(1))
    descend.module(*inputs)
    assert len(looks) == 1
    assert "augmented_kl" not in descend.names


def weights_after(config: Any, segments: int = 2) -> list[Tensor]:
    model = make_learner(config, world(stack=2), "cpu", 0, 1000)
    for segment in range(segments):
        model.learn_segment(3, segment, 48)
    return [value.clone() for value in model.policy.state_dict().values()]


def test_the_short_name_of_a_shift_is_the_long_one_and_what_it_always_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    common: dict[str, Any] = {"envs": 4, "stack": 2, "net": (8,), "features": 8, "batch_size": 8,
                              "warm_up": 16, "replay_size": 200}  # fmt: skip
    short = weights_after(SACConfig(**common, shift=2))
    long = weights_after(SACConfig(**common, augment=AugmentationConfig(shift=2)))
    assert all(map(torch.equal, short, long))

    def as_ever(self: OffPolicy, samples: Any, _: Augmentation) -> Any:
        changed = {}
        for name in ("observations", "next_observations"):
            seen = getattr(samples, name)
            down, right = (torch.rand(2, len(seen)) * 5).to(torch.int64) - 2
            padded = torch.nn.functional.pad(seen.float(), (2, 2, 2, 2), mode="replicate")
            moves = zip(padded, down + 2, right + 2, strict=True)
            cut = [picture[:, y : y + 36, x : x + 40] for picture, y, x in moves]
            changed[name] = torch.stack(cut).to(torch.uint8)
        return samples._replace(**changed)

    monkeypatch.setattr(OffPolicy, "_changed", as_ever)
    assert all(map(torch.equal, short, weights_after(SACConfig(**common, shift=2))))


def test_a_segment_done_again_ends_in_the_same_weights() -> None:
    config = PPOConfig(envs=4, steps=12, batch_size=16, epochs=1, features=8, net=(8,),
                       augment=EVERYTHING)  # fmt: skip
    assert all(map(torch.equal, weights_after(config), weights_after(config)))


# --- replays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["sac", "dqn"])
def test_a_replayed_flip_mirrors_both_pictures_and_the_action(agent: str) -> None:
    kind = DQNConfig if agent == "dqn" else SACConfig
    config = kind(envs=4, net=(8,), features=8, batch_size=8, warm_up=16, replay_size=200,
                  augment=AugmentationConfig(flip=0.5))  # fmt: skip
    env = world("discrete" if agent == "dqn" else "continuous")
    model = make_learner(config, env, "cpu", 0, 1000)
    assert isinstance(model, OffPolicy) and model._augmentation is not None
    model.learn_segment(0, 0, 40)
    samples = model.replay_buffer.sample(64)
    torch.manual_seed(5)
    changed = model._changed(samples, model._augmentation)
    batch = env.batch
    assert isinstance(batch, Interface)
    shown = mirrored(samples.actions, make_mirror(env.action_space, batch.table))
    flipped = (changed.observations != samples.observations).flatten(1).any(1)
    assert 10 < int(flipped.sum()) < 54
    for place in range(64):
        for name in ("observations", "next_observations"):
            old, new = getattr(samples, name)[place], getattr(changed, name)[place]
            assert torch.equal(new, old.flip(2) if flipped[place] else old)
        wanted = shown if flipped[place] else samples.actions
        assert torch.equal(changed.actions[place], wanted[place])
    assert torch.equal(changed.rewards, samples.rewards)


# --- refusals ------------------------------------------------------------------------------------


def test_numbers_are_refused_before_anything_is_driven() -> None:
    with pytest.raises(ValueError, match="only pictures can be shifted"):
        ppo(world(task="donkey-telemetry"), augment=FLIP)


def test_other_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="for hotlap's own policies; leave augment out"):
        PPO("CnnPolicy", world(), n_steps=8, batch_size=16, augment=FLIP)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"augment_weight": 0.0}, "augment_weight must be positive.* leave augment out"),
        ({"augment_share": 0.0}, "augment_share must lie in"),
    ],
)
def test_ppo_refuses_what_would_change_nothing(setting: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PPOConfig(**setting)  # type: ignore[arg-type]


def test_a_shift_that_is_set_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="the same setting; leave one out"):
        SACConfig(shift=2, augment=AugmentationConfig(shift=3))
    assert SACConfig(shift=2).augmentation == AugmentationConfig(shift=2)
