"""Crash spots: found on a circle, told apart from chance, never chained together."""

import pytest

from hotlap.evaluation.crashes import Spot, find_crashes, find_spots
from hotlap.records import EpisodeResult
from hotlap.sim.tracks import find_track


def crashed_at(*places: float | None) -> list[EpisodeResult]:
    return [
        EpisodeResult(
            identity=number,
            seed=0,
            episode_return=0.0,
            length=1,
            end="time" if place is None else "crashed",
            crash_s=place,
        )
        for number, place in enumerate(places)
    ]


def test_a_spot_wraps_past_the_start_of_a_closed_road() -> None:
    (spot,) = find_spots([99.5, 0.5, 50.0], reach=2.0, around=100.0)
    assert spot == Spot(s=0.0, width=1.0, count=2)
    assert find_spots([99.5, 0.5, 50.0], reach=2.0, around=None) == ()


def test_the_middle_of_a_spot_lies_on_the_road() -> None:
    (spot,) = find_spots([99.0, 99.8, 0.2], reach=2.0, around=100.0)
    assert spot.s == pytest.approx(99.6)
    (spot,) = find_spots([99.8, 0.2, 1.0], reach=2.0, around=100.0)
    assert spot.s == pytest.approx(0.4)


def test_the_fullest_spot_comes_first_and_nobody_is_counted_twice() -> None:
    spots = find_spots([10, 10.5, 30, 30.1, 30.2, 70], reach=2.0, around=100.0)
    assert [(spot.count, round(spot.s, 2)) for spot in spots] == [(3, 30.1), (2, 10.25)]


def test_a_chain_of_crashes_is_not_one_spot() -> None:
    chain = [float(place) for place in range(20)]
    assert max(spot.count for spot in find_spots(chain, reach=2.0, around=100.0)) == 3
    assert find_crashes(crashed_at(*chain), find_track("warren")).pattern == "spread"


@pytest.mark.parametrize(
    ("places", "pattern"),
    [
        ((None, None), "none"),
        ((5.0, 5.0), "few"),
        ((5.0, 5.1, 20.0), "same spot"),
        ((5.0, 5.1, 20.0, 30.0, 40.0), "spread"),
        ((5.0, 15.0, 25.0), "spread"),
        ((0.3, 49.4, None, 48.9, 20.0), "same spot"),  # warren is 49.5 m round
    ],
)
def test_crashes_are_at_the_same_spot_or_spread(
    places: tuple[float | None, ...], pattern: str
) -> None:
    crashes = find_crashes(crashed_at(*places), find_track("warren"))
    assert crashes.pattern == pattern
    assert crashes.count == len(crashes.places) == sum(place is not None for place in places)


def test_a_spot_on_a_short_road_is_short_too() -> None:
    apart = (1.0, 2.0, 3.0)
    assert find_crashes(crashed_at(*apart), find_track("waveshare")).pattern == "spread"
    assert find_crashes(crashed_at(*apart), find_track("warren")).pattern == "same spot"
