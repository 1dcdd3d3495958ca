"""The mean of a policy's weights over its latest updates.

Updates overshoot, each in its own direction, and a policy that drives well on the whole may crash
after any one of them. The mean of the weights lies in the middle: it drives as a policy does whose
learning rate was brought to nothing, at any time.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """Keeps the mean, and lends it to the policy.

    Args:
        policy: Whose weights are averaged; its buffers are taken as they are.
        over: Updates that count; older ones fade.
    """

    def __init__(self, policy: nn.Module, over: int) -> None:
        self.over, self.count = over, 0
        self._parameters = list(policy.parameters())
        self._mean = [parameter.detach().clone() for parameter in self._parameters]

    @torch.no_grad()
    def note(self) -> None:
        """An update was made."""
        self.count += 1
        torch._foreach_lerp_(self._mean, self._now(), 1 / min(self.count, self.over))

    @contextmanager
    def lent(self) -> Iterator[None]:
        """The policy drives with the mean."""
        if not self.count:
            yield
            return
        own = [value.clone() for value in self._now()]
        torch._foreach_copy_(self._now(), self._mean)
        try:
            yield
        finally:
            torch._foreach_copy_(self._now(), own)

    def tensors(self) -> dict[str, Tensor]:
        """The mean by name, to be saved."""
        return {f"average/{place}": value.clone() for place, value in enumerate(self._mean)}

    def load(self, tensors: dict[str, Tensor], count: int) -> None:
        """Take a saved mean back."""
        self.count = count
        for place, value in enumerate(self._mean):
            value.copy_(tensors[f"average/{place}"])

    def _now(self) -> list[Tensor]:
        # Looked up each time: a learner may move its weights to where they stay.
        return [parameter.data for parameter in self._parameters]
