"""The picture from above: ahead is up, half-widths are pixels, the car stays in its place.

Pictures are 84 x 84 over 7 half-widths of 0.5 m: 12 pixels to a half-width, 24 to a metre. The car
sits 0.85 of the way down, between rows 70 and 71, and between columns 41 and 42.
"""

import math

import pytest
import torch
from torch import Tensor

from hotlap.config.sensors import TopDownConfig
from hotlap.sim.fields import survey
from hotlap.sim.looks import find_style, make_looks
from hotlap.sim.roads import lay_out
from hotlap.sim.topdown import car_box, draw_topdown
from hotlap.sim.tracks.track import Track

from .roads_drawn import circle, straight

CONFIG = TopDownConfig(colour=True)


def picture(
    track: Track, x: float, y: float, heading: float, config: TopDownConfig = CONFIG
) -> Tensor:
    roads = lay_out([track])
    zero = torch.zeros(1, dtype=torch.int64)
    pose = [torch.tensor([value]) for value in (x, y, heading)]
    looks = make_looks((track.style,))
    return draw_topdown(config, survey(roads), looks, zero, zero, *pose)[0]


def is_road(pixels: Tensor) -> Tensor:
    """Which pixels are the plain grey of the style `carracing`."""
    grey = round(255 * find_style("carracing").road[0])
    return (pixels == grey).all(-1)


def test_a_straight_road_fills_twelve_columns_either_side_of_the_car() -> None:
    columns = is_road(picture(straight(style="carracing"), 20.0, 0.0, 0.0)[30]).nonzero()[:, 0]
    assert (columns.min().item(), columns.max().item()) == pytest.approx((30, 53), abs=1)


def test_a_car_to_the_left_of_the_middle_sees_more_road_to_its_right() -> None:
    shown = picture(straight(style="carracing"), 20.0, 0.25, 0.0)  # 6 pixels to the left
    columns = is_road(shown[30]).nonzero()[:, 0]
    assert (columns.min().item(), columns.max().item()) == pytest.approx((36, 59), abs=1)


def test_a_left_bend_bends_to_the_left() -> None:
    shown = picture(circle(3.0, style="carracing"), 3.0, 0.0, math.pi / 2)
    # Row 47 lies 24 pixels, 1 m, ahead. There the ring of radii 2.5 and 3.5 reaches from
    # sqrt(2.5^2 - 1) - 3 = -0.709 m to sqrt(3.5^2 - 1) - 3 = 0.354 m right of the car.
    columns = is_road(shown[47]).nonzero()[:, 0]
    assert columns.min().item() == pytest.approx(42 - 24 * 0.709, abs=1.5)
    assert columns.max().item() == pytest.approx(42 + 24 * 0.354, abs=1.5)


def test_the_car_is_red_with_a_dark_windscreen_and_always_in_its_place() -> None:
    top, bottom, left, right = car_box(CONFIG)
    assert (top + bottom) / 2 == pytest.approx(0.85 * 84, abs=1)
    assert (left + right) / 2 == 42
    assert (bottom - top, right - left) == (7, 4)  # 0.6 and 0.34 half-widths
    for heading in (0.0, 1.0):
        car = picture(straight(), 20.0, 0.0, heading)[top:bottom, left:right].float().mean(1)
        assert (car[0, 0] > 2 * car[0, 1]) and (car[-1, 0] > 2 * car[-1, 1])  # red at both ends
        assert car.mean(1).argmin().item() == 2  # the windscreen, in front of the middle


def test_a_picture_is_the_same_alone_and_in_a_batch_and_in_any_size() -> None:
    tracks = (straight(), circle())
    roads, looks = lay_out(tracks), make_looks(("road", "circuit"), variants=2)
    fields = survey(roads)
    road, look = torch.tensor([0, 1, 1]), torch.tensor([3, 0, 2])
    x, y, heading = torch.tensor([5.0, 3.1, 0.0]), torch.tensor([0.0, 0.2, 3.0]), torch.rand(3)
    config = TopDownConfig(width=50, height=37)
    together = draw_topdown(config, fields, looks, road, look, x, y, heading)
    assert together.shape == (3, 37, 50, 1)
    for i in range(3):
        one = [value[i : i + 1] for value in (road, look, x, y, heading)]
        assert torch.equal(draw_topdown(config, fields, looks, *one)[0], together[i])
