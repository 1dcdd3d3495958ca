"""Rewards scaled so that returns have spread 1."""

import torch
from torch import Tensor


class RewardScale:
    """Divides rewards by the spread of discounted returns, as seen so far."""

    def __init__(self) -> None:
        self.mean = 0.0
        self.variance = 1.0
        self.count = 0.0
        self.running: Tensor | None = None
        """Discounted sum of rewards so far (B,)."""

    def apply(self, rewards: Tensor, done: Tensor, gamma: float) -> None:
        """Take rewards (T, B) into account, then scale them in place."""
        running = torch.zeros_like(rewards[0]) if self.running is None else self.running
        returns = torch.empty_like(rewards)
        for t in range(len(rewards)):
            returns[t] = running = running * gamma + rewards[t]
            running = torch.where(done[t], 0.0, running)
        self.running = running
        mean, variance, count = float(returns.mean()), float(returns.var()), returns.numel()
        total = self.count + count
        share, off = count / total, mean - self.mean
        self.variance += share * (variance - self.variance + off * off * (1 - share))
        self.mean += off * share
        self.count = total
        rewards.div_((self.variance + 1e-8) ** 0.5)

    def forget_running(self) -> None:
        """All episodes begin anew."""
        self.running = None

    def numbers(self) -> dict[str, float]:
        """What it has learned."""
        return {f"reward_scale.{name}": getattr(self, name) for name in _NAMES}

    def load(self, numbers: dict[str, float]) -> None:
        """Take that back."""
        for name in _NAMES:
            setattr(self, name, numbers[f"reward_scale.{name}"])


_NAMES = ("mean", "variance", "count")
