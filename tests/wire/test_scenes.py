"""Scenes by name, and random roads by number."""

import asyncio

import numpy as np
import pytest

from hotlap.sim.tracks.curves import curvature
from hotlap.sim.tracks.families import MOST_NUDGE
from hotlap.sim.tracks.named import UNIT
from hotlap.wire.server import library
from hotlap.wire.server.scenes import find_scene, road_track


def test_random_roads_are_decided_by_their_number() -> None:
    first, again, other = road_track(5, 0), road_track(5, 0), road_track(6, 1)
    assert np.array_equal(first.xy, again.xy)
    assert not np.array_equal(first.xy, other.xy)
    assert first.length == pytest.approx(250.0)
    assert first.xy[0].tolist() == pytest.approx([50 * UNIT, 50 * UNIT])
    assert (first.xy[5] - first.xy[0])[0] == pytest.approx(0.0, abs=1e-3)  # yaw 0
    assert float(other.half_width) == pytest.approx(12 * UNIT)


def test_random_roads_turn_as_much_as_they_are_told_to() -> None:
    gentle, again, wild = road_track(5, 0, 1.0), road_track(5, 0, 1.0), road_track(5, 0, 20.0)
    assert np.array_equal(gentle.xy, again.xy)
    assert not np.array_equal(gentle.xy, road_track(5, 0).xy)
    bend, wilder = (np.abs(curvature(road.xy, closed=False)).mean() for road in (gentle, wild))
    assert wilder > 2 * bend
    assert np.array_equal(road_track(5, 0, 0.0).xy, road_track(5, 0).xy)


@pytest.mark.parametrize(
    ("asked", "built"),
    [((7, 1, 0.0), (7, 1, 0.0)), ((-7, -1, -2.5), (7, 1, 2.5)), ((7, 1, 1e9), (7, 1, MOST_NUDGE))],
)
def test_a_random_road_is_never_refused(
    asked: tuple[int, int, float], built: tuple[int, int, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "random_road", lambda *key: key)
    shelf = library.Library()
    try:
        assert asyncio.run(shelf.road(*asked)) == built
        assert asyncio.run(shelf.road(7, 1, 1.0)) == (7, 1, 1.0)  # and not what is kept
    finally:
        shelf.close()


@pytest.mark.parametrize("name", ["generated_trak", "circuit", "circuit:", "circuit:x", "../a.csv"])
def test_unknown_scenes_are_refused(name: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        find_scene(name)
