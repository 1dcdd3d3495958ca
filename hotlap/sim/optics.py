"""What a cheap lens and sensor do to a picture: blur and noise.

    B pictures (B, H, W, C) uint8 in, the same out; C is 1 or 3.
    strength  of the noise: its standard deviation in grey levels        (B,)
              of the blur: 0 for a sharp picture, 1 for a 3 x 3 binomial (B,)
    strip     a long line of normal noise; a picture's noise is a stretch of it

Sums are done in 16-bit integers, which a CPU adds sixteen at a time and all devices agree on. A
stretch starts at one of many places (4094 for 160x120x3, 5 for a grey 8x8) and may be negated, so
noise repeats too rarely for a policy to learn it, and costs a copy instead of a draw. Either step
is switched off by passing None.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from hotlap.config.randomisation import STRONGEST_NOISE
from hotlap.sim.random import integers

STRIP_FRAMES = 16
"""Length of the strip, in pictures."""
STARTS_APART = 211
"""Values between places where a stretch may start; prime, so that it never lines up with rows."""
UNIT = 32
"""Standard deviation of the strip's values."""
BLUR_STEPS = 8
"""Strengths of blur are rounded to this many steps, for the same reason."""
CHUNK = 16
"""Pictures done at a time without a compiler: more would leave the processor's cache."""


def make_strip(
    height: int, width: int, channels: int, device: torch.device | str = "cpu"
) -> Tensor:
    """The strip of noise for pictures of one size, int16."""
    draw = np.random.Generator(np.random.PCG64([height, width, channels]))
    values = draw.normal(0, UNIT, STRIP_FRAMES * height * width * channels)
    whole = np.round(np.clip(values, -4 * UNIT, 4 * UNIT)).astype(np.int16)
    return torch.as_tensor(whole, device=device)


def add_noise(pictures: Tensor, strip: Tensor | None, strength: Tensor, key: Tensor) -> Tensor:
    """Pictures as a noisy sensor sees them.

    Args:
        pictures: (B, H, W, C) uint8.
        strip: From `make_strip`; None leaves the pictures as they are.
        strength: Standard deviation in grey levels (B,).
        key: Random key of each picture (B,).
    """
    if strip is None:
        return pictures
    return _in_chunks(partial(_add_noise, strip), pictures, strength, key)


def _add_noise(strip: Tensor, pictures: Tensor, strength: Tensor, key: Tensor) -> Tensor:
    size = pictures[0].numel()
    stretches = strip.unfold(0, size, STARTS_APART)  # a view: overlapping stretches of the strip
    draws = integers(key, 2 * stretches.shape[0])[..., 0]
    sign = 1 - 2 * (draws % 2)
    gain = torch.round(strength.clamp(0.0, STRONGEST_NOISE) * (256 / UNIT)).to(torch.int64) * sign
    noise = stretches.index_select(0, draws // 2)
    noise = noise.mul_(gain.to(torch.int16).unsqueeze(-1)).add_(128).bitwise_right_shift_(8)
    values = pictures.reshape(-1, size).to(torch.int16).add_(noise).clamp_(0, 255)
    return values.to(torch.uint8).view(pictures.shape)


def blur(pictures: Tensor, strength: Tensor | None) -> Tensor:
    """Pictures through a soft lens. The outermost pixels stay sharp.

    Args:
        pictures: (B, H, W, C) uint8.
        strength: 0 (sharp) to 1 (3 x 3 binomial) (B,); None leaves the pictures as they are.
    """
    return pictures if strength is None else _in_chunks(_blur, pictures, strength)


def _blur(pictures: Tensor, strength: Tensor) -> Tensor:
    batch, height, width, channels = pictures.shape
    sharp = pictures.reshape(batch, height, width * channels).to(torch.int16)
    # Neighbours added pairwise, twice each way, are weighed 1 2 1: 16 times the blurred picture.
    soft = sharp
    for dim, step in ((2, channels), (2, channels), (1, 1), (1, 1)):
        size = soft.shape[dim] - step
        soft = soft.narrow(dim, 0, size) + soft.narrow(dim, step, size)
    inner = sharp[:, 1:-1, channels:-channels]
    share = torch.round(strength.clamp(0.0, 1.0) * BLUR_STEPS).to(torch.int16).view(-1, 1, 1)
    inner = inner * ((BLUR_STEPS - share) * 16)  # 16 * 8 * 255 + 64 still fits 16 bits
    mixed = soft.mul_(share).add_(inner).add_(8 * BLUR_STEPS).bitwise_right_shift_(7)
    blurred = pictures.clone(memory_format=torch.contiguous_format)
    blurred[:, 1:-1, 1:-1] = mixed.view(batch, height - 2, width - 2, channels)
    return blurred


def _in_chunks(step: Callable[..., Tensor], pictures: Tensor, *settings: Tensor) -> Tensor:
    """`step` of pictures and their settings (B,), a few at a time where that is faster."""
    if torch.compiler.is_compiling() or pictures.is_cuda or len(pictures) <= CHUNK:
        return step(pictures, *settings)
    parts = zip(*(part.split(CHUNK) for part in (pictures, *settings)), strict=True)
    return torch.cat([step(*part) for part in parts])
