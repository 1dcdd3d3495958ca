"""Advantages worked out by hand, and against Stable-Baselines3's."""

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer

from hotlap.learning.advantages import estimate_advantages


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(1)


def test_two_steps_by_hand() -> None:
    # errors: 1 + 0.5 * 4 - 2 = 1 and 3 + 0.5 * 6 - 4 = 2; the first adds 0.5 * 0.5 * 2.
    found = estimate_advantages(
        column(1.0, 3.0), column(2.0, 4.0), torch.tensor([6.0]), column(0.0, 0.0), 0.5, 0.5
    )
    assert found.flatten().tolist() == [1.5, 2.0]


def test_nothing_passes_from_one_episode_to_the_one_before() -> None:
    # The first step ends its episode: its error is 1 - 2, whatever comes after.
    found = estimate_advantages(
        column(1.0, 3.0), column(2.0, 4.0), torch.tensor([6.0]), column(1.0, 0.0), 0.5, 0.5
    )
    assert found.flatten().tolist() == [-1.0, 2.0]


def test_they_are_those_of_stable_baselines() -> None:
    steps, envs = 40, 7
    draw = np.random.default_rng(3)
    space = spaces.Box(-1, 1, (2,))
    theirs = RolloutBuffer(steps, space, space, gamma=0.97, gae_lambda=0.9, n_envs=envs)
    rewards, values = draw.normal(size=(2, steps, envs)).astype(np.float32)
    done = draw.random((steps, envs)) < 0.1
    last = torch.as_tensor(draw.normal(size=envs).astype(np.float32))
    nothing = np.zeros((envs, 2))
    for t in range(steps):
        starts = np.zeros(envs) if t == 0 else done[t - 1]
        value = torch.as_tensor(values[t])
        theirs.add(nothing, nothing, rewards[t], starts, value, torch.zeros(envs))
    theirs.compute_returns_and_advantage(last, done[-1])
    tensors = [torch.as_tensor(x) for x in (rewards, values)]
    ended = torch.as_tensor(done.astype(np.float32))
    ours = estimate_advantages(*tensors, last, ended, 0.97, 0.9)
    torch.testing.assert_close(ours, torch.as_tensor(theirs.advantages), atol=1e-5, rtol=1e-5)
