"""Where a car of CarRacing stands once its joints have pulled it together.

Gymnasium puts the hull along the road, but the wheels around it as if it pointed north. In the
first step Box2D's joints pull them to their places, and the light wheels turn the heavy hull a
little: by up to a twentieth of the road's direction. The wheels keep their own angle, which is the
road's; the steering motors take the difference back within a frame.

Box2D's solver is followed joint by joint, since it stops as soon as no joint is off by more than
its slop.
"""

import numpy as np

from hotlap.sim.carracing.tile_track import Numbers, TileTrack

PLACES = np.array([(-1.1, 1.6), (1.1, 1.6), (-1.1, -1.64), (1.1, -1.64)])
"""The wheels, right and forward of the hull's origin."""
HULL_MASS, WHEEL_MASS = 7.06, 0.06048
HULL_CENTRE = np.array([0.0, -0.0825309])
"""The hull's own centre of mass."""
HULL_INERTIA = 18.2603645 - HULL_MASS * HULL_CENTRE[1] ** 2
SLOP = 0.005
ITERATIONS = 60


def first_pose(track: TileTrack) -> tuple[float, float, float]:
    """Place of the hull's origin and its angle after the step that a reset makes."""
    angle = float(track.turn[0])
    origin = np.array([track.x[0], track.y[0]])
    centre = origin + _rotated(angle, HULL_CENTRE)
    wheels = origin + PLACES
    for _ in range(ITERATIONS):
        worst = 0.0
        for wheel in reversed(range(len(PLACES))):  # the joint made last is solved first
            arm = _rotated(angle, PLACES[wheel] - HULL_CENTRE)
            gap = wheels[wheel] - centre - arm
            worst = max(worst, float(np.hypot(*gap)))
            push = np.linalg.solve(_softness(arm), gap)
            centre = centre + push / HULL_MASS
            angle += float(arm[0] * push[1] - arm[1] * push[0]) / HULL_INERTIA
            wheels[wheel] -= push / WHEEL_MASS
        if worst <= SLOP:
            break
    x, y = centre - _rotated(angle, HULL_CENTRE)
    return float(x), float(y), angle


def _softness(arm: Numbers) -> Numbers:
    """How far a unit of push at the end of an arm moves hull and wheel apart (2, 2)."""
    across = np.array([-arm[1], arm[0]])
    return np.eye(2) * (1 / HULL_MASS + 1 / WHEEL_MASS) + np.outer(across, across) / HULL_INERTIA


def _rotated(angle: float, vector: Numbers) -> Numbers:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([cos * vector[0] - sin * vector[1], sin * vector[0] + cos * vector[1]])
