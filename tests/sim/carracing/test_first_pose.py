"""Where a car stands after a reset, against Box2D's own car."""

import numpy as np
import pytest

from hotlap.sim.carracing.first_pose import first_pose
from hotlap.sim.carracing.tile_track import TileTrack


def facing(turn: float) -> TileTrack:
    """A track of a single node at (10, 20)."""
    one = np.ones(1)
    return TileTrack("node", 10 * one, 20 * one, turn * one, np.zeros(1, np.int8))


@pytest.mark.parametrize("turn", [-3.1, -1.4, -0.1, 0.0, 0.7, 2.2, 3.0])
def test_the_hull_is_pulled_as_box2d_pulls_it(turn: float) -> None:
    box2d = pytest.importorskip("Box2D")
    dynamics = pytest.importorskip("gymnasium.envs.box2d.car_dynamics")
    world = box2d.b2World((0, 0))
    car = dynamics.Car(world, turn, 10.0, 20.0)
    car.step(1 / 50)
    world.Step(1 / 50, 6 * 30, 2 * 30)
    real = (*car.hull.position, car.hull.angle)
    assert first_pose(facing(turn)) == pytest.approx(real, abs=1e-4)


def test_a_car_that_faces_north_stays_where_it_was_put() -> None:
    assert first_pose(facing(0.0)) == pytest.approx((10.0, 20.0, 0.0), abs=1e-12)
