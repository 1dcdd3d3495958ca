"""From what is seen to features.

    N pictures of C channels, H rows, W columns, channels first; bytes, or floats within 0..1.

Pictures come as bytes and become numbers here, in one pass. Memory keeps the channels of a pixel
together (channels last), which convolutions on CPUs are a third faster with.
"""

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from torch import Tensor, nn
from torch.nn.functional import conv2d, relu

BLOCK = 4
"""Stride of a first layer whose kernel is two strides wide."""


def as_numbers(pictures: Tensor) -> Tensor:
    """Pictures within 0..1, in the type that arithmetic is done in."""
    if pictures.dtype != torch.uint8:
        return pictures
    kind = torch.float32
    if torch.is_autocast_enabled(pictures.device.type):
        kind = torch.get_autocast_dtype(pictures.device.type)
    return pictures.to(kind) * (1 / 255)


def conv_by_blocks(pictures: Tensor, conv: nn.Conv2d) -> Tensor:
    """An 8x8 convolution of stride 4, done as a 2x2 one of stride 1 over blocks of 4x4 pixels.

    The sums are the same; with one or three channels a GPU's matrix units are idle in the plain
    form, and with 16 or 48 they are not (H200, 84x84x1, forward and backward: 1.35 to 2.9M/s).
    """
    n, c, h, w = pictures.shape
    rows, columns = h // BLOCK, w // BLOCK
    last = pictures.permute(0, 2, 3, 1)[:, : rows * BLOCK, : columns * BLOCK]
    blocks = last.reshape(n, rows, BLOCK, columns, BLOCK, c).permute(0, 1, 3, 2, 4, 5)
    blocks = as_numbers(blocks.reshape(n, rows, columns, BLOCK * BLOCK * c)).permute(0, 3, 1, 2)
    out = conv.out_channels
    weight = conv.weight.reshape(out, c, 2, BLOCK, 2, BLOCK).permute(0, 3, 5, 1, 2, 4)
    return conv2d(blocks, weight.reshape(out, BLOCK * BLOCK * c, 2, 2), conv.bias)


class Nature(NatureCNN):
    """The usual three layers; the same weights as Stable-Baselines3's, other ways through them.

    Args:
        observation_space: Pictures, channels first.
        features_dim: Number of features.
        normalized_image: Taken for Stable-Baselines3's sake.
    """

    def __init__(
        self,
        observation_space: spaces.Box,
        features_dim: int = 512,
        normalized_image: bool = False,
    ) -> None:
        super().__init__(observation_space, features_dim, normalized_image)
        self.cnn.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, observations: Tensor) -> Tensor:
        """Features (N, F)."""
        return self.linear(_through(self.cnn, observations))


class Small(BaseFeaturesExtractor):
    """Two thin layers, for pictures that a CPU is to learn from.

    Args:
        observation_space: Pictures, channels first.
        features_dim: Number of features.
    """

    def __init__(self, observation_space: spaces.Box, features_dim: int = 64) -> None:
        super().__init__(observation_space, features_dim)
        channels = observation_space.shape[0]
        self.cnn = nn.Sequential(
            nn.Conv2d(channels, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
            nn.Flatten(),
        )  # fmt: skip
        with torch.no_grad():
            size = self.cnn(torch.zeros(1, *observation_space.shape)).shape[1]
        self.linear = nn.Sequential(nn.Linear(size, features_dim), nn.ReLU())
        self.cnn.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, observations: Tensor) -> Tensor:
        """Features (N, F)."""
        return self.linear(_through(self.cnn, observations))


def _through(layers: nn.Sequential, pictures: Tensor) -> Tensor:
    """Pictures through the convolutions, the first by blocks on a GPU."""
    first = layers[0]
    if pictures.device.type == "cpu":
        return layers(as_numbers(pictures))
    return layers[2:](relu(conv_by_blocks(pictures, first)))


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
    kind: str, space: spaces.Box, scaled: bool, features: int
) -> tuple[type[BaseFeaturesExtractor] | None, dict[str, int]]:
    """The class of an encoder and its arguments; None is the policy's own (numbers as they are)."""
    if len(space.shape) != 3:
        return (Scaled, {}) if scaled else (None, {})
    if kind == "flat":
        return None, {}
    arguments = {"features_dim": features} if features else {}
    return (Nature if kind == "nature" else Small), arguments
