"""Beams end where geometry says."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from hotlap.config.sensors import LidarConfig
from hotlap.sim.fields import Fields, survey
from hotlap.sim.lidar import beam_angles, cast_arena, cast_road, in_sight, wall_limits
from hotlap.sim.random import make_key
from hotlap.sim.roads import Roads, lay_out

from .roads_drawn import circle, straight

HALF_WIDTH = 0.5
EXACT = 0.01 * HALF_WIDTH
NO_OBSTACLES = torch.zeros(1, 0, 3)


def world(*tracks: object) -> tuple[Roads, Fields]:
    roads = lay_out(tracks)  # type: ignore[arg-type]
    return roads, survey(roads)


def one(*numbers: float) -> Tensor:
    return torch.tensor([numbers])


def road_ranges(config: LidarConfig, fields: Fields, x: float, y: float, heading: float) -> Tensor:
    road = torch.zeros(1, 1, dtype=torch.int64)
    return cast_road(config, fields, road, one(x), one(y), one(heading))[0, 0]


def test_the_first_beam_points_right_the_last_left_and_a_single_one_ahead() -> None:
    right, ahead, left = beam_angles(LidarConfig(beams=3, spread=180))
    assert (right, ahead, left) == pytest.approx((-math.pi / 2, 0, math.pi / 2))
    assert beam_angles(LidarConfig(beams=1, spread=180)).tolist() == [0.0]


@pytest.mark.parametrize(("y", "heading"), [(0.0, 0.0), (0.3, 0.4), (-0.45, -2.0)])
def test_on_a_straight_road_the_edges_are_where_geometry_says(y: float, heading: float) -> None:
    config = LidarConfig(beams=37, spread=360, reach=20)
    _, fields = world(straight())
    angles = (heading + beam_angles(config)).tolist()
    for angle, found in zip(angles, road_ranges(config, fields, 20.0, y, heading), strict=True):
        gap = HALF_WIDTH - math.copysign(y, y * math.sin(angle))  # to the edge the beam goes to
        exact = min(gap / max(abs(math.sin(angle)), 1e-9), 20 * HALF_WIDTH)
        assert found.item() == pytest.approx(exact, abs=EXACT)


def exit_from_ring(radius: float, place: float, angle: float) -> float:
    """Distance from (place, 0) to the inner or outer edge of a ring along `angle`."""
    closest, square = -place * math.cos(angle), (place * math.sin(angle)) ** 2
    inner, outer = radius - HALF_WIDTH, radius + HALF_WIDTH
    if closest > 0 and square < inner**2:
        return closest - math.sqrt(inner**2 - square)
    return closest + math.sqrt(outer**2 - square)


@pytest.mark.parametrize("radius", [1.5, 3.0, 8.0])
@pytest.mark.parametrize("offset", [-0.3, 0.0, 0.4])
def test_on_a_round_road_the_edges_are_where_geometry_says(radius: float, offset: float) -> None:
    config = LidarConfig(beams=73, spread=360, reach=20)
    _, fields = world(circle(radius))
    place = radius + offset
    for angle, found in zip(
        beam_angles(config).tolist(), road_ranges(config, fields, place, 0.0, 0.0), strict=True
    ):
        # A beam that all but grazes the inner edge meets it or not by a hair: no exact answer.
        miss = abs(place * math.sin(angle)) - (radius - HALF_WIDTH)
        if math.cos(angle) < 0 and abs(miss) < 0.02 * HALF_WIDTH:
            continue
        exact, along = exit_from_ring(radius, place, angle), found.item()
        end = math.hypot(place + along * math.cos(angle), along * math.sin(angle))
        edge = math.hypot(place + exact * math.cos(angle), exact * math.sin(angle))
        assert end == pytest.approx(edge, abs=EXACT)  # across the edge
        assert along == pytest.approx(exact, abs=4 * EXACT)  # along the beam: more where it grazes


def test_a_beam_reaches_no_further_than_its_reach() -> None:
    _, fields = world(straight())
    assert road_ranges(LidarConfig(beams=1, reach=7), fields, 5.0, 0.0, 0.0).tolist() == [3.5]


def test_a_car_outside_the_road_measures_nothing() -> None:
    _, fields = world(straight())
    assert road_ranges(LidarConfig(), fields, 20.0, 0.6, 0.0).tolist() == [0.0] * 19


def test_walls_stand_beyond_the_edge_and_edges_count_where_there_are_none() -> None:
    walled = dataclasses.replace(straight(), wall_gap=0.25)
    roads, fields = world(walled, straight())
    limits = wall_limits(roads, fields)
    assert limits.tolist() == [1.5, 1.0]
    road, x, y, heading = torch.arange(2).view(2, 1), one(20, 20).t(), one(0, 0).t(), one(0, 0).t()
    config = LidarConfig(beams=3, walls=True)
    ranges = cast_road(config, fields, road, x, y, heading, limits=limits)[:, 0]
    assert ranges[0, 0].item() == pytest.approx(0.75, abs=EXACT)
    assert ranges[1, 2].item() == pytest.approx(0.5, abs=EXACT)
    with pytest.raises(ValueError, match="wall_limits"):
        cast_road(config, fields, road, x, y, heading)


def test_noise_is_a_share_of_the_range_and_follows_its_key() -> None:
    _, fields = world(straight())
    quiet, noisy = (
        LidarConfig(beams=2048, spread=1.0),
        LidarConfig(beams=2048, spread=1.0, noise=0.1),
    )
    road, key = torch.zeros(1, 1, dtype=torch.int64), make_key(torch.tensor([[5]]))
    pose = (one(20.0), one(0.0), one(math.pi / 2))  # every beam meets the edge at 0.5
    clean = cast_road(quiet, fields, road, *pose)
    ranges = cast_road(noisy, fields, road, *pose, key=key)
    share = ranges / clean - 1
    assert share.std().item() == pytest.approx(0.1, rel=0.05)
    assert torch.equal(ranges, cast_road(noisy, fields, road, *pose, key=key))
    with pytest.raises(ValueError, match="key"):
        cast_road(noisy, fields, road, *pose)


def test_a_batch_measures_what_its_members_do() -> None:
    _, fields = world(straight(), circle())
    road = torch.tensor([[0, 1], [1, 0], [0, 0]])
    x, y = torch.tensor([[5.0, 3.1], [3.0, 9.0], [20.0, 30.0]]), torch.zeros(3, 2)
    heading = torch.rand(3, 2, generator=torch.Generator().manual_seed(1))
    together = cast_road(LidarConfig(), fields, road, x, y, heading)
    for i in range(3):
        pick = slice(i, i + 1)
        alone = cast_road(LidarConfig(), fields, road[pick], x[pick], y[pick], heading[pick])
        assert torch.equal(alone, together[pick])


def arena_ranges(obstacles: Tensor, x: float = 0.0, y: float = 0.0, reach: float = 10.0) -> list:
    config = LidarConfig(beams=5, spread=180)  # right, 45 degrees, ahead, 45 degrees, left
    return cast_arena(config, one(x), one(y), one(0.0), 2.0, obstacles, reach)[0, 0].tolist()


def test_an_empty_arena_is_its_four_walls() -> None:
    diagonal = 2 * math.sqrt(2)
    assert arena_ranges(NO_OBSTACLES) == pytest.approx([2, diagonal, 2, diagonal, 2], abs=1e-5)
    # At (1, 1.5): right wall 3.5 down; 45 degrees right meets x = 2 after 1; left 0.5 up.
    off_centre = [3.5, math.sqrt(2), 1, 0.5 * math.sqrt(2), 0.5]
    assert arena_ranges(NO_OBSTACLES, 1.0, 1.5) == pytest.approx(off_centre, abs=1e-5)
    assert arena_ranges(NO_OBSTACLES, 1.0, 1.5, reach=0.75)[:3] == [0.75] * 3


def test_a_round_obstacle_is_met_where_the_beam_enters_it() -> None:
    obstacles = torch.tensor([[[1.5, 0.0, 0.5], [0.0, -1.0, 0.25], [-1.0, 0.0, 0.5], [0, 1, 0]]])
    # Ahead 1.5 - 0.5, right 1 - 0.25; the one behind and the one without a radius are not there.
    assert arena_ranges(obstacles)[::2] == pytest.approx([0.75, 1.0, 2.0], abs=1e-5)
    # Off the middle: a circle of radius 0.5 whose centre lies 0.3 beside the beam is entered 0.4
    # before its centre.
    beside = torch.tensor([[[1.5, 0.3, 0.5]]])
    assert arena_ranges(beside)[2] == pytest.approx(1.1, abs=1e-5)
    assert arena_ranges(torch.tensor([[[0.1, 0.0, 0.5]]])) == [0.0] * 5


def test_an_obstacle_hides_what_lies_behind_it() -> None:
    pillar = torch.tensor([[[1.0, 0.0, 0.5], [0.0, 5.0, 0.0]]])

    def sees(x: float, y: float, other_x: float, other_y: float) -> bool:
        return in_sight(one(x), one(y), one(other_x), one(other_y), pillar).item() is True

    assert not sees(0, 0, 2, 0)
    assert not sees(0, 0, 2, 0.9)  # passes 0.41 from the middle
    assert sees(0, 0, 2, 1.2)  # passes 0.51 from the middle
    assert sees(0, 0, 0.4, 0)  # ends before it
    assert sees(2, 0, 3, 0)  # begins behind it
    assert sees(0, 4, 0, 6)  # an obstacle without a radius hides nothing
