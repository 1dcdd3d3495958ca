"""Looks and views of CarRacing's frames, against numbers worked out by hand."""

import numpy as np
import pytest

from hotlap.config.carracing import CarRacingConfig
from hotlap.tasks.bridges.carracing_frames import (
    LEAST_CONTRAST,
    LOOKS,
    bars,
    colours_of,
    crop,
    driver_view,
    noise,
    recoloured,
    to_gray,
    warp,
)

RNG = np.random.default_rng(0)
FRAMES = RNG.integers(0, 256, (3, 96, 96, 3), dtype=np.uint8)
SEEDS, NUMBERS = [7, 8, 9], [0, 1, 2]
ROAD, GRASS, TUFT = (102, 102, 102), (102, 204, 102), (102, 230, 102)


def flat(*colour: int) -> np.ndarray:
    return np.broadcast_to(np.array(colour, np.uint8), (1, 96, 96, 3)).copy()


def test_gray_weighs_the_colours_and_rounds_halves_up() -> None:
    assert to_gray(flat(*GRASS))[0, 0, 0] == 162  # 30.498 + 119.748 + 11.628 = 161.874
    assert to_gray(flat(255, 0, 0))[0, 0, 0] == 76  # 76.245
    assert to_gray(flat(0, 0, 250))[0, 0, 0] == 29  # 28.5
    assert to_gray(FRAMES).shape == (3, 96, 96, 1)


def test_crop_keeps_rows_to_83_and_columns_6_to_89() -> None:
    cropped = crop(FRAMES)
    assert cropped.shape == (3, 84, 84, 3)
    assert (cropped[:, 0, 0] == FRAMES[:, 0, 6]).all()
    assert (cropped[:, 83, 83] == FRAMES[:, 83, 89]).all()


def test_warp_is_the_mean_over_the_area_of_every_point() -> None:
    # Each point of the frame as 7 x 7 little ones: a point of the view then covers 8 x 8 of them.
    fine = FRAMES.repeat(7, 1).repeat(7, 2).astype(np.float64)
    means = fine.reshape(3, 84, 8, 84, 8, 3).mean((2, 4))
    assert (warp(FRAMES) == np.floor(means + 0.5)).all()


@pytest.mark.parametrize("view", ["crop", "warp", "full"])
@pytest.mark.parametrize("colour", [True, False])
def test_a_view_has_the_shape_that_the_config_says(view: str, colour: bool) -> None:
    config = CarRacingConfig(view=view, colour=colour)  # type: ignore[arg-type]
    seen = driver_view(FRAMES, config)
    assert seen.shape == (3, *config.shape)
    assert seen.dtype == np.uint8


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_of_many_frames_is_that_of_each_and_leaves_them_as_they_are(look: str) -> None:
    before = FRAMES.copy()
    together = LOOKS[look](FRAMES, SEEDS, NUMBERS)  # type: ignore[index]
    assert together.dtype == np.uint8
    for one in range(3):
        alone = LOOKS[
            look
        ](  # type: ignore[index]
            FRAMES[one : one + 1], SEEDS[one : one + 1], NUMBERS[one : one + 1]
        )
        assert (alone[0] == together[one]).all()
    assert (before == FRAMES).all()


def test_bars_cover_twelve_columns_at_either_side() -> None:
    barred = bars(FRAMES, SEEDS, NUMBERS)
    assert not barred[:, :, :12].any() and not barred[:, :, 84:].any()
    assert (barred[:, :, 12:84] == FRAMES[:, :, 12:84]).all()


def test_noise_has_the_spread_it_should_and_differs_by_seed_and_frame() -> None:
    middle = flat(128, 128, 128)
    grain = noise(middle, [7], [0]).astype(np.float64) - 128
    assert abs(grain.mean()) < 0.2  # of 27,648 draws
    assert grain.std() == pytest.approx(12.0, abs=0.2)
    again, next_frame, other = (noise(middle, [s], [n]) for s, n in ((7, 0), (7, 1), (8, 0)))
    assert (again == noise(middle, [7], [0])).all()
    assert abs(np.corrcoef(grain.ravel(), next_frame.ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(grain.ravel(), other.ravel())[0, 1]) < 0.03


def test_noise_is_cut_off_at_black_and_white() -> None:
    light = noise(flat(255, 255, 255), [7], [0])
    assert light.min() > 150 and (light == 255).mean() == pytest.approx(0.5, abs=0.05)


def test_recoloured_ground_has_the_colours_of_its_seed() -> None:
    road, grass, tuft = colours_of(7)
    for old, new in ((ROAD, road), (GRASS, grass), (TUFT, tuft)):
        changed = recoloured(flat(*old), [7], [0])
        assert (changed[0, :84] == new).all()
        assert (changed[0, 84:] == old).all(), "the panel stays"
    # Half road, half grass; and a tile of the lightest shade.
    assert np.abs(recoloured(flat(102, 153, 102), [7], [0])[0, 0, 0] - (road + grass) / 2).max() < 1
    assert (recoloured(flat(107, 107, 107), [7], [0])[0, 0, 0] == road + 5).all()


@pytest.mark.parametrize("colour", [(204, 0, 0), (255, 255, 255), (0, 0, 0), (77, 77, 77)])
def test_recoloured_leaves_car_kerbs_and_wheels(colour: tuple[int, int, int]) -> None:
    assert (recoloured(flat(*colour), [7], [0]) == flat(*colour)).all()


def test_new_colours_of_road_and_grass_stay_apart_in_gray() -> None:
    gray = np.array([299, 587, 114]) / 1000
    drawn = np.stack([colours_of(seed) for seed in range(200)])
    apart = np.abs(drawn[:, 0] @ gray - drawn[:, 1] @ gray)
    assert apart.min() >= LEAST_CONTRAST
    assert drawn.min() >= 0 and drawn.max() <= 230
    assert len({tuple(colours[0]) for colours in drawn}) == 200
