"""From what is seen to features.

    N pictures of C channels, H rows, W columns, channels first; bytes, or floats within 0..1.

Pictures come as bytes and become numbers here, in one pass. Memory keeps the channels of a pixel
together (channels last), which convolutions on CPUs are a third faster with.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space_channels_first
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor, NatureCNN
from torch import Tensor, nn
from torch.nn.functional import conv2d, relu

SMALLEST = {"nature": 36, "small": 20}
"""Rows and columns that the strides of an encoder leave something of."""
FAINTEST = 0.02
"""Spread of a picture, as a share of full scale, below which it is not made much stronger."""


def arithmetic(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """The context in which nets reckon in float32 or in bfloat16."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, getattr(torch, precision))


def as_numbers(pictures: Tensor) -> Tensor:
    """Pictures within 0..1, in the type that arithmetic is done in."""
    if pictures.dtype != torch.uint8:
        return pictures
    return pictures.to(_reckoned_in(pictures)) * (1 / 255)


def _reckoned_in(pictures: Tensor) -> torch.dtype:
    """The type that arithmetic is done in."""
    if torch.is_autocast_enabled(pictures.device.type):
        return torch.get_autocast_dtype(pictures.device.type)
    return torch.float32


def standardised(pictures: Tensor) -> Tensor:
    """Pictures with mean 0 and spread 1 each, all their channels together.

    Roads are dark and even: of bytes taken as shares of 255, hardly anything differs from picture
    to picture, and a net learns from that slowly.
    """
    if pictures.is_cuda and pictures.dtype == torch.uint8 and torch.compiler.is_compiling():
        variance, mean = byte_moments(pictures)
        scaled = (pictures - mean) * torch.rsqrt(variance + (255 * FAINTEST) ** 2)
        return scaled.to(_reckoned_in(pictures))
    numbers = as_numbers(pictures)
    variance, mean = torch.var_mean(numbers.float(), dim=(1, 2, 3), correction=0, keepdim=True)
    return ((numbers - mean) * torch.rsqrt(variance + FAINTEST**2)).to(numbers.dtype)


def byte_moments(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Variance and mean (N, 1, 1, 1) of each picture's bytes, read four at a time.

    A GPU that reads them one by one, in the order in which they are wanted afterwards, spends three
    times as long on its sums as on its memory.
    """
    rows = pictures.permute(0, 2, 3, 1).flatten(1)
    count = rows.shape[1]
    if count % 4:
        variance, mean = torch.var_mean(rows.float(), dim=1, correction=0)
    else:
        words = rows.view(torch.int32)
        a, b, c, d = ((words >> shift) & 255 for shift in (0, 8, 16, 24))
        mean = (a + b + c + d).float().sum(1) / count
        square = (a * a + b * b + c * c + d * d).float().sum(1) / count
        variance = (square - mean**2).clamp(min=0.0)
    return variance.view(-1, 1, 1, 1), mean.view(-1, 1, 1, 1)


def conv_by_blocks(pictures: Tensor, conv: nn.Conv2d) -> Tensor:
    """A convolution whose kernel is two strides wide, as a 2x2 one over blocks of pixels.

    The sums are the same; with few channels a GPU's matrix units are idle in the plain form, and
    with those of a block they are not (H200, three layers on 84x84x1, forward and backward: 1.35M
    pictures/s; with blocks in the first layer 2.9M, in the first two 3.6M).
    """
    n, c, h, w = pictures.shape
    out, step = conv.out_channels, conv.stride[0]
    rows, columns = h // step, w // step
    last = pictures.permute(0, 2, 3, 1)[:, : rows * step, : columns * step]
    blocks = last.reshape(n, rows, step, columns, step, c).permute(0, 1, 3, 2, 4, 5)
    blocks = as_numbers(blocks.reshape(n, rows, columns, step * step * c)).permute(0, 3, 1, 2)
    weight = conv.weight.reshape(out, c, 2, step, 2, step).permute(0, 3, 5, 1, 2, 4)
    return conv2d(blocks, weight.reshape(out, step * step * c, 2, 2), conv.bias)


class Nature(NatureCNN):
    """The usual three layers; the same weights as Stable-Baselines3's, other ways through them.

    Args:
        observation_space: Pictures, channels first.
        features_dim: Number of features.
        normalized_image: Taken for Stable-Baselines3's sake.
        standardise: Give every picture mean 0 and spread 1 first.
    """

    def __init__(
        self,
        observation_space: spaces.Box,
        features_dim: int = 512,
        normalized_image: bool = False,
        standardise: bool = False,
    ) -> None:
        super().__init__(observation_space, features_dim, normalized_image)
        self.standardise = standardise

    def forward(self, observations: Tensor) -> Tensor:
        """Features (N, F)."""
        seen = standardised(observations) if self.standardise else observations
        return self.linear(_through(self.cnn, seen))


class Small(BaseFeaturesExtractor):
    """Two thin layers, for pictures that a CPU is to learn from.

    Args:
        observation_space: Pictures, channels first.
        features_dim: Number of features.
        standardise: Give every picture mean 0 and spread 1 first.
    """

    def __init__(
        self, observation_space: spaces.Box, features_dim: int = 64, standardise: bool = False
    ) -> None:
        super().__init__(observation_space, features_dim)
        self.standardise = standardise
        channels = observation_space.shape[0]
        self.cnn = nn.Sequential(
            nn.Conv2d(channels, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        with torch.no_grad():
            size = self.cnn(torch.zeros(1, *observation_space.shape)).shape[1]
        self.linear = nn.Sequential(nn.Linear(size, features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Features (N, F)."""
        seen = standardised(observations) if self.standardise else observations
        return self.linear(_through(self.cnn, seen))


def _through(layers: nn.Sequential, pictures: Tensor) -> Tensor:
    """Pictures through the convolutions, on a GPU by blocks where that is faster."""
    if pictures.device.type == "cpu":
        return layers(as_numbers(pictures))
    first, second = layers[0], layers[2]
    assert isinstance(first, nn.Conv2d) and isinstance(second, nn.Conv2d)
    seen = relu(conv_by_blocks(pictures, first))
    if torch.compiler.is_compiling():  # otherwise rearranging costs more than it saves
        return layers[3:](conv_by_blocks(seen, second))
    return layers[2:](seen)


class Scaled(BaseFeaturesExtractor):
    """Numbers scaled to mean 0 and spread 1, as seen so far; the scale is saved with the weights.

    Args:
        observation_space: A row of numbers.
        features_dim: Ignored; as many features as numbers.
    """

    REACH = 10.0
    """Scaled numbers are cut off at this size."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 0) -> None:
        size = int(observation_space.shape[0])
        super().__init__(observation_space, size)
        self.mean: Tensor
        self.spread: Tensor
        self.count: Tensor
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("spread", torch.ones(size))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, observations: Tensor) -> Tensor:
        """Features (N, F)."""
        scaled = (observations.float() - self.mean) / (self.spread + 1e-6)
        return scaled.clamp(-self.REACH, self.REACH)

    @torch.no_grad()
    def learn_from(self, seen: Tensor) -> None:
        """Take observations (N, F) into account."""
        new_mean, new_var, new_count = seen.mean(0), seen.var(0, unbiased=False), len(seen)
        total = self.count + new_count
        off = new_mean - self.mean
        share = new_count / total
        variance = self.spread**2 * (1 - share) + new_var * share + off**2 * share * (1 - share)
        self.mean.add_(off * share)
        self.spread.copy_(variance.sqrt())
        self.count.copy_(total)


def find_encoder(
    kind: str, space: spaces.Box, scaled: bool, features: int, standardise: bool = False
) -> tuple[type[BaseFeaturesExtractor] | None, dict[str, int | bool]]:
    """The class of an encoder and its arguments; None is the policy's own (numbers as they are)."""
    if standardise and (len(space.shape) != 3 or kind == "flat"):
        raise ValueError(
            "standardise is for pictures that a CNN looks at; leave it out where numbers are seen "
            "(normalise_observations scales those), and with the encoder flat"
        )
    if len(space.shape) != 3:
        return (Scaled, {}) if scaled else (None, {})
    if kind == "flat":
        return FlattenExtractor, {}  # by name: what a learner takes for pictures is a CNN
    kind = "nature" if kind == "nature" else "small"
    _refuse_too_small(kind, space)
    arguments: dict[str, int | bool] = {"features_dim": features} if features else {}
    if standardise:  # left out otherwise, as files written before it have it
        arguments["standardise"] = True
    return {"nature": Nature, "small": Small}[kind], arguments


def _refuse_too_small(kind: str, space: spaces.Box) -> None:
    channels = 0 if is_image_space_channels_first(space) else 2
    rows, columns = (side for k, side in enumerate(space.shape) if k != channels)
    least = SMALLEST[kind]
    if min(rows, columns) < least:
        other = "small" if min(rows, columns) >= SMALLEST["small"] else "flat"
        raise ValueError(
            f"the encoder {kind} takes pictures from {least}x{least} up, and these are "
            f"{columns}x{rows} (width x height): make them larger, or take the encoder {other}"
        )
