"""Walls, cones and rivals stand where a pinhole camera puts them.

The lens is 0.14 m up at (10, 0) over a straight road of half-width 0.5 m, looks 15 degrees down and
has a focal length of 60 pixels, so a point `ahead` and `drop` metres away falls on row
59.5 + 60 (drop cos - ahead sin) / (ahead cos + drop sin).
"""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from hotlap.config.sensors import CameraConfig
from hotlap.sim.camera import View, draw_forward
from hotlap.sim.fields import survey
from hotlap.sim.looks import make_looks
from hotlap.sim.roads import lay_out
from hotlap.sim.tracks.track import Track
from hotlap.sim.uprights import Uprights, make_uprights, with_rivals

from .roads_drawn import circle, straight

CAMERA = CameraConfig()
WALLED = dataclasses.replace(straight(), wall_gap=0.25)  # walls at y = -0.75 and 0.75, 0.12 m tall
LOOKS = make_looks(("road",))


def with_cones(*places: tuple[float, float], track: Track | None = None) -> Track:
    return dataclasses.replace(track or straight(), cones=np.array(places, dtype=float))


def view(*headings: float) -> View:
    heading = torch.tensor(headings)
    zero, road = torch.zeros_like(heading), torch.zeros(len(heading), dtype=torch.int64)
    pitch = zero + math.radians(CAMERA.pitch)
    return View(zero + 10, zero, zero, heading, zero, road, road, zero + 0.14, pitch, zero + 1)


def draw(track: Track, heading: float = 0.0, rival: tuple[float, ...] | None = None) -> Tensor:
    roads = lay_out([track])
    fields = survey(roads)
    uprights = make_uprights(roads, fields)
    if rival:
        uprights = with_rivals(uprights, torch.tensor([[rival]]), (0.35, 0.2, 0.13))
    return draw_forward(CAMERA, fields, LOOKS, view(heading), uprights=uprights)[0]


def painted(picture: Tensor, background: Tensor) -> tuple[float, float, float, float]:
    """First and last row, first and last column in which two pictures differ."""
    rows, columns = (picture != background).any(-1).nonzero().unbind(-1)
    return rows.min().item(), rows.max().item(), columns.min().item(), columns.max().item()


def test_tracks_without_walls_and_cones_have_no_uprights() -> None:
    roads = lay_out([straight(), circle()])
    assert make_uprights(roads, survey(roads)) is None


def test_a_world_with_nothing_in_it_looks_like_one_without_uprights() -> None:
    roads = lay_out([straight()])
    fields = survey(roads)
    empty = draw_forward(CAMERA, fields, LOOKS, view(0.3), uprights=Uprights())
    without = draw_forward(CAMERA, fields, LOOKS, view(0.3))
    assert torch.equal(empty, without)


def test_a_wall_straight_ahead_covers_the_rows_from_its_foot_to_its_top() -> None:
    # 0.75 m ahead: the foot, 0.14 below the lens, on row 54.9; the top, 0.02 below it, on 45.1.
    column = slice(78, 82)
    walls, none = draw(WALLED, math.pi / 2)[:, column], draw(straight(), math.pi / 2)[:, column]
    assert painted(walls, none)[:2] == pytest.approx((46, 54), abs=1)


def test_a_wall_beside_the_road_runs_where_its_foot_is_seen() -> None:
    # A foot 1 m ahead and 0.75 m aside: row 52.1, columns 79.5 -+ 60 * 0.75 / 1.002 = 34.6, 124.4.
    walls, none = draw(WALLED), draw(straight())
    for column in (34, 124):
        pick = slice(column, column + 1)
        assert painted(walls[:, pick], none[:, pick])[1] == pytest.approx(52, abs=1)


def test_a_wall_has_stripes_of_both_colours_of_its_style() -> None:
    wall = draw(WALLED, math.pi / 2)[50].float()
    red, white = torch.tensor([191.0, 51.0, 38.0]), torch.full((3,), 217.0)
    assert ((wall - red).abs().max(-1).values < 2).sum() > 40
    assert ((wall - white).abs().max(-1).values < 2).sum() > 40


def test_a_cone_is_as_large_as_it_should_be_orange_with_a_white_band() -> None:
    # 1 m ahead: foot on row 52.1; 0.11 m tall: top on row 45.3; 0.0425 m aside: 2.5 pixels.
    cone, none = draw(with_cones((11.0, 0.0))), draw(straight())
    assert painted(cone, none) == pytest.approx((46, 52, 77, 82), abs=1)
    red, _, blue = cone[51, 79].tolist()
    assert red > 200 and blue < 60
    assert min(cone[49, 79].tolist()) > 200


def test_cones_behind_the_car_or_behind_a_wall_are_not_seen() -> None:
    assert torch.equal(draw(with_cones((9.0, 0.0))), draw(straight()))
    hidden = with_cones((10.0, 1.5), track=WALLED)
    assert torch.equal(draw(hidden, math.pi / 2), draw(WALLED, math.pi / 2))


def test_the_nearest_of_many_cones_are_drawn_and_a_nearer_one_hides_a_farther() -> None:
    far = [(10.0 + distance, 0.0) for distance in (5.0, 6.0, 7.0, 8.0, 9.0)]
    assert torch.equal(draw(with_cones((10.6, 0.0), *far))[50:], draw(with_cones((10.6, 0.0)))[50:])


def test_a_rival_is_as_wide_as_it_shows_itself() -> None:
    none = draw(straight())
    # 1 m ahead, 60 / 1.002 pixels to a metre: 0.2 m from behind, 0.35 m from the side.
    behind, beside = (
        draw(straight(), 0.0, (11.0, 0, 0)),
        draw(straight(), 0.0, (11, 0, math.pi / 2)),
    )
    assert painted(behind, none)[2:] == pytest.approx((79.5 - 6, 79.5 + 6), abs=1)
    assert painted(beside, none)[2:] == pytest.approx((79.5 - 10.5, 79.5 + 10.5), abs=1)
    red, _, blue = behind[50, 79].tolist()
    assert blue > 2 * red


@pytest.mark.parametrize("colour", [True, False])
def test_a_picture_is_the_same_alone_and_in_a_batch(colour: bool) -> None:
    roads = lay_out([with_cones((11.0, 0.1), (12.0, -0.2), track=WALLED)])
    fields = survey(roads)
    uprights, config = make_uprights(roads, fields), CameraConfig(width=90, colour=colour)
    headings = (-1.5, -0.4, 0.0, 0.7, 2.0)
    together = draw_forward(config, fields, LOOKS, view(*headings), uprights=uprights)
    for i, heading in enumerate(headings):
        alone = draw_forward(config, fields, LOOKS, view(heading), uprights=uprights)
        assert torch.equal(alone[0], together[i])


@pytest.mark.slow
def test_a_compiler_draws_the_same_picture() -> None:
    roads = lay_out([with_cones((11.0, 0.1), track=WALLED)])
    fields = survey(roads)
    uprights = make_uprights(roads, fields)
    compiled = torch.compile(draw_forward, dynamic=False, fullgraph=True)
    pose = view(-0.4, 0.0, 1.0)
    plain = draw_forward(CAMERA, fields, LOOKS, pose, uprights=uprights)
    different = compiled(CAMERA, fields, LOOKS, pose, uprights=uprights) != plain
    assert different.float().mean().item() < 0.002
