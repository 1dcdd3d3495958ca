"""Generalised advantages.

T steps, B environments.
alive   1 where an episode goes on after the step, 0 where it ended in it          (T, B)
after   value of what was seen after the step, of the same episode                 (T, B)
"""

import torch
from torch import Tensor


def estimate_advantages(
    rewards: Tensor, values: Tensor, last_values: Tensor, done: Tensor, gamma: float, decay: float
) -> Tensor:
    """Advantages (T, B) by GAE.

    Args:
        rewards: What each step earned (T, B). Where a step was cut off by the clock, the value of
            what was seen last belongs in it, discounted once: the episode would have gone on.
        values: Value of what was seen before each step (T, B).
        last_values: Value of what was seen after the last step (B,).
        done: Where the episode ended in the step, either way (T, B) bool.
        gamma: Discount per step.
        decay: GAE's lambda.
    """
    alive = 1.0 - done.to(rewards.dtype)
    after = torch.cat([values[1:], last_values.unsqueeze(0)])
    errors = rewards + gamma * alive * after - values
    keep = gamma * decay * alive
    advantages = torch.empty_like(errors)
    running = torch.zeros_like(last_values)
    for t in range(len(errors) - 1, -1, -1):
        running = torch.addcmul(errors[t], keep[t], running, out=advantages[t])
    return advantages
