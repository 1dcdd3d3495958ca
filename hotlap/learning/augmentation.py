"""Pictures changed at random, so that nothing is learned from what does not matter in them.

    N pictures of C channels, H x W, as bytes. All channels of a picture, and so all frames of a
    stack, are changed alike.
    draws   numbers within 0..1 that decide the changes, a row for each kind  (D, N)

Shifts follow DrQ (https://arxiv.org/abs/2004.13649). Given its draws, a change is a plain function
of the pictures: it can be compiled and captured, and the draws can be made elsewhere.
"""

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from torch import Tensor

from hotlap.config.augmentation import AugmentationConfig
from hotlap.config.randomisation import ONE, Range

MIDDLE = 127.5
"""The grey level that contrast leaves alone."""
SHARP = 1e-3
"""A blur of fewer pixels than this is none."""
FARTHEST = 36.0
"""Square of the distance, in standard deviations, beyond which a blur takes nothing."""


class Augmentation:
    """Changes pictures as settings say.

    Args:
        config: The settings.
    """

    def __init__(self, config: AugmentationConfig) -> None:
        self.config = config
        kinds = {
            ("down", "right"): config.shift > 0,
            ("keep", "top", "left"): config.crop < 1,
            ("blur",): config.blur > 0,
            ("flip",): config.flip > 0,
            ("brightness",): config.brightness != ONE,
            ("contrast",): config.contrast != ONE,
        }
        names = [name for kind, wanted in kinds.items() if wanted for name in kind]
        self.rows = {name: row for row, name in enumerate(names)}
        """Which draw decides what."""

    def draw(self, count: int, device: torch.device | str) -> Tensor:
        """Draws (D, N) for so many pictures, by torch's own generator."""
        return torch.rand(len(self.rows), count, device=device)

    def draw_again(self, draws: Tensor) -> Tensor:
        """Other draws, for what came after the pictures: flipped where those were."""
        fresh = self.draw(draws.shape[1], draws.device)
        if "flip" in self.rows:
            fresh[self.rows["flip"]] = draws[self.rows["flip"]]
        return fresh

    def flipped(self, draws: Tensor) -> Tensor:
        """Which pictures (N,) have left and right exchanged."""
        if "flip" not in self.rows:
            return torch.zeros_like(draws[0], dtype=torch.bool)
        return draws[self.rows["flip"]] < self.config.flip

    def __call__(self, pictures: Tensor, draws: Tensor) -> Tensor:
        """Changed pictures (N, C, H, W)."""
        smooth = "keep" in self.rows or "blur" in self.rows
        if not smooth and not {"down", "flip"}.isdisjoint(self.rows):
            pictures = pick(pictures, *self._places(pictures, draws))
        if not smooth and {"brightness", "contrast"}.isdisjoint(self.rows):
            return pictures
        levels = pictures
        if smooth:
            ways = (self._way(places, draws) for places in self._places(pictures, draws))
            levels = resample(pictures, *ways)
        levels = self._light(levels.float(), draws)
        return levels.round().clamp(0, 255).to(pictures.dtype)

    def _places(self, pictures: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Where the rows (N, H) and the columns (N, W) of changed pictures lie in the old ones."""
        height, width = pictures.shape[2:]
        rows = self._axis(height, draws, "down", "top")
        columns = self._axis(width, draws, "right", "left")
        if "flip" in self.rows:
            columns = torch.where(self.flipped(draws).unsqueeze(1), columns.flip(1), columns)
        return rows, columns

    def _axis(self, size: int, draws: Tensor, move: str, start: str) -> Tensor:
        places = torch.arange(size, device=draws.device).expand(draws.shape[1], size)
        if start in self.rows:
            keep = _within(draws[self.rows["keep"]], (self.config.crop, 1.0)).unsqueeze(1)
            begin = draws[self.rows[start]].unsqueeze(1) * (1 - keep) * size
            places = begin + (places + 0.5) * keep - 0.5
        if move in self.rows:
            reach = self.config.shift
            steps = (draws[self.rows[move]] * (2 * reach + 1)).to(torch.int64) - reach
            places = places + steps.unsqueeze(1)
        return places.clamp(0, size - 1)

    def _way(self, places: Tensor, draws: Tensor) -> Tensor:
        """What each new line (N, S) is mixed of (N, S, S)."""
        mixed = between(places)
        if "blur" not in self.rows:
            return mixed
        sigma = draws[self.rows["blur"]] * self.config.blur
        return blurring(sigma, places.shape[1]) @ mixed

    def _light(self, levels: Tensor, draws: Tensor) -> Tensor:
        """Grey levels in another light."""
        if "contrast" in self.rows:
            factor = _within(draws[self.rows["contrast"]], self.config.contrast)
            levels = (levels - MIDDLE) * factor.view(-1, 1, 1, 1) + MIDDLE
        if "brightness" in self.rows:
            factor = _within(draws[self.rows["brightness"]], self.config.brightness)
            levels = levels * factor.view(-1, 1, 1, 1)
        return levels


def make_augmentation(config: AugmentationConfig, seen: spaces.Space) -> Augmentation | None:
    """What settings ask for, of what a policy sees (C, H, W); None where they ask for nothing."""
    if not config.active:
        return None
    if not is_image_space(seen):
        raise ValueError(
            f"only pictures can be shifted, cropped, blurred, flipped or relit, not {seen}; "
            "leave augment out, or train on a task with a camera, such as donkey"
        )
    smallest = min(seen.shape[1:])  # type: ignore[index]
    if config.shift >= smallest:
        raise ValueError(
            f"a shift of {config.shift} pixels can move a picture of {smallest} out of sight; "
            "2 to 4 is usual"
        )
    return Augmentation(config)


def pick(pictures: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Pictures (N, C, H, W) made of other rows (N, H) and columns (N, W) of themselves."""
    count, channels, height, width = pictures.shape
    # Rows first, as whole lines are copied at once; then within lines. On a CPU this is six times
    # faster than indexing both together.
    lines = torch.arange(count * channels, device=pictures.device).view(count, channels, 1)
    lines = (lines * height + rows.unsqueeze(1)).flatten()
    moved = pictures.reshape(-1, width).index_select(0, lines).view(pictures.shape)
    return moved.gather(3, columns.view(count, 1, 1, width).expand_as(moved))


def resample(pictures: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Pictures whose rows and columns are mixed of old ones by (N, H, H) and (N, W, W).

    Enlarging and blurring are sums along rows and along columns, and so products of matrices, which
    every device is good at.
    """
    count, channels, height, width = pictures.shape
    lines = pictures.permute(0, 2, 1, 3).float().reshape(count, height, channels * width)
    lines = (down @ lines).reshape(count, height * channels, width) @ across.transpose(1, 2)
    return lines.view(count, height, channels, width).permute(0, 2, 1, 3)


def between(places: Tensor) -> Tensor:
    """Shares (N, S, S) of the two lines that each place (N, S) lies between."""
    lines = torch.arange(places.shape[1], device=places.device, dtype=torch.float32)
    return (1 - (places.unsqueeze(2).float() - lines).abs()).clamp(min=0)


def blurring(sigma: Tensor, size: int) -> Tensor:
    """Shares (N, S, S) of all lines in blurred ones, for standard deviations (N,)."""
    lines = torch.arange(size, device=sigma.device, dtype=sigma.dtype)
    apart = (lines.unsqueeze(1) - lines).square() / sigma.clamp(min=SHARP).square().view(-1, 1, 1)
    # Without the smallest shares, with which a CPU reckons ten times slower.
    shares = torch.exp(-0.5 * apart.clamp(max=FARTHEST)) * (apart < FARTHEST)
    return shares / shares.sum(2, keepdim=True)


def _within(draw: Tensor, limits: Range) -> Tensor:
    low, high = limits
    return low + (high - low) * draw
