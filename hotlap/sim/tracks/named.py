"""The eleven DonkeyCar scenes, redrawn.

    u        DonkeyCar's unit of length: 0.125 m
    corner   (x, y, radius) in u: where two straights would meet, and the arc that joins them
    yaw      Unity's heading in degrees: clockwise from +z; our heading is 90 degrees - yaw
    knot     (fraction of the lap, value)

Every scene is our own drawing: a polygon with rounded corners, placed so that its last edge (from
the last corner to the first) passes through the origin, which is the start. It is then stretched
until its length is the published one and carried to the published start pose. So length, start,
width, direction, tightest radius and heights are those of the simulator; the shape has its
character and not its exact course.

Widths of generated_road, generated_track, warren, roboracingleague_1 and waveshare are the
published ones; the others are our choice, and so is where the patches of grip lie.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import newton

from hotlap.sim.tracks import curves, families
from hotlap.sim.tracks.track import Array, Start, Track

UNIT = 0.125
"""Metres in a u."""

GRIPPY, SLIPPERY, ICE = 0.66 / 0.5, 0.1 / 0.5, 0.03 / 0.5
"""Friction of DonkeyCar's surfaces relative to its Road (0.5)."""

_SMOOTHING = 0.8  # u of Gaussian blur: a car's length of transition from straight to full lock

Corner = tuple[float, float, float]
Knot = tuple[float, float]


@dataclass(frozen=True)
class Scene:
    """One scene, all lengths in u."""

    corners: tuple[Corner, ...]
    length: float
    start: tuple[float, float, float]
    """Unity's x, z and yaw of the start pose."""
    left: float
    """From the path to the left edge of the road."""
    right: float
    style: str
    stretch: tuple[bool, bool] = (True, True)
    """Which of the drawing's axes give way to reach the length."""
    second_start: tuple[float, float] | None = None
    """Unity's x and z of another start on the path."""
    heights: tuple[Knot, ...] = ()
    height_range: tuple[float, float] = (0.0, 0.0)
    ramps: tuple[tuple[float, float, float], ...] = ()
    """Bumps across the road: distance of the middle from the start, length, height."""
    patches: tuple[tuple[float, float, float], ...] = ()
    """Surfaces other than Road: distance of the beginning from the start, length, relative grip."""
    wall_gap: float | None = None
    crosses_itself: bool = False


SCENES: dict[str, Scene] = {
    "generated_track": Scene(
        corners=((0, 34, 9), (26, 40, 7.1), (23, 6, 16), (62, 4, 9), (58, -34, 10), (0, -36, 12)),
        length=214.9, start=(49.7, 47.8, 0), left=7.0, right=3.0, style="road",
    ),
    "warehouse": Scene(
        corners=(
            (0, 30, 30), (-9, 76, 8.1), (16, 80, 8.1), (15, 2, 40), (52, -46, 8.1), (14, -72, 16),
            (0, -40, 30),
        ),
        length=355, start=(47.7, 34.7, 8), left=4.0, right=4.0, style="warehouse", wall_gap=2.0,
    ),
    "sparkfun_avc": Scene(
        corners=(
            (0, 40, 60), (150, 200, 60), (150, 300, 45), (60, 350, 45), (10, 300, 45),
            (8, 210, 60), (135, 60, 60), (138, -20, 45), (60, -75, 45), (0, -45, 35),
        ),
        length=1048, start=(-32.1, -76.9, 0), left=8.0, right=8.0, style="circuit",
        ramps=((200, 40, 1.8), (735, 40, 1.8)),
        patches=((110, 10, ICE), (380, 60, GRIPPY), (640, 10, ICE), (850, 60, GRIPPY)),
        crosses_itself=True,
    ),
    "mountain_track": Scene(
        corners=(
            (0, -62, 14), (-48, -56, 16), (-50, -32, 20), (-30, 0, 14), (-46, 16, 12),
            (-68, 8, 14), (-72, -36, 14), (-122, -10, 30), (-100, 52, 26), (0, 50, 14),
        ),
        length=517, start=(50.1, 51.2, 180), left=5.0, right=5.0, style="dirt",
        heights=((0, 1), (0.15, 0), (0.3, 3), (0.42, 1.5), (0.6, 4), (0.75, 2), (0.87, 3)),
        height_range=(3.05, 7.42),
    ),
    "roboracingleague_1": Scene(
        corners=(
            (-56, 0, 8), (-56, 17, 8), (-9, 19, 7.5), (-9, 34, 7), (-54, 33, 8), (-54, 51.7, 8),
            (52, 51.7, 8), (52, 34, 8), (9, 33, 7), (9, 18, 7), (50, 17, 8), (50, 0, 8),
        ),
        length=392, start=(23.9, -26.0, -90), left=4.4, right=4.8, style="warehouse",
        stretch=(True, False), second_start=(15.1, 25.7),
    ),
    "waveshare": Scene(
        corners=((11.6, 0, 5.96), (11.6, 15.6, 7.6), (-11.6, 15.6, 5.96), (-11.6, 0, 7.6)),
        length=66.4, start=(0, -7.7, 90), left=2.4, right=2.0, style="floor",
    ),
    "mini_monaco": Scene(
        corners=(
            (-30, -30, 8), (-52, -30, 8), (-50, 22, 7.5), (-68, 22, 7.5), (-70, -8, 10),
            (-112, -20, 16), (-118, 10, 14), (-60, 92, 10), (-40, 88, 8), (-38, 58, 9),
            (12, 86, 12), (50, 50, 12),
        ),
        length=496, start=(14.0, -68.2, -136), left=4.0, right=4.0, style="circuit", wall_gap=1.5,
    ),
    "warren": Scene(
        corners=((-116, 0, 24), (-116, 56, 17), (-36, 26, 30), (36, 58, 12), (36, 0, 10)),
        length=396, start=(41.6, -27.6, -90), left=7.0, right=3.0, style="road",
    ),
    "thunderhill": Scene(
        corners=(
            (0, -130, 60), (75, -240, 40), (30, -300, 40), (-65, -320, 45), (-60, -430, 45),
            (250, -280, 60), (330, -100, 40), (310, -20, 40), (190, 70, 80), (215, 420, 50),
            (110, 490, 60), (-70, 560, 18), (-75, 505, 22), (120, 370, 40), (120, 190, 16),
            (85, 180, 16), (60, 270, 24), (0, 285, 24),
        ),
        length=2827, start=(185, 504, 173), left=8.0, right=8.0, style="circuit",
        heights=((0, 4), (0.15, 1), (0.3, 0), (0.45, 6), (0.6, 3), (0.75, 8), (0.9, 5)),
        height_range=(2.4, 30.4),
    ),
    "circuit_launch": Scene(
        corners=(
            (-64, 0, 14), (-66, 56, 18), (-22, 56, 14), (-14, 36, 9), (-37, 13, 7.5),
            (-52, 22, 7.5), (-40, 36, 8), (-8, 14, 12), (14, 16, 7.5), (4, 36, 9), (10, 52, 8),
            (30, 46, 10), (34, 0, 12),
        ),
        length=374, start=(20.3, -22.1, -90), left=3.5, right=3.5, style="floor",
        patches=((18, 6, SLIPPERY), (75, 40, GRIPPY), (319, 6, SLIPPERY)),
        crosses_itself=True,
    ),
}  # fmt: skip

GENERATED_ROAD_SEED = 3
NAMES = ("generated_road", *SCENES)
"""Every scene, in DonkeyCar's words."""


def named_track(name: str) -> Track:
    """Build one of `NAMES`."""
    return _generated_road() if name == "generated_road" else _build(name, SCENES[name])


def _generated_road() -> Track:
    """A member of the `road` family, 1000 spans of 2 u, with its path in the right-hand lane."""
    base = families.road(GENERATED_ROAD_SEED)
    xy = base.xy * (1000 * 2 * UNIT / base.length)
    first = xy[1] - xy[0]
    return replace(
        base,
        name="generated_road",
        xy=_carry(xy, float(np.arctan2(first[1], first[0])), start=(50.0, 50.0, 0.0)),
        width_left=np.full(len(xy), (5 + 2.2) * UNIT),
        width_right=np.full(len(xy), (5 - 2.2) * UNIT),
    )


def _build(name: str, scene: Scene) -> Track:
    """Draw, measure and furnish a scene."""
    corners = np.array(scene.corners)
    axes = np.array(scene.stretch)
    spacing = (scene.left + scene.right) / 20
    edge = corners[0, :2] - corners[-1, :2]

    def draw(scale: float) -> Array:
        points = corners[:, :2] * np.where(axes, scale, 1.0)
        line = curves.round_corners(points, corners[:, 2], 0.2, lead=float(np.hypot(*points[0])))
        xy, _ = curves.resample(curves.smooth(line, _SMOOTHING / 0.2), spacing)
        return xy * UNIT

    def excess(scale: float) -> float:
        return float(curves.cumulative_length(draw(scale), closed=True)[-1] - scene.length * UNIT)

    # Length is all but linear in the scale, so the secant needs a handful of drawings.
    scale = float(newton(excess, 1.0, x1=1.01, tol=1e-9))
    xy = _carry(draw(scale), float(np.arctan2(edge[1], edge[0])), scene.start)
    distance = np.arange(len(xy)) / len(xy) * scene.length
    return Track(
        name=name,
        xy=xy,
        width_left=np.full(len(xy), scene.left * UNIT),
        width_right=np.full(len(xy), scene.right * UNIT),
        z=_heights(scene, distance) * UNIT,
        grip=_grip(scene, distance) if scene.patches else None,
        style=scene.style,
        wall_gap=None if scene.wall_gap is None else scene.wall_gap * UNIT,
        starts=_starts(scene, xy),
        crosses_itself=scene.crosses_itself,
    )


def _carry(xy: Array, heading: float, start: tuple[float, float, float]) -> Array:
    """Turn a line that leaves the origin with `heading`, and move it, to a Unity start pose."""
    x, z, yaw = start
    angle = np.radians(90 - yaw) - heading
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return xy @ rotation.T + np.array([x, z]) * UNIT


def _starts(scene: Scene, xy: Array) -> tuple[Start, ...]:
    if scene.second_start is None:
        return (Start(),)
    wanted = np.array(scene.second_start) * UNIT
    nearest = int(np.hypot(*(xy - wanted).T).argmin())
    # Both starts lie on straights: what is left from the nearest sample is along the line.
    step = np.roll(xy, -1, axis=0)[nearest] - xy[nearest]
    sample = nearest + (wanted - xy[nearest]) @ step / (step @ step)
    return (Start(), Start(s=float(sample * scene.length * UNIT / len(xy))))


def _heights(scene: Scene, distance: Array) -> Array:
    """Height of the road in u: a smooth curve through the knots, fitted to the range; ramps."""
    low, high = scene.height_range
    z = np.full(len(distance), low)
    if scene.heights:
        fraction, value = np.array([*scene.heights, (1.0, scene.heights[0][1])]).T
        shape = CubicSpline(fraction, value, bc_type="periodic")(distance / scene.length)
        z = low + (high - low) * (shape - shape.min()) / np.ptp(shape)
    for middle, length, height in scene.ramps:
        across = np.clip((distance - middle) / length, -0.5, 0.5)
        z = z + height * np.cos(np.pi * across) ** 2
    return z


def _grip(scene: Scene, distance: Array) -> Array:
    grip = np.ones(len(distance))
    for begin, length, value in scene.patches:
        grip[(distance >= begin) & (distance < begin + length)] = value
    return grip
