"""Blur and noise do what their numbers say, to each picture on its own."""

import pytest
import torch
from torch import Tensor

from hotlap.sim.optics import STRONGEST_NOISE, add_noise, blur, make_strip
from hotlap.sim.random import Stream, make_key

SHAPE = (24, 32, 3)


def keys(count: int) -> Tensor:
    return make_key(torch.arange(count), 0, Stream.IMAGE)


def grey(count: int, level: int = 128) -> Tensor:
    return torch.full((count, *SHAPE), level, dtype=torch.uint8)


def random_pictures(count: int) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, *SHAPE), generator=draw, dtype=torch.uint8)


def test_switched_off_both_return_what_they_were_given() -> None:
    pictures = grey(2)
    assert add_noise(pictures, None, torch.ones(2), keys(2)) is pictures
    assert blur(pictures, None) is pictures


def test_noise_has_the_strength_asked_for_and_no_bias() -> None:
    strength = torch.tensor([0.0, 2.0, 8.0, STRONGEST_NOISE])
    off = add_noise(grey(4), make_strip(*SHAPE), strength, keys(4)).float() - 128
    assert torch.equal(off[0], torch.zeros(SHAPE))
    assert off[1:].flatten(1).std(1).tolist() == pytest.approx(strength[1:].tolist(), rel=0.08)
    for i in range(1, 4):  # 2304 values: the mean's own spread is strength / 48
        assert abs(off[i].mean().item()) < 4 * strength[i].item() / 48


def test_noise_stays_within_black_and_white() -> None:
    full = torch.full((1,), STRONGEST_NOISE)
    dark = add_noise(grey(1, 0), make_strip(*SHAPE), full, keys(1))
    bright = add_noise(grey(1, 255), make_strip(*SHAPE), full, keys(1))
    assert dark.max() < 110 and bright.min() > 145  # nothing wraps around


def test_noise_follows_its_key_and_nothing_else() -> None:
    strip, pictures, strength = make_strip(*SHAPE), random_pictures(37), torch.full((37,), 5.0)
    together = add_noise(pictures, strip, strength, keys(37))
    assert torch.equal(together[3:4], add_noise(pictures[3:4], strip, strength[3:4], keys(37)[3:4]))
    other = add_noise(pictures, strip, strength, keys(38)[1:])
    assert (together != other).float().mean() > 0.5


def test_the_input_is_left_alone() -> None:
    pictures = random_pictures(2)
    before = pictures.clone()
    add_noise(pictures, make_strip(*SHAPE), torch.full((2,), 9.0), keys(2))
    blur(pictures, torch.ones(2))
    assert torch.equal(pictures, before)


def test_a_full_blur_spreads_a_point_by_the_binomial_weights() -> None:
    pictures = torch.zeros(1, 5, 5, 1, dtype=torch.uint8)
    pictures[0, 2, 2] = 160
    weights = torch.tensor([1, 2, 1])
    spread = blur(pictures, torch.ones(1))[0, 1:4, 1:4, 0]
    assert torch.equal(spread, (10 * torch.outer(weights, weights)).to(torch.uint8))


def test_half_a_blur_is_half_way() -> None:
    pictures = torch.zeros(1, 5, 5, 1, dtype=torch.uint8)
    pictures[0, 2, 2] = 160
    assert blur(pictures, torch.tensor([0.5]))[0, 2, 2, 0] == 100  # half of 160, half of 40
    assert blur(pictures, torch.tensor([0.5]))[0, 2, 3, 0] == 10


def test_no_strength_is_no_blur_and_plain_pictures_stay_plain() -> None:
    pictures = random_pictures(2)
    assert torch.equal(blur(pictures, torch.zeros(2)), pictures)
    assert torch.equal(blur(grey(2, 255), torch.tensor([0.3, 1.0])), grey(2, 255))


def test_channels_do_not_mix() -> None:
    pictures = torch.zeros(1, *SHAPE, dtype=torch.uint8)
    pictures[..., 1] = random_pictures(1)[..., 1]
    assert blur(pictures, torch.ones(1))[..., 0].max() == 0
    assert blur(pictures, torch.ones(1))[..., 2].max() == 0
