"""Where a car is on its road, worked out by hand and against an exhaustive search."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from hotlap.sim.roads import (
    Place,
    Roads,
    arc_between,
    curvature_ahead,
    lay_out,
    locate,
    locate_anywhere,
    pose_on,
)
from hotlap.sim.tracks import find_track
from hotlap.sim.tracks.track import Track

from .roads_drawn import circle, straight

HALF_WIDTH = 0.5


def square() -> Track:
    """4 m on a side, counter-clockwise from the origin, a sample every 0.25 m."""
    steps = np.arange(0, 4, 0.25)
    zero, four = np.zeros(16), np.full(16, 4.0)
    x = np.concatenate([steps, four, 4 - steps, zero])
    y = np.concatenate([zero, steps, four, 4 - steps])
    width = np.full(64, HALF_WIDTH)
    return Track("square", np.column_stack([x, y]), width, width, np.zeros(64))


def at(roads: Roads, x: float, y: float, heading: float = 0.0, road: int = 0) -> Place:
    """Where one car is, searching everywhere."""
    spot = [torch.tensor([[value]], dtype=torch.float32) for value in (x, y, heading)]
    return locate_anywhere(roads, torch.tensor([[road]]), *spot)


@pytest.mark.parametrize(
    ("x", "y", "s", "n"),
    [
        (1.1, 0.3, 1.1, 0.3),  # left of the first side, which runs along +x
        (1.1, -0.2, 1.1, -0.2),  # right of it
        (3.7, 2.6, 6.6, 0.3),  # second side: 4 + 2.6
        (2.5, 4.4, 9.5, -0.4),  # third side, backwards: 8 + 1.5, outside is to the right
        (-0.1, 1.0, 15.0, -0.1),  # fourth side: 12 + 3
    ],
)
def test_on_a_square_the_place_is_plain_to_see(x: float, y: float, s: float, n: float) -> None:
    place = at(lay_out([square()]), x, y)
    assert (place.s.item(), place.n.item()) == pytest.approx((s, n), abs=1e-5)


def test_heading_error_is_left_positive_and_wrapped() -> None:
    roads = lay_out([square()])
    assert at(roads, 1.1, 0.0, 0.2).heading_error.item() == pytest.approx(0.2, abs=1e-5)
    assert at(roads, 1.1, 0.0, -0.2 + 4 * math.pi).heading_error.item() == pytest.approx(
        -0.2, abs=1e-5
    )
    assert at(roads, 4.0, 2.1, 0.0).heading_error.item() == pytest.approx(-math.pi / 2, abs=1e-5)


@pytest.mark.parametrize("angle", [0.0, 0.7, 3.0, 6.2])
@pytest.mark.parametrize("offset", [-0.4, 0.0, 0.3])
def test_on_a_circle_s_is_the_angle_and_n_points_inward(angle: float, offset: float) -> None:
    radius = 3.0
    roads = lay_out([circle(radius)])
    r = radius - offset
    place = at(roads, r * math.cos(angle), r * math.sin(angle), angle + math.pi / 2)
    # The line is a polyline: beside a corner, all of whose turn shares one foot, s stands still.
    road, s = torch.zeros(1, 1).long(), torch.tensor([[angle * radius]])
    assert arc_between(roads, road, s, place.s).abs().item() < 5e-3
    assert place.n.item() == pytest.approx(offset, abs=1e-3)
    assert place.heading_error.item() == pytest.approx(0.0, abs=3e-3)
    assert place.curvature.item() == pytest.approx(1 / radius, rel=0.01)
    ahead = curvature_ahead(roads, road, place.s, torch.tensor([0.5, 19.0]))
    assert ahead[0, 0].tolist() == pytest.approx([1 / radius] * 2, rel=0.01)


def test_a_straight_road_has_its_width_height_and_grip() -> None:
    base = straight(length=10.0)
    count = base.num_points
    slope, grip = 0.1 * base.xy[:, 0], np.linspace(1, 0, count)
    track = Track(
        "hill", base.xy, base.width_left, 2 * base.width_right, slope, closed=False, grip=grip
    )
    place = at(lay_out([track]), 2.5, 0.1)
    assert place.z.item() == pytest.approx(0.25, abs=1e-5)
    assert place.climb.item() == pytest.approx(0.1, abs=1e-5)
    assert place.grip.item() == pytest.approx(0.75, abs=1e-5)
    assert (place.width_left.item(), place.width_right.item()) == pytest.approx((0.5, 1.0))


def test_tracks_laid_out_together_do_not_mix() -> None:
    tracks = [square(), circle(), straight()]
    together = lay_out(tracks)
    for road, track in enumerate(tracks):
        alone, among = at(lay_out([track]), 2.9, 0.2), at(together, 2.9, 0.2, road=road)
        for name, value in alone.tensors().items():
            assert torch.equal(value, among.tensors()[name]), name


@pytest.mark.parametrize("name", ["generated_track", "mountain_track", "circuit_launch", "road:3"])
def test_pose_on_and_locate_undo_each_other(name: str) -> None:
    track = find_track(name)
    roads = lay_out([track])
    s = torch.linspace(0.1, track.length - 0.2, 200).unsqueeze(-1)
    n = 0.2 * torch.sin(torch.arange(200.0)).unsqueeze(-1)
    road = torch.zeros(200, 1, dtype=torch.int64)
    x, y, heading, node = pose_on(roads, road, s, n)
    place = locate(roads, road, node, x, y, heading, torch.zeros_like(s))
    # A polyline has corners, where the normal turns: offsets shift the foot by a share of the turn.
    assert float((place.s - s).abs().max()) < 0.1 * track.spacing + 0.2 * 0.5 * track.spacing
    assert float((place.n - n).abs().max()) < 2e-3
    assert float(place.heading_error.abs().max()) < 0.02


def drive(roads: Roads, road: int, laps: float, amplitude: float) -> tuple[Tensor, ...]:
    """A weaving drive (steps, 1) along a road: s, x, y, heading and the distance of each step."""
    length = float(roads.length[road])
    s = torch.arange(0.3, laps * length - 0.3, 0.23).unsqueeze(-1)
    n = amplitude * torch.sin(2.1 * s)
    which = torch.full_like(s, road, dtype=torch.int64)
    x, y, heading, _ = pose_on(roads, which, s, n)
    return s, x, y, heading


@pytest.mark.parametrize(
    "name", ["generated_track", "warehouse", "mini_monaco", "circuit:5", "road:3"]
)
def test_the_window_finds_what_a_search_of_everything_finds(name: str) -> None:
    track = find_track(name)
    roads = lay_out([track])
    s, x, y, heading = drive(
        roads, 0, 1.0, 0.6 * float(min(track.width_left[0], track.width_right[0]))
    )
    road = torch.zeros_like(s, dtype=torch.int64)
    exact = locate_anywhere(roads, road, x, y, heading)
    node = exact.node[:-1]
    windowed = locate(
        roads, road[1:], node, x[1:], y[1:], heading[1:], torch.full_like(s[1:], 0.23)
    )
    assert float(arc_between(roads, road[1:], exact.s[1:], windowed.s).abs().max()) < 1e-4
    assert torch.allclose(windowed.n, exact.n[1:], atol=1e-6)


@pytest.mark.parametrize("name", ["circuit_launch", "sparkfun_avc", "eight:3"])
def test_where_a_road_crosses_itself_the_window_stays_on_its_branch(name: str) -> None:
    track = find_track(name)
    roads = lay_out([track])
    s, x, y, heading = drive(roads, 0, 1.2, 0.3 * float(track.width_left[0]))
    road = torch.zeros(1, 1, dtype=torch.int64)
    spots = (x, y, heading)
    place = locate_anywhere(roads, road, *(value[:1] for value in spots))
    jumps = 0
    for i in range(1, len(s)):
        here = [value[i : i + 1] for value in spots]
        before = place.s
        place = locate(roads, road, place.node, *here, torch.full((1, 1), 0.23))
        assert 0.1 < arc_between(roads, road, before, place.s).item() < 0.4, f"at s = {s[i].item()}"
        jumps += (
            abs(arc_between(roads, road, locate_anywhere(roads, road, *here).s, place.s).item()) > 1
        )
    assert jumps > 0  # the exhaustive search does jump there, so the test means something


def test_a_fast_car_does_not_outrun_the_window() -> None:
    roads = lay_out([circle(10.0)])
    road = torch.zeros(1, 1, dtype=torch.int64)
    spacing = float(roads.spacing[0])
    step = 18 * spacing
    node, s = torch.zeros(1, 1, dtype=torch.int64), 0.0
    for _ in range(50):
        s = (s + step) % float(roads.length[0])
        x, y, heading, _ = pose_on(roads, road, torch.tensor([[s]]), torch.zeros(1, 1))
        place = locate(roads, road, node, x, y, heading, torch.tensor([[step]]))
        node = place.node
        assert arc_between(roads, road, torch.tensor([[s]]), place.s).abs().item() < 1e-3


def test_arc_between_takes_the_short_way_round_a_loop_and_the_only_way_along_a_road() -> None:
    roads = lay_out([square(), straight(length=16.0)])
    loop, line = torch.tensor([[0]]), torch.tensor([[1]])
    one, two = torch.tensor([[15.5]]), torch.tensor([[0.5]])
    assert arc_between(roads, loop, one, two).item() == pytest.approx(1.0, abs=1e-5)
    assert arc_between(roads, loop, two, one).item() == pytest.approx(-1.0, abs=1e-5)
    assert arc_between(roads, line, one, two).item() == pytest.approx(-15.0)


@pytest.mark.parametrize("x", [-0.3, -0.01, 0.0, 10.0, 10.01, 10.3])
def test_beyond_the_ends_of_an_open_road_the_car_stays_within_a_sample_of_its_end(x: float) -> None:
    track = straight(length=10.0)
    roads = lay_out([track])
    road, heading = torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1)
    node = torch.tensor([[0 if x < 5 else track.num_points - 2]])
    place = locate(roads, road, node, torch.tensor([[x]]), torch.tensor([[0.2]]), heading, heading)
    end = min(max(x, 0.0), 10.0)
    assert abs(place.s.item() - end) <= track.spacing + 1e-6
    assert place.n.item() == pytest.approx(0.2, abs=1e-5)
    assert place.heading_error.item() == pytest.approx(0.0, abs=1e-5)


def test_no_tracks_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one track"):
        lay_out([])


def test_behind_the_beginning_of_an_open_road_its_arc_length_stays_zero() -> None:
    roads = lay_out([straight(30.0)])
    road = torch.zeros(1, 5, dtype=torch.int64)
    x, y, heading, _ = pose_on(roads, road, torch.zeros(1, 5), torch.zeros(1, 5))
    back = torch.linspace(0.05, 0.9, 5)
    place = locate(
        roads, road, road, x - back * torch.cos(heading), y - back * torch.sin(heading), heading,
        torch.zeros(1, 5),
    )  # fmt: skip
    assert place.s.abs().max() < 1e-6
