"""The published numbers of the DonkeyCar scenes (shared facts, section 3.3), in u = 0.125 m."""

import numpy as np
import pytest

from hotlap.sim.tracks import NAMES, Track, curves, find_track
from hotlap.sim.tracks.named import GRIPPY, ICE, SLIPPERY, UNIT

LENGTH = {
    "generated_road": 2000, "generated_track": 214.9, "warehouse": 355, "sparkfun_avc": 1048,
    "mountain_track": 517, "roboracingleague_1": 392, "waveshare": 66.4, "mini_monaco": 496,
    "warren": 396, "circuit_launch": 374, "thunderhill": 2827,
}  # fmt: skip
START = {
    "generated_road": (50.0, 50.0, 0), "generated_track": (49.7, 47.8, 0),
    "warehouse": (47.7, 34.7, 8), "sparkfun_avc": (-32.1, -76.9, 0),
    "mountain_track": (50.1, 51.2, 180), "roboracingleague_1": (23.9, -26.0, -90),
    "waveshare": (0, -7.7, 90), "mini_monaco": (14.0, -68.2, -136),
    "warren": (41.6, -27.6, -90), "circuit_launch": (20.3, -22.1, -90),
    "thunderhill": (185, 504, 173),
}  # fmt: skip
NET_TURNS = {
    "generated_track": -1, "warehouse": -1, "sparkfun_avc": 0, "mountain_track": -1,
    "roboracingleague_1": -1, "waveshare": 1, "mini_monaco": -1, "warren": -1,
    "circuit_launch": -2, "thunderhill": 1,
}  # fmt: skip
EDGES = {
    "generated_road": (7.2, 2.8), "generated_track": (7.0, 3.0), "warren": (7.0, 3.0),
    "roboracingleague_1": (4.4, 4.8), "waveshare": (2.4, 2.0),
}  # fmt: skip


@pytest.fixture(params=NAMES)
def track(request: pytest.FixtureRequest) -> Track:
    return find_track(request.param)


def test_there_are_eleven() -> None:
    assert set(NAMES) == set(LENGTH) and len(NAMES) == 11


def test_length(track: Track) -> None:
    assert track.length / UNIT == pytest.approx(LENGTH[track.name], rel=1e-6)


def test_first_start_pose(track: Track) -> None:
    x, z, yaw = START[track.name]
    np.testing.assert_allclose(track.xy[0] / UNIT, [x, z], atol=1e-9)
    heading = curves.headings(track.xy, track.closed)[0]
    assert np.sin(heading - np.radians(90 - yaw)) == pytest.approx(0, abs=1e-6)
    assert np.cos(heading - np.radians(90 - yaw)) > 0
    assert track.starts[0].s == track.starts[0].n == track.starts[0].heading_error == 0


def test_second_start_of_roboracingleague() -> None:
    track = find_track("roboracingleague_1")
    _, second = track.starts
    sample = second.s / track.spacing
    before, after = track.xy[int(sample)], track.xy[int(sample) + 1]
    np.testing.assert_allclose(
        before + (sample % 1) * (after - before), [15.1 / 8, 25.7 / 8], atol=1e-6
    )
    assert curves.headings(track.xy)[round(sample)] == pytest.approx(0, abs=1e-6)  # yaw 90


def test_samples_are_even(track: Track) -> None:
    steps = np.hypot(*curves.edges(track.xy, track.closed).T)
    assert np.ptp(steps) / steps.mean() < 1e-3
    half_width = (track.width_left + track.width_right).mean() / 2
    assert track.spacing == pytest.approx(half_width / 10, rel=0.02)


def test_no_bend_is_tighter_than_the_car_can_turn(track: Track) -> None:
    assert curves.tightest_radius(track.xy, track.closed) / UNIT >= 5.9


def test_a_bend_never_folds_the_edge_on_its_inside(track: Track) -> None:
    bend = curves.curvature(track.xy, track.closed)
    assert np.all(bend * track.width_left < 1) and np.all(-bend * track.width_right < 1)


@pytest.mark.parametrize(
    ("name", "u"), [("generated_track", 7), ("warehouse", 8), ("waveshare", 5.9)]
)
def test_published_tightest_radius(name: str, u: float) -> None:
    assert curves.tightest_radius(find_track(name).xy) / UNIT == pytest.approx(u, rel=0.015)


@pytest.mark.parametrize("name", NET_TURNS)
def test_net_turn(name: str) -> None:
    assert curves.net_turn(find_track(name).xy) == pytest.approx(
        2 * np.pi * NET_TURNS[name], abs=1e-6
    )


@pytest.mark.parametrize("name", EDGES)
def test_published_edges(name: str) -> None:
    track = find_track(name)
    left, right = EDGES[name]
    np.testing.assert_allclose(track.width_left / UNIT, left)
    np.testing.assert_allclose(track.width_right / UNIT, right)


def test_waveshare_is_55_cm_wide() -> None:
    track = find_track("waveshare")
    np.testing.assert_allclose(track.width_left + track.width_right, 0.55)


def test_only_the_road_is_open_and_only_two_cross(track: Track) -> None:
    assert track.closed == (track.name != "generated_road")
    crossing = track.name in ("sparkfun_avc", "circuit_launch")
    assert track.crosses_itself == crossing
    assert len(curves.crossings(track.xy, track.closed)) == int(crossing)


def test_parts_of_the_road_and_their_walls_do_not_overlap(track: Track) -> None:
    if track.crosses_itself:
        return
    heading = curves.headings(track.xy, track.closed)
    offset = (track.width_left - track.width_right) / 2
    middle = track.xy + offset[:, None] * np.column_stack([-np.sin(heading), np.cos(heading)])
    width = float(track.width_left[0] + track.width_right[0]) + 2 * (track.wall_gap or 0.0)
    assert curves.clearance(middle, 3 * width, 2 * width, track.closed) > 1.05 * width


@pytest.mark.parametrize(
    ("name", "low", "high"), [("mountain_track", 3.05, 7.42), ("thunderhill", 2.4, 30.4)]
)
def test_hills(name: str, low: float, high: float) -> None:
    z = find_track(name).z / UNIT
    assert z.min() == pytest.approx(low) and z.max() == pytest.approx(high)


def test_no_slope_is_too_steep(track: Track) -> None:
    z = np.append(track.z, track.z[0]) if track.closed else track.z
    assert np.abs(np.diff(z)).max() / track.spacing < 0.15


def test_patches_of_little_grip_are_short_and_straight() -> None:
    np.testing.assert_allclose([GRIPPY, SLIPPERY, ICE], [1.32, 0.2, 0.06])
    for name, levels in (
        ("sparkfun_avc", {ICE, 1, GRIPPY}),
        ("circuit_launch", {SLIPPERY, 1, GRIPPY}),
    ):
        track = find_track(name)
        assert track.grip is not None and set(track.grip) == levels
        poor = track.grip < 1
        assert poor.sum() * track.spacing < 0.05 * track.length
        assert np.abs(curves.curvature(track.xy)[poor]).max() * track.length < 1e-3


def test_walls_stand_where_there_are_barriers(track: Track) -> None:
    assert (track.wall_gap is not None) == (track.name in ("mini_monaco", "warehouse"))


@pytest.mark.parametrize("name", ["sparkfun_avc", "circuit_launch"])
def test_where_a_road_crosses_itself_it_is_level_and_of_one_surface(name: str) -> None:
    track = find_track(name)
    around = np.arange(-10, 11)  # a half-width either way
    for piece in curves.crossings(track.xy)[0]:
        np.testing.assert_allclose(track.z[piece + around], 0, atol=1e-12)
        assert track.grip is not None and np.all(track.grip[piece + around] == 1)
