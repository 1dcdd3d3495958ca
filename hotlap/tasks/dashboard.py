"""A strip below every picture that shows what the learner itself has commanded.

A camera hardly shows how fast it goes, and throttle and steering act late. A driver knows what its
own hands and feet did: for every number of an action the strip shows the latest command, and means
of the last half second and of the last two, as bars. Nothing is measured; no sensor is added.

    B environments, A numbers in an action, pictures (B, H, W, C) of bytes.
"""

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

ROWS = 4
"""Height of the strip."""
DARK, BRIGHT = 96, 160
"""Shades of the bars: no further apart than the parts of a road, so that pictures which are given
mean 0 and spread 1 keep theirs."""
MEMORY = (1.0, 10.0, 40.0)
"""Steps over which commands are averaged, each with a bar of its own."""


class Dashboard:
    """Remembers commands and draws them.

    Args:
        actions: What is commanded.
        pictures: What is seen without it.
    """

    def __init__(self, actions: spaces.Box, pictures: spaces.Box, device: torch.device) -> None:
        if len(pictures.shape) != 3 or pictures.dtype != np.uint8:
            raise ValueError(f"a dashboard is for pictures, this task shows {pictures}")
        self._low, self._high = (
            torch.tensor(end, dtype=torch.float32, device=device)
            for end in (actions.low, actions.high)
        )
        self._share = 1 / torch.tensor(MEMORY, device=device)
        height, width, channels = pictures.shape
        self.observation_space = spaces.Box(0, 255, (height + ROWS, width, channels), np.uint8)
        self._count = len(self._low) * len(MEMORY)
        if width < 4 * self._count:
            raise ValueError(f"{self._count} bars need {4 * self._count} columns, got {width}")
        self._width, self._bar = width, width // self._count
        self._left = torch.arange(self._bar, device=device, dtype=torch.float32)
        self.kept = self.before = torch.empty(0)
        """Means of commands (B, A, M), 0 at the lowest and 1 at the highest; and those before
        anything began anew in the latest step."""

    @property
    def begun(self) -> bool:
        """Whether anybody is there."""
        return len(self.kept) > 0

    def begin(self, count: int) -> None:
        """Everybody has commanded nothing yet."""
        self.kept = self._rest().repeat(count, 1, 1)

    def begin_some(self, mask: Tensor) -> None:
        """Those in a mask (B,) begin anew."""
        self.kept = torch.where(mask.view(-1, 1, 1), self._rest(), self.kept)

    def note(self, action: Tensor) -> None:
        """Commands (B, A) were given."""
        command = (action.to(self._low) - self._low) / (self._high - self._low)
        self.before = self.kept.lerp(command.clamp(0, 1).unsqueeze(-1), self._share)
        self.kept = self.before

    def draw(self, pictures: Tensor, kept: Tensor | None = None) -> Tensor:
        """Pictures (B, H, W, C) with the strip below, of means as they are or as given."""
        kept = self.kept if kept is None else kept
        filled = (kept.flatten(1).unsqueeze(-1) * self._bar - self._left).clamp(0, 1)
        row = (DARK + filled * (BRIGHT - DARK)).to(torch.uint8).flatten(1)  # (B, bars * columns)
        strip = pictures.new_full((len(row), ROWS, self._width, pictures.shape[-1]), DARK)
        strip[:, :, : row.shape[1]] = row[:, None, :, None]
        return torch.cat([pictures, strip], 1)

    def load(self, saved: Tensor) -> Tensor:
        """Go on from means that were kept."""
        self.kept = saved.to(self._low.device).clone()
        return self.kept

    def _rest(self) -> Tensor:
        """Commands of 0 (A, M)."""
        rest = (-self._low / (self._high - self._low)).clamp(0, 1)
        return rest.unsqueeze(-1).expand(-1, len(MEMORY))
