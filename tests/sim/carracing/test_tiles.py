"""Wheels on tiles, by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from hotlap.config.vehicles import find_vehicle
from hotlap.sim.carracing.catalogue import find_tile_tracks
from hotlap.sim.carracing.tile_track import HALF_WIDTH, TileTrack
from hotlap.sim.carracing.tiles import lay_tiles, nearby, touching

CAR = find_vehicle("carracing")
NORTH = math.pi / 2


def touched(
    track: TileTrack, x: float, y: float, heading: float, steer: float = 0.0
) -> list[set[int]]:
    """Tiles that each wheel touches: front left, front right, rear left, rear right."""
    tiles = lay_tiles([track], CAR)
    which = torch.zeros(1, dtype=torch.int64)
    place = [torch.tensor([value], dtype=torch.float32) for value in (x, y, heading, steer)]
    ids = nearby(tiles, which, place[0], place[1])
    found = touching(tiles, which, ids, *place)[0]
    return [set(ids[0][row].tolist()) for row in found]


def straight() -> TileTrack:
    """A lap whose first tiles lead north along x = 0, each 10 long, and come back far away."""
    x = np.array([0.0] * 6 + [150.0] * 6)
    y = np.concatenate([np.arange(6) * 10.0, np.arange(5, -1, -1) * 10.0])
    turn = np.array([0.0] * 6 + [math.pi] * 6)
    return TileTrack("straight", x, y, turn, np.zeros(12, np.int8))


def test_wheels_touch_the_tiles_under_them() -> None:
    assert touched(straight(), 0.0, 15.0, NORTH) == [{2}] * 4
    # Front wheels reach from 20.15 - 0.54 on: over the border between two tiles.
    assert touched(straight(), 0.0, 20.15 - 1.6805, NORTH) == [{2, 3}, {2, 3}, {2}, {2}]


def test_a_wheel_beside_the_road_touches_nothing() -> None:
    # The right wheels' inner side is 1.1 - 0.28 beside the middle of the car.
    edge = HALF_WIDTH - (1.1 - 0.28)
    assert touched(straight(), edge - 0.01, 15.0, NORTH) == [{2}] * 4
    assert touched(straight(), edge + 0.03, 15.0, NORTH) == [{2}, set(), {2}, set()]
    # Within Box2D's skin of 0.02 it still does.
    assert touched(straight(), edge + 0.01, 15.0, NORTH) == [{2}] * 4


def test_a_steered_wheel_is_wider() -> None:
    x = HALF_WIDTH - (1.1 - 0.28) + 0.1
    assert touched(straight(), x, 15.0, NORTH)[1] == set()
    assert touched(straight(), x, 15.0, NORTH, steer=0.4)[1] == {2}


def test_far_from_everything_nothing_is_touched() -> None:
    for x, y in ((300.0, 300.0), (-1e6, 5.0), (75.0, 20.0)):
        assert touched(straight(), x, y, 0.3) == [set()] * 4


@pytest.mark.parametrize("name", ["carracing:3", "carracing:figure_eight"])
def test_cells_leave_no_tile_out(name: str) -> None:
    track = find_tile_tracks([name])[0]
    tiles = lay_tiles([track], CAR)
    rng = np.random.default_rng(0)
    node = rng.integers(0, len(track), 400)
    place = rng.normal(scale=5.0, size=(2, 400)) + np.stack([track.x[node], track.y[node]])
    x, y = torch.tensor(place, dtype=torch.float32)
    heading = torch.tensor(rng.uniform(-4, 4, 400), dtype=torch.float32)
    steer = torch.tensor(rng.uniform(-0.4, 0.4, 400), dtype=torch.float32)
    which = torch.zeros(400, dtype=torch.int64)
    near = nearby(tiles, which, x, y)
    everything = torch.arange(len(track)).expand(400, -1)
    some = touching(tiles, which, near, x, y, heading, steer).sum(-1)
    every = touching(tiles, which, everything, x, y, heading, steer).sum(-1)
    assert torch.equal(some, every)
    assert every.sum() > 1000


@pytest.mark.parametrize("seed", [1, 6])
def test_wheels_touch_the_tiles_that_box2d_finds(seed: int) -> None:
    pytest.importorskip("Box2D")
    racing = pytest.importorskip("gymnasium.envs.box2d.car_racing")
    env: Any = racing.CarRacing()
    env._render = lambda mode: np.zeros((96, 96, 3), np.uint8)
    env.reset(seed=seed)
    (track,) = find_tile_tracks([f"carracing:{seed}"])
    rng, differ, off = np.random.default_rng(seed), 0, 0
    for _ in range(150):
        hull, steer = env.car.hull, env.car.wheels[0].joint.angle
        heading = hull.angle + NORTH
        x, y = np.array(hull.position) - 0.0805 * np.array([math.cos(heading), math.sin(heading)])
        env.step(np.array([rng.uniform(-0.5, 0.3), 0.4, 0.0]))  # off the road before long
        # Box2D finds contacts before it moves anything.
        real = [{tile.idx for tile in wheel.tiles} for wheel in env.car.wheels]
        off += sum(not tiles for tiles in real)
        differ += touched(track, float(x), float(y), heading, steer) != real
    env.close()
    assert differ == 0
    assert 0 < off < 600


def test_tracks_of_different_length_lie_in_one_table() -> None:
    tracks = find_tile_tracks(["carracing:0", "carracing:oval", "carracing:1"])
    tiles = lay_tiles(tracks, CAR)
    assert tiles.count.tolist() == [len(track) for track in tracks]
    for row, track in enumerate(tracks):
        which = torch.tensor([row])
        pose = (track.x[5], track.y[5], track.turn[5])
        x, y, turn = (torch.tensor([value], dtype=torch.float32) for value in pose)
        ids = nearby(tiles, which, x, y)
        zero = torch.zeros(1)
        found = touching(tiles, which, ids, x, y, turn + NORTH, zero)[0].any(0)
        assert {5, 6} <= set(ids[0][found].tolist())
        assert max(ids[0][found].tolist()) < len(track)
