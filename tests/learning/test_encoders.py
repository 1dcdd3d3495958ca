"""Encoders: scales that do not mind in which parts data came, and CNNs that take bytes."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import FlattenExtractor, NatureCNN
from torch import Tensor

from hotlap.config.learners import DQNConfig, PPOConfig, SACConfig, TQCConfig
from hotlap.config.runs import Agent
from hotlap.learning.encoders import (
    SMALLEST,
    Nature,
    Scaled,
    Small,
    as_numbers,
    byte_moments,
    conv_by_blocks,
    find_encoder,
    standardised,
)
from hotlap.learning.factory import make_policy

torch.set_num_threads(1)
NUMBERS = spaces.Box(-np.inf, np.inf, (3,), np.float32)
PICTURE = spaces.Box(0, 255, (2, 36, 44), np.uint8)


def pictures(count: int = 4, space: spaces.Box = PICTURE) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, *space.shape), dtype=torch.uint8, generator=generator)


# --- scales --------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [[1000], [1, 999], [400, 1, 599], [10] * 100, [1] * 1000])
def test_scales_are_those_of_all_data_however_it_was_split(split: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    seen = torch.randn(1000, 3, generator=generator) * torch.tensor([1.0, 30.0, 0.01])
    seen += torch.tensor([0.0, -500.0, 4.0])
    encoder = Scaled(NUMBERS)
    for part in seen.split(split):
        encoder.learn_from(part)
    assert encoder.count.item() == 1000
    torch.testing.assert_close(encoder.mean, seen.mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(encoder.spread, seen.std(0, unbiased=False), rtol=1e-2, atol=1e-4)


def test_a_scale_worked_by_hand() -> None:
    encoder = Scaled(spaces.Box(-np.inf, np.inf, (1,), np.float32))
    encoder.learn_from(torch.tensor([[1.0], [3.0]]))
    encoder.learn_from(torch.tensor([[8.0]]))
    # Mean of 1, 3, 8 is 4; squares off it are 9, 1, 16, their mean 26/3.
    assert encoder.mean.item() == pytest.approx(4.0)
    assert encoder.spread.item() == pytest.approx((26 / 3) ** 0.5)
    found = encoder(torch.tensor([[4.0], [4.0 + (26 / 3) ** 0.5], [1000.0]]))
    assert found.flatten().tolist() == pytest.approx([0.0, 1.0, 10.0])  # cut off at 10


def test_before_anything_is_seen_numbers_stay_as_they_are() -> None:
    seen = torch.tensor([[0.5, -2.0, 9.0]])
    torch.testing.assert_close(Scaled(NUMBERS)(seen), seen, rtol=1e-5, atol=1e-5)


def test_a_number_that_never_changes_is_harmless() -> None:
    encoder = Scaled(NUMBERS)
    encoder.learn_from(torch.full((50, 3), 7.0))
    assert torch.equal(encoder(torch.full((2, 3), 7.0)), torch.zeros(2, 3))


def test_the_scale_is_saved_with_the_weights() -> None:
    first, second = Scaled(NUMBERS), Scaled(NUMBERS)
    first.learn_from(torch.randn(20, 3))
    second.load_state_dict(first.state_dict())
    seen = torch.randn(5, 3)
    assert torch.equal(first(seen), second(seen)) and second.count.item() == 20


# --- pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "size"), [(Small, 64), (Nature, 512)])
def test_bytes_are_shares_of_255(kind: type[Small] | type[Nature], size: int) -> None:
    encoder, seen = kind(PICTURE), pictures()
    features = encoder(seen)
    assert features.shape == (4, size) and features.dtype == torch.float32
    torch.testing.assert_close(features, encoder(seen.float() / 255))
    assert kind(PICTURE, features_dim=7)(seen).shape == (4, 7)


def test_nature_is_stable_baselines_own_with_its_weights() -> None:
    torch.manual_seed(0)
    ours = Nature(PICTURE)
    torch.manual_seed(0)
    theirs = NatureCNN(PICTURE)
    seen = pictures()
    torch.testing.assert_close(ours(seen), theirs(seen.float() / 255))
    assert ours.state_dict().keys() == theirs.state_dict().keys()


def test_black_is_0_and_white_is_1() -> None:
    assert as_numbers(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx(
        [0.0, 0.2, 1.0]
    )
    already = torch.tensor([0.25])
    assert as_numbers(already) is already


@pytest.mark.parametrize("shape", [(1, 40, 40), (3, 38, 45)])
def test_a_convolution_by_blocks_gives_the_same(shape: tuple[int, ...]) -> None:
    """As a GPU does it; worked out here on the CPU."""
    space = spaces.Box(0, 255, shape, np.uint8)
    seen = pictures(space=space)
    for conv in (torch.nn.Conv2d(shape[0], 16, 8, 4), torch.nn.Conv2d(shape[0], 5, 4, 2)):
        expected = conv(seen.float() / 255)
        torch.testing.assert_close(conv_by_blocks(seen, conv), expected, rtol=1e-4, atol=1e-5)


# --- which ---------------------------------------------------------------------------------------


def test_encoders_are_found_by_what_is_seen() -> None:
    assert find_encoder("small", NUMBERS, scaled=False, features=9) == (None, {})
    assert find_encoder("small", NUMBERS, scaled=True, features=9) == (Scaled, {})
    assert find_encoder("small", PICTURE, scaled=True, features=0) == (Small, {})
    assert find_encoder("nature", PICTURE, scaled=False, features=0) == (Nature, {})
    assert find_encoder("flat", PICTURE, scaled=False, features=9) == (FlattenExtractor, {})
    assert find_encoder("nature", PICTURE, False, 9) == (Nature, {"features_dim": 9})


@pytest.mark.parametrize(("kind", "size"), SMALLEST.items())
def test_pictures_that_an_encoder_leaves_nothing_of_are_refused(kind: str, size: int) -> None:
    space = spaces.Box(0, 255, (3, size, 48), np.uint8)
    encoder, _ = find_encoder(kind, space, scaled=False, features=0)
    assert encoder is not None
    seen = torch.zeros(1, *space.shape, dtype=torch.uint8)
    assert encoder(space)(seen).shape[0] == 1  # type: ignore[arg-type]
    for shape in ((3, size - 1, 48), (size - 1, 48, 3)):  # before and after they are turned
        less = spaces.Box(0, 255, shape, np.uint8)
        with pytest.raises(ValueError, match=f"48x{size - 1}.*take the encoder (small|flat)"):
            find_encoder(kind, less, scaled=False, features=0)


@pytest.mark.parametrize("agent", [PPOConfig, DQNConfig, SACConfig, TQCConfig])
@pytest.mark.parametrize(
    ("encoder", "kind"), [("small", Small), ("nature", Nature), ("flat", FlattenExtractor)]
)
def test_every_policy_looks_through_the_encoder_it_was_told_to(
    agent: type[Agent], encoder: str, kind: type
) -> None:
    config = agent(encoder=encoder, net=(8,), features=0 if encoder == "flat" else 8)  # type: ignore[arg-type]
    actions: spaces.Space = spaces.Box(-1, 1, (2,))
    if agent is DQNConfig:
        actions = spaces.Discrete(4)
    policy = make_policy(config, spaces.Box(0, 255, (36, 44, 2), np.uint8), actions)
    found = [m for m in policy.modules() if isinstance(m, (Small, NatureCNN, FlattenExtractor))]
    assert found and all(type(part) is kind for part in found)
    action, _ = policy.predict(np.zeros((3, 36, 44, 2), np.uint8), deterministic=True)
    assert len(action) == 3


# --- standardised pictures -----------------------------------------------------------------------


def test_every_picture_has_mean_0_and_spread_1_by_itself() -> None:
    seen = pictures()
    seen[1] = seen[0] // 2 + 100  # fainter and lighter
    found = standardised(seen)
    flat = found.flatten(1)
    torch.testing.assert_close(flat.mean(1), torch.zeros(4), rtol=0, atol=1e-5)
    torch.testing.assert_close(flat.std(1, correction=0), torch.ones(4), rtol=1e-2, atol=0)
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0.05)


def test_a_picture_of_nothing_is_nothing() -> None:
    found = standardised(torch.full((2, *PICTURE.shape), 90, dtype=torch.uint8))
    assert float(found.abs().max()) < 1e-3


@pytest.mark.parametrize("size", [(3, 20, 24), (1, 5, 7)])
def test_moments_read_four_bytes_at_a_time_are_those_of_single_ones(size: tuple[int, ...]) -> None:
    """Also of pictures so faint and light that squares hardly differ."""
    seen = pictures(3, spaces.Box(0, 255, size, np.uint8))
    seen[1] = 250 + seen[1] // 128
    seen[2] = 255
    last = seen.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # as the world draws them
    for lying in (seen, last):
        variance, mean = byte_moments(lying)
        expected = torch.var_mean(seen.double(), dim=(1, 2, 3), correction=0, keepdim=True)
        torch.testing.assert_close(variance.double(), expected[0], rtol=1e-5, atol=0.02)
        torch.testing.assert_close(mean.double(), expected[1], rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["nature", "small"])
def test_an_encoder_that_standardises_minds_no_light(kind: str) -> None:
    bright = pictures() // 2
    for asked, least in ((False, True), (True, False)):
        encoder, arguments = find_encoder(kind, PICTURE, False, 0, asked)
        assert encoder is not None and arguments == ({"standardise": True} if asked else {})
        torch.manual_seed(0)
        net = encoder(PICTURE, **arguments)
        apart = (net(bright) - net(bright + 100)).abs().max().item()
        assert (apart > 1e-2) is least


@pytest.mark.parametrize(("kind", "space"), [("nature", NUMBERS), ("flat", PICTURE)])
def test_what_no_cnn_looks_at_is_not_standardised(kind: str, space: spaces.Box) -> None:
    with pytest.raises(ValueError, match="standardise is for pictures"):
        find_encoder(kind, space, False, 0, standardise=True)
