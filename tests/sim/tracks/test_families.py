"""What every track of every family keeps."""

import numpy as np
import pytest

from hotlap.sim.tracks import FAMILIES, Track, curves, families
from hotlap.sim.tracks.families import (
    CLEARANCE,
    MAX_SLOPE,
    MIN_RADIUS,
    MOST_NUDGE,
    circuit,
    eight,
    hills,
    loop,
    road,
)  # fmt: skip


def assert_drivable(track: Track) -> None:
    half_width = float(track.width_left[0])
    xy = track.xy / half_width
    steps = np.hypot(*curves.edges(xy, track.closed).T)
    assert np.isfinite(xy).all(), track.name
    assert np.ptp(steps) / steps.mean() < 1e-3, track.name
    assert steps.mean() == pytest.approx(0.1, rel=0.02), track.name
    assert curves.tightest_radius(xy, track.closed) >= MIN_RADIUS, track.name
    crossroads = curves.crossings(xy, track.closed)
    assert len(crossroads) == int(track.crosses_itself), track.name
    lines = [xy[::2]] if not track.crosses_itself else lobes_of(xy, *crossroads[0])
    for line in lines:
        closed = track.closed and not track.crosses_itself
        assert curves.clearance(line, 6.0, CLEARANCE, closed) >= CLEARANCE, track.name
    if track.crosses_itself:
        assert min(np.hypot(*(lines[0] - spot).T).min() for spot in lines[1]) >= CLEARANCE
    np.testing.assert_array_equal(track.width_left, track.width_right)


def lobes_of(xy: np.ndarray, first: int, second: int, arm: int = 40) -> list[np.ndarray]:
    """The two loops of a figure of eight without their arms of 4 half-widths to the crossroads."""
    once_more = np.vstack([xy, xy])
    loops = once_more[first:second], once_more[second : first + len(xy)]
    return [loop[arm:-arm:2] for loop in loops]


@pytest.mark.parametrize("family", FAMILIES)
def test_two_hundred_are_drivable_and_distinct(family: str) -> None:
    lengths = set()
    for seed in range(200):
        track = FAMILIES[family](seed)
        assert track.name == f"{family}:{seed}"
        assert track.closed == (family != "road")
        assert_drivable(track)
        lengths.add(track.length)
    assert len(lengths) == 200


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_two_thousand_are_drivable(family: str) -> None:
    for seed in range(1000, 3000):
        assert_drivable(FAMILIES[family](seed))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_always_names_the_same_track(family: str) -> None:
    first, second = FAMILIES[family](7), FAMILIES[family](7)
    np.testing.assert_array_equal(first.xy, second.xy)
    np.testing.assert_array_equal(first.z, second.z)


# The numbers of this machine: a change of generator or of draws shows here.
@pytest.mark.parametrize(
    ("family", "length"),
    [
        ("road", 244.528692),
        ("circuit", 28.056066),
        ("loop", 1049.346583),
        ("hills", 39.987398),
        ("eight", 81.817879),
    ],
)
def test_number_seven_stays_the_track_it_was(family: str, length: float) -> None:
    assert FAMILIES[family](7).length == pytest.approx(length, rel=1e-6)


@pytest.mark.parametrize("make", [circuit, loop, hills])
def test_closed_families_turn_both_ways(make) -> None:
    turns = [curves.net_turn(make(seed).xy) for seed in range(40)]
    np.testing.assert_allclose(np.abs(turns), 2 * np.pi)
    assert 8 < sum(turn > 0 for turn in turns) < 32


def test_the_roads_of_an_eight_meet_at_forty_degrees_or_more_and_go_on() -> None:
    for seed in range(40):
        track = eight(seed)
        assert track.crosses_itself and abs(curves.net_turn(track.xy)) < 1e-6
        first, second = curves.crossings(track.xy)[0]
        heading = curves.headings(track.xy)
        assert abs(np.sin(heading[first] - heading[second])) > np.sin(np.radians(40))
        for piece in (first, second):  # no bend to speak of within half a road of it
            around = heading[np.arange(piece - 5, piece + 6) % len(heading)]
            assert np.ptp(np.unwrap(around)) < np.radians(40)


def test_an_eight_starts_beyond_its_crossroads() -> None:
    for seed in range(200):
        track = eight(seed)
        crossroads = track.xy[curves.crossings(track.xy)[0][0]]
        assert np.hypot(*(track.xy[0] - crossroads)) > 2 * track.width_left[0], seed


@pytest.mark.parametrize("nudge", [1e-6, 0.5, 8.0, MOST_NUDGE])
def test_a_road_of_any_nudge_is_drivable(nudge: float) -> None:
    for seed in range(20):
        assert_drivable(road(seed, nudge=nudge))


@pytest.mark.parametrize("nudge", [0.0, -1.0, 31.0, float("nan")])
def test_a_nudge_that_bends_no_road_is_refused(nudge: float) -> None:
    with pytest.raises(ValueError, match="nudge must lie above 0 and up to 30 degrees"):
        road(0, nudge=nudge)


def test_a_family_scales_with_its_road() -> None:
    small, large = circuit(3), circuit(3, half_width=8.0)
    np.testing.assert_allclose(large.xy / 8.0, small.xy / 0.625, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="half_width must be above zero, got 0"):
        circuit(3, half_width=0)


def test_road_is_a_thousand_spans_of_two_u() -> None:
    assert road(0).length == pytest.approx(250, rel=0.03)  # a little less: corners are rounded
    assert road(0, spans=100).length == pytest.approx(25, rel=0.03)


def test_loop_has_the_size_of_car_racing() -> None:
    for seed in range(20):
        track = loop(seed)
        assert track.width_left[0] == pytest.approx(40 / 6)
        assert 700 < track.length < 1300
        assert np.hypot(*track.xy.T).max() < 1.6 * 150


def test_hills_are_no_steeper_than_promised_and_not_flat() -> None:
    for seed in range(50):
        track = hills(seed)
        slope = np.abs(np.diff(track.z, append=track.z[:1])).max() / track.spacing
        assert 0.25 * MAX_SLOPE < slope <= MAX_SLOPE
        assert track.z.min() == 0


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 up, got -1"):
        circuit(-1)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_attempt_needs_no_luck(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_is_sound", lambda xy, closed: False)
    for seed in range(30):
        assert_drivable(FAMILIES[family](seed))
