"""What is done to pictures when they are learned from."""

import math
from typing import Any

import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.augmentation import AugmentationConfig
from hotlap.learning.augmentation import (
    Augmentation,
    between,
    blurring,
    make_augmentation,
    pick,
    resample,
)

torch.set_num_threads(1)
PICTURE = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
EVERYTHING = AugmentationConfig(
    shift=2, crop=0.7, blur=1.5, flip=0.5, brightness=(0.7, 1.3), contrast=(0.7, 1.3)
)
ALONE: dict[str, Any] = {
    "shift": 3, "crop": 0.6, "blur": 2.0, "flip": 0.5, "brightness": (0.5, 1.5),
    "contrast": (0.5, 1.5),
}  # fmt: skip


def some_pictures(count: int, channels: int = 1, height: int = 12, width: int = 16) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    shape = (count, channels, height, width)
    return torch.randint(0, 256, shape, generator=draw, dtype=torch.uint8)


def draws_of(augmentation: Augmentation, count: int, **rows: float) -> Tensor:
    """Draws that are a half but for those that are named."""
    draws = torch.full((len(augmentation.rows), count), 0.5)
    for name, value in rows.items():
        draws[augmentation.rows[name]] = value
    return draws


def test_a_moved_picture_repeats_its_edges() -> None:
    pictures = PICTURE.to(torch.uint8).expand(3, 1, 3, 3)
    move = Augmentation(AugmentationConfig(shift=2))
    places = torch.tensor([[0, 1, -2], [0, -1, 1]])
    still, moved, far = move(pictures, (places + 2.5) / 5)[:, 0]
    assert still.tolist() == PICTURE.tolist()
    assert moved.tolist() == [[4, 4, 5], [7, 7, 8], [7, 7, 8]]
    assert far.tolist() == [[2, 3, 3], [2, 3, 3], [2, 3, 3]]


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_it_is_padding_and_cutting_out(kind: torch.dtype) -> None:
    pictures = torch.randint(0, 256, (20, 3, 9, 7)).to(kind)
    down, right = torch.randint(-4, 5, (2, 20))
    padded = torch.nn.functional.pad(pictures.float(), (4, 4, 4, 4), mode="replicate")
    cut = [
        picture[:, 4 + y : 13 + y, 4 + x : 11 + x]
        for picture, y, x in zip(padded, down, right, strict=True)
    ]
    rows = (torch.arange(9) + down.unsqueeze(1)).clamp(0, 8)
    columns = (torch.arange(7) + right.unsqueeze(1)).clamp(0, 6)
    shifted = pick(pictures, rows, columns)
    assert shifted.dtype == kind and torch.equal(shifted.float(), torch.stack(cut))


def test_every_shift_is_as_likely() -> None:
    torch.manual_seed(0)
    ramp = torch.arange(11)
    pictures = (ramp.view(11, 1) * 11 + ramp).to(torch.uint8).expand(9000, 1, 11, 11)
    move = Augmentation(AugmentationConfig(shift=1))
    shifted = move(pictures, move.draw(9000, "cpu"))
    counts = torch.bincount(shifted[:, 0, 5, 5].to(torch.int64), minlength=121)
    seen = counts.nonzero().flatten()
    assert seen.tolist() == [48, 49, 50, 59, 60, 61, 70, 71, 72]  # the nine around 5 * 11 + 5
    assert int(counts[seen].min()) > 850 and int(counts[seen].max()) < 1150


@pytest.mark.parametrize("name", [*ALONE, "everything"])
def test_frames_of_a_stack_are_changed_alike_and_pictures_are_not(name: str) -> None:
    config = EVERYTHING if name == "everything" else AugmentationConfig(**{name: ALONE[name]})
    change = Augmentation(config)
    pictures = some_pictures(1).expand(40, 3, 12, 16)
    torch.manual_seed(1)
    changed = change(pictures, change.draw(40, "cpu"))
    assert changed.shape == pictures.shape and changed.dtype == torch.uint8
    assert torch.equal(changed[:, 0], changed[:, 1]) and torch.equal(changed[:, 0], changed[:, 2])
    kinds = {bytes(picture.contiguous().numpy()) for picture in changed}
    assert len(kinds) == 2 if name == "flip" else len(kinds) > 20


@pytest.mark.parametrize("extra", [{}, {"blur": 1.0}])
def test_a_flip_of_a_flip_is_the_picture(extra: dict[str, float]) -> None:
    """Along either way through the code: by picking columns, and by mixing them."""
    flip = Augmentation(AugmentationConfig(flip=0.5, **extra))
    pictures = some_pictures(6, 2)
    draws = draws_of(flip, 6, flip=0.0, **dict.fromkeys(extra, 0.0))
    once = flip(pictures, draws)
    assert torch.equal(once, pictures.flip(3))
    assert torch.equal(flip(once, draws), pictures)
    assert bool(flip.flipped(draws).all())
    kept = draws_of(flip, 6, flip=0.5, **dict.fromkeys(extra, 0.0))
    assert torch.equal(flip(pictures, kept), pictures) and not bool(flip.flipped(kept).any())


def test_what_comes_after_is_flipped_where_the_pictures_were_and_shifted_elsewhere() -> None:
    torch.manual_seed(2)
    change = Augmentation(AugmentationConfig(shift=4, flip=0.5))
    draws = change.draw(500, "cpu")
    after = change.draw_again(draws)
    assert torch.equal(change.flipped(draws), change.flipped(after))
    assert 0.4 < float(change.flipped(draws).float().mean()) < 0.6
    assert float((draws[:2] == after[:2]).float().mean()) < 0.01


def test_a_crop_is_the_enlarged_middle() -> None:
    """Half of a picture 4 wide, from the middle: places -0.25 + 1.25, ... by hand."""
    crop = Augmentation(AugmentationConfig(crop=0.5))
    picture = torch.tensor([0, 40, 80, 120], dtype=torch.uint8).expand(1, 1, 4, 4)
    cut = crop(picture, draws_of(crop, 1, keep=0.0, top=0.5, left=0.5))
    assert cut[0, 0, 0].tolist() == [30, 50, 70, 90]
    left = crop(picture, draws_of(crop, 1, keep=0.0, left=0.0))
    assert left[0, 0, 0].tolist() == [0, 10, 30, 50]  # beyond the edge there is the edge
    whole = crop(picture, draws_of(crop, 1, keep=1.0, left=0.9))
    assert torch.equal(whole, picture)


def test_a_blur_keeps_an_even_picture_and_spreads_a_point() -> None:
    blur = Augmentation(AugmentationConfig(blur=2.0))
    even = torch.full((1, 1, 9, 9), 93, dtype=torch.uint8)
    assert torch.equal(blur(even, draws_of(blur, 1, blur=1.0)), even)
    shares = blurring(torch.tensor([1.0]), 41)[0, 20]
    assert math.isclose(float(shares.sum()), 1.0, abs_tol=1e-5)
    offsets = torch.arange(41) - 20.0
    assert math.isclose(float((shares * offsets.square()).sum()), 1.0, rel_tol=1e-3)
    assert torch.equal(blurring(torch.zeros(1), 5)[0], torch.eye(5))


def test_light_is_a_factor_and_contrast_one_around_the_middle() -> None:
    light = Augmentation(AugmentationConfig(brightness=(0.5, 1.5)))
    picture = torch.tensor([0, 100, 200], dtype=torch.uint8).expand(1, 1, 3, 3)
    dark, bright = (light(picture, draws_of(light, 1, brightness=b)) for b in (0.0, 1.0))
    assert dark[0, 0, 0].tolist() == [0, 50, 100]
    assert bright[0, 0, 0].tolist() == [0, 150, 255]
    contrast = Augmentation(AugmentationConfig(contrast=(0.5, 1.5)))
    assert contrast(picture, draws_of(contrast, 1, contrast=0.0))[0, 0, 0].tolist() == [
        64,
        114,
        164,
    ]


def test_mixing_lines_that_are_whole_is_picking_them() -> None:
    pictures = some_pictures(8, 2)
    rows, columns = torch.randint(0, 12, (8, 12)), torch.randint(0, 16, (8, 16))
    mixed = resample(pictures, between(rows), between(columns))
    assert torch.equal(mixed, pick(pictures, rows, columns).float())


def test_pictures_are_changed_the_same_whatever_their_layout_in_memory() -> None:
    change = Augmentation(EVERYTHING)
    pictures = some_pictures(5, 2)
    last = pictures.contiguous(memory_format=torch.channels_last)
    draws = change.draw(5, "cpu")
    assert torch.equal(change(pictures, draws), change(last, draws))


def test_the_same_key_gives_the_same_changes() -> None:
    change, pictures = Augmentation(EVERYTHING), some_pictures(6)
    found = []
    for _ in range(2):
        torch.manual_seed(4)
        found.append(change(pictures, change.draw(6, "cpu")))
    assert torch.equal(*found)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"shift": -1}, "augment.shift must be 0 or more, got -1"),
        ({"blur": -0.1}, "augment.blur must be 0 or more"),
        ({"crop": 0.0}, "augment.crop must lie in .* 0.8 is usual"),
        ({"flip": 1.5}, "augment.flip must lie in 0..1"),
        ({"brightness": (1.2, 0.8)}, "augment.brightness is a range .* 0.7 1.3 is usual"),
        ({"contrast": (0.0, 1.0)}, "augment.contrast is a range"),
    ],
)
def test_impossible_settings_are_refused(setting: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        AugmentationConfig(**setting)


def test_only_pictures_can_be_changed_and_nothing_asked_is_nothing_made() -> None:
    numbers, pictures = spaces.Box(-1, 1, (8,)), spaces.Box(0, 255, (2, 30, 40), "uint8")
    assert make_augmentation(AugmentationConfig(), numbers) is None
    assert make_augmentation(EVERYTHING, pictures) is not None
    with pytest.raises(ValueError, match=r"only pictures can be shifted, .* such as donkey"):
        make_augmentation(EVERYTHING, numbers)
    with pytest.raises(ValueError, match=r"a shift of 30 pixels .* 2 to 4 is usual"):
        make_augmentation(AugmentationConfig(shift=30), pictures)
