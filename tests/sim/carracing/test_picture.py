"""The picture of CarRacing, against Gymnasium's own and against itself."""

import math
import os
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.config.carracing import FRAMES_PER_SECOND, CarRacingConfig, View
from hotlap.sim.carracing.generator import generate
from hotlap.sim.carracing.maps import GUARD, LEVELS, PERIOD
from hotlap.sim.carracing.panel import Panel
from hotlap.sim.carracing.picture import CHUNK, Painter, level_at, warp, zoom_at
from hotlap.sim.carracing.tile_track import PLAYFIELD

Pictures = NDArray[np.uint8]
DIGITS = 11
"""Columns of the panel that Gymnasium writes the score in."""


def as_gray(frames: Pictures) -> NDArray[np.int64]:
    """What OpenCV makes of frames (..., 3)."""
    weights = np.array([4899, 9617, 1868])
    return (frames.astype(np.int64) @ weights + 8192) >> 14


def state(rows: list[list[float]], track: int = 0) -> dict[str, Tensor]:
    """Arguments of `draw` from rows of frame, x, y, turn, steer, four spins, yaw rate, speed."""
    table = torch.tensor(rows, dtype=torch.float32)
    return {
        "track": torch.full((len(rows),), track),
        "frame": table[:, 0].long(),
        "x": table[:, 1],
        "y": table[:, 2],
        "turn": table[:, 3],
        "steer": table[:, 4],
        "spin": table[:, 5:9],
        "yaw_rate": table[:, 9],
        "speed": table[:, 10],
    }


def standing(x: float, y: float, turn: float, frame: int = 60) -> list[float]:
    """A row of `state` of a car at rest."""
    return [frame, x, y, turn, *[0.0] * 7]


def make_env() -> Any:
    """Gymnasium's CarRacing, without a screen."""
    pytest.importorskip("Box2D")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    from gymnasium.envs.box2d.car_racing import CarRacing

    return CarRacing()


def read_state(env: Any, frame: int) -> list[float]:
    """A row of `state` of Gymnasium's car."""
    hull, wheels = env.car.hull, env.car.wheels
    spins = [wheel.omega for wheel in wheels]
    speed = math.hypot(*hull.linearVelocity)
    pose = [*hull.position, hull.angle, wheels[0].joint.angle]
    return [frame, *pose, *spins, hull.angularVelocity, speed]


def put(env: Any, x: float, y: float, turn: float, steer: float, frame: int) -> Pictures:
    """Gymnasium's frame with its car put somewhere."""
    hull = env.car.hull
    hull.position, hull.angle = (x, y), turn
    for i, wheel in enumerate(env.car.wheels):
        wheel.position = hull.GetWorldPoint(_anchor(i))
        wheel.angle = turn + (steer if i < 2 else 0.0)
    env.t = frame / FRAMES_PER_SECOND
    frame_seen: Pictures = env._render("state_pixels")
    return frame_seen


def _anchor(i: int) -> tuple[float, float]:
    """Where wheel i sits on the hull."""
    return ((-1.1, 1.6), (1.1, 1.6), (-1.1, -1.64), (1.1, -1.64))[i]


def drive(seed: int, frames: int) -> tuple[list[list[float]], Pictures]:
    """States and frames of a drive along the road of a seed, with some swerving."""
    env = make_env()
    seen = [env.reset(seed=seed)[0]]
    rows = [read_state(env, 1)]
    nodes = np.array(env.track)[:, 2:]
    rng = np.random.default_rng(seed)
    swerve = 0.0
    for frame in range(2, frames + 1):
        x, y, turn = rows[-1][1:4]
        ahead = (int(np.argmin(((nodes - (x, y)) ** 2).sum(1))) + 4) % len(nodes)
        east, north = nodes[ahead] - (x, y)
        cos, sin = math.cos(turn), math.sin(turn)
        aside = math.atan2(east * cos + north * sin, north * cos - east * sin)
        swerve = 0.97 * swerve + 0.1 * rng.normal()
        fast = rows[-1][10] > 50
        action = [np.clip(2 * aside + swerve, -1, 1), 0.0 if fast else 0.5, 0.2 if fast else 0.0]
        seen.append(env.step(np.array(action, dtype=np.float32))[0])
        rows.append(read_state(env, frame))
    return rows, np.stack(seen)


@pytest.fixture(scope="module")
def painters() -> dict[View, Painter]:
    """A painter of the same track for every view, in gray."""
    tracks = generate([3])
    return {view: Painter(tracks, CarRacingConfig(view=view)) for view in ("crop", "warp", "full")}


def test_a_picture_is_gymnasiums(painters: dict[View, Painter]) -> None:
    """On the road, beside it, at the edge of the field, and in the first second."""
    env = make_env()
    env.reset(seed=3)
    rng = np.random.default_rng(0)
    poses = []
    for frame in (60, 60, 60, 60, 60, 60, 1, 4, 9, 15, 25, 40):
        _, turn, x, y = env.track[rng.integers(len(env.track)) if frame == 60 else 0]
        off = rng.uniform(-20, 20, 2) if frame == 60 else (0.0, 0.0)
        turn += rng.uniform(-0.5, 0.5)
        poses.append((float(x + off[0]), float(y + off[1]), turn, rng.uniform(-0.4, 0.4), frame))
    poses.append((320.0, -20.0, -1.5, 0.0, 60))
    real = as_gray(np.stack([put(env, *pose) for pose in poses]))[:, :84, 6:90]
    rows = [[f, x, y, turn, steer, *[0.0] * 6] for x, y, turn, steer, f in poses]
    ours = painters["crop"].draw(**state(rows)).numpy().astype(int)
    errors = np.abs(ours - real)
    late = np.array([pose[4] >= 50 for pose in poses])
    assert errors[late].mean() < 0.6
    assert errors[~late].mean() < 1.3
    assert errors.mean((1, 2)).max() < 2.5
    assert (errors[late] > 20).mean() < 0.004


@pytest.mark.slow
def test_drives_look_like_gymnasiums() -> None:
    """Mean error in gray levels over drives on several tracks, panel included."""
    seeds = (0, 1, 2, 3)
    painter = Painter(generate(list(seeds)), CarRacingConfig(view="full"))
    late, first, panel, far_off = [], [], [], []
    for i, seed in enumerate(seeds):
        rows, frames = drive(seed, 300)
        error = np.abs(painter.draw(**state(rows, i)).numpy().astype(int) - as_gray(frames))
        picture = error[:, :84, 6:90]
        first.append(picture[: FRAMES_PER_SECOND - 1].mean())
        late.append(picture[FRAMES_PER_SECOND:].mean())
        far_off.append((picture[FRAMES_PER_SECOND:] > 20).mean())
        panel.append(error[:, 84:, DIGITS:].mean())
    assert max(late) < 0.7  # 0.62, a third of it the shades of visited tiles
    assert max(first) < 1.0
    assert max(far_off) < 0.004
    assert max(panel) < 0.1


def test_nothing_is_shifted(painters: dict[View, Painter]) -> None:
    """The error does not follow the picture's slopes: less than 0.02 pixels along both axes."""
    env = make_env()
    env.reset(seed=3)
    poses = [(*env.track[i][2:], 0.7 * i, 0.0, 60) for i in range(0, 240, 4)]
    real = as_gray(np.stack([put(env, *pose) for pose in poses]))[:, :60, 6:90].astype(float)
    rows = [standing(x, y, turn) for x, y, turn, *_ in poses]
    error = painters["crop"].draw(**state(rows)).numpy()[:, :60] - real
    for axis in (1, 2):
        slope = np.gradient(real, axis=axis)
        assert abs((error * slope).sum() / (slope**2).sum()) < 0.02


def test_crop_is_part_of_the_frame_and_warp_its_mean(painters: dict[View, Painter]) -> None:
    rows, at = [], painters["crop"].maps.near[0].mean(0)
    for frame in (1, 30, 60):
        rows.append([frame, float(at[0]), float(at[1]), 0.7, 0.2, 60, 61, 70, 71, -1.5, 40])
    full, crop, small = (painters[v].draw(**state(rows)) for v in ("full", "crop", "warp"))
    assert full.shape == (3, 96, 96)
    assert torch.equal(crop, full[:, :84, 6:90])
    edges = np.arange(85)[:, None] * (96 / 84)
    area = np.minimum(np.arange(1, 97), edges[1:]) - np.maximum(np.arange(96), edges[:-1])
    share = area.clip(0) * (84 / 96)
    mean = share @ full.numpy().astype(float) @ share.T
    assert np.abs(small.numpy() - mean).max() <= 0.5 + 1e-9


def test_warp_keeps_channels_apart() -> None:
    frame = torch.randint(0, 256, (2, 96, 96, 3), dtype=torch.uint8)
    small = warp(frame)
    assert small.shape == (2, 84, 84, 3)
    for channel in range(3):
        assert torch.equal(small[..., channel], warp(frame[..., channel]))


def test_gray_is_the_gray_of_the_colours(painters: dict[View, Painter]) -> None:
    start = generate([3])[0]
    painter = Painter([start], CarRacingConfig(view="full", colour=True))
    rows = [
        [frame, start.x[0], start.y[0], 0.3, 0.3, 50, 50, 50, 50, 1.0, 30.0] for frame in (9, 60)
    ]
    colours = painter.draw(**state(rows))
    assert colours.shape[-1] == 3
    assert colours.dtype == torch.uint8
    # Each of the three channels was rounded, in the map and under the car.
    assert (
        np.abs(as_gray(colours.numpy()) - painters["full"].draw(**state(rows)).numpy()).max() <= 3
    )


def test_a_batch_equals_its_members() -> None:
    tracks = generate([0, 1, 2])
    painter = Painter(tracks, CarRacingConfig())
    count = CHUNK + 5
    rows = [standing(*(5.0 * i - 50, 3.0 * i), 0.3 * i, 4 * i) for i in range(count)]
    given = state(rows) | {"track": torch.arange(count) % 3}
    together = painter.draw(**given)
    for i in range(count):
        alone = painter.draw(**{name: value[i : i + 1] for name, value in given.items()})
        assert torch.equal(together[i], alone[0])


def test_a_car_far_from_the_road_sees_the_field_go_on(painters: dict[View, Painter]) -> None:
    """Where the track's own map ends and the plain field takes over, pictures are the same."""
    painter = painters["crop"]
    west, south, east, north = painter.maps.near[0].flatten().tolist()
    middle_x, middle_y = (west + east) / 2, (south + north) / 2
    for turn in (0.0, 1.0, 2.5, 4.0):
        for x, y, out in (
            (west, middle_y, (-1, 0)),
            (east, middle_y, (1, 0)),
            (middle_x, south, (0, -1)),
            (middle_x, north, (0, 1)),
        ):
            step = 1e-3
            inside = standing(x - step * out[0], y - step * out[1], turn)
            outside = standing(x + step * out[0], y + step * out[1], turn)
            one, other = painter.draw(**state([inside, outside])).int()
            assert one[:60].unique().min() >= 158  # no road, only grass
            # What is read beyond a side lies one texel lower; at the rims of squares it shows.
            assert (one - other).abs().float().mean() < 0.5
            assert ((one - other).abs() > 8).float().mean() < 0.02


def test_beyond_the_field_it_is_black(painters: dict[View, Painter]) -> None:
    """A car that stands 10 units before the field's end sees 19 rows of grass and road ahead."""
    row = standing(PLAYFIELD - 10, 0.0, -math.pi / 2)
    picture = painters["crop"].draw(**state([row]))[0]
    rows_ahead = 10 * 16.2 / (800 / 96)  # 19.4
    edge = 72 - math.ceil(rows_ahead)
    assert picture[: edge - 1].max() == 0  # the edge itself is as soft as a texel
    assert picture[edge + 1 : 66].min() > 150


def test_lost_numbers_draw_something(painters: dict[View, Painter]) -> None:
    rows = [standing(math.nan, 1e9, math.nan), standing(-1e9, math.inf, 1.0, 3)]
    assert painters["crop"].draw(**state(rows)).shape == (2, 84, 84)


def test_no_picture_reaches_out_of_the_pool() -> None:
    """The furthest corner, in texels of the level that is read, is nearer than the guard rows."""
    corner = math.hypot(500, 600)
    for frame in range(FRAMES_PER_SECOND + 1):
        zoom = zoom_at(frame)
        level = LEVELS[level_at(zoom)]
        assert corner / zoom * level.texels / PERIOD < GUARD


def test_the_zoom_is_that_of_gymnasium() -> None:
    assert zoom_at(50) == zoom_at(500) == 16.2
    assert zoom_at(25) == pytest.approx(8.4)  # halfway between 0.6 and 16.2
    assert [level_at(zoom_at(frame)) for frame in (1, 50)] == [len(LEVELS) - 1, 0]


def test_bars_of_the_panel_worked_by_hand() -> None:
    zero = torch.zeros(1)
    speed = Panel(False, "cpu").draw(zero + 50.0, torch.zeros(1, 4), zero, zero)[0, :, :, 0]
    # 20 pixels of the window high, from 760 to 780, both included; the frame's row 91 begins at
    # 758.3 and ends at 766.7: four fifths; columns 125 to 150, and column 12 begins at 125.
    assert speed[91 - 84, 12] == round(253 * 0.8)
    assert speed[92 - 84, 12] == 253
    assert speed[90 - 84, 12] == 0
    steering = Panel(True, "cpu").draw(zero, torch.zeros(1, 4), zero - 0.1, zero)[0]
    # To the right, from 500 to 525; row 87 lies within 720..760.
    assert steering[87 - 84, 48].tolist() == [0, 253, 0]
    assert steering[87 - 84, 47].tolist() == [0, 0, 0]


def test_the_front_wheels_turn_with_the_joints(painters: dict[View, Painter]) -> None:
    """To the left (counter-clockwise), the mirror image of to the right, up to window pixels."""
    rows = [standing(0.0, 0.0, 0.0) for _ in range(3)]
    for row, steer in zip(rows, (0.4, 0.0, -0.4), strict=True):
        row[4] = steer
        row[1:3] = [280.0, 0.0]
    left, straight, right = painters["crop"].draw(**state(rows)).int()[:, 66:78, 39:45]
    assert (left - straight).abs().max() > 10
    assert torch.equal(left[6:], straight[6:])  # rear wheels
    assert (left - right.flip(1)).abs().float().mean() < 6


@pytest.mark.slow
@pytest.mark.parametrize(("view", "colour"), [("crop", False)])
def test_compiled_pictures_are_the_same(view: View, colour: bool) -> None:
    tracks = generate([0, 1])
    config = CarRacingConfig(view=view, colour=colour)
    plain, fast = Painter(tracks, config), Painter(tracks, config, compiled=True)
    rows = [[8 * i, 9.0 * i - 60, 5.0 * i, 0.5 * i, 0.1, 9, 9, 9, 9, 0.5, 20] for i in range(CHUNK)]
    given = state(rows) | {"track": torch.arange(CHUNK) % 2}
    once = plain.draw(**given)
    whole = torch.compile(plain.draw, fullgraph=True, dynamic=False)
    for other in (fast.draw(**given), whole(**given)):
        # Other roundings of a sum may read the next texel, at an edge.
        assert ((once.int() - other.int()).abs() > 2).float().mean() < 1e-3
