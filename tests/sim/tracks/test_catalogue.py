"""Finding tracks by name, and turning them round."""

from pathlib import Path

import numpy as np
import pytest

from hotlap.sim.tracks import FAMILIES, NAMES, Start, Track, curves, find_track
from hotlap.sim.tracks.catalogue import list_tracks, mirrored, reversed_track
from hotlap.sim.tracks.csv_file import save_csv


def test_scenes_are_built_once_and_locked() -> None:
    track = find_track("generated_track")
    assert track is find_track("generated_track")
    with pytest.raises(ValueError, match="read-only"):
        track.xy[0] = 0


def test_a_family_is_found_by_number() -> None:
    np.testing.assert_array_equal(find_track("circuit:17").xy, FAMILIES["circuit"](17).xy)


def test_a_file_is_found_by_its_path(tmp_path: Path) -> None:
    save_csv(find_track("waveshare"), tmp_path / "mine.csv")
    assert find_track(str(tmp_path / "mine.csv")).name == "mine"


def test_an_unknown_name_is_met_with_the_nearest_and_the_rest() -> None:
    with pytest.raises(
        KeyError, match=r"did you mean 'generated_track'.*available: generated_road"
    ) as e:
        find_track("generated_trak")
    assert all(name in str(e.value) for name in list_tracks())
    with pytest.raises(KeyError, match="did you mean 'circuit'"):
        find_track("circus:3")
    with pytest.raises(KeyError, match="unknown track 'zzz'; available"):
        find_track("zzz")


@pytest.mark.parametrize("name", ["circuit:", "circuit:-1", "circuit:1.5", "circuit:x"])
def test_a_seed_is_a_whole_number(name: str) -> None:
    with pytest.raises(ValueError, match="whole number from 0 up"):
        find_track(name)


def test_a_family_needs_a_seed() -> None:
    with pytest.raises(KeyError, match="did you mean 'circuit:0'"):
        find_track("circuit")


def test_a_word_for_many_tracks_is_no_track() -> None:
    with pytest.raises(KeyError, match="unknown track 'unseen': it stands for many"):
        find_track("unseen")


def test_the_list_names_every_scene_and_family() -> None:
    assert list_tracks() == [*NAMES, *(f"{family}:<seed>" for family in FAMILIES)]


def small(closed: bool) -> Track:
    return Track(
        name="small",
        xy=np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]),
        width_left=np.array([0.1, 0.2, 0.3, 0.4]),
        width_right=np.array([0.5, 0.6, 0.7, 0.8]),
        z=np.array([0.0, 1.0, 2.0, 3.0]),
        grip=np.array([1.0, 0.9, 0.8, 0.7]),
        closed=closed,
        starts=(Start(), Start(s=1.0, n=0.05, heading_error=0.1)),
        cones=np.array([[0.5, 0.25]]),
    )


def test_a_mirror_swaps_left_and_right() -> None:
    track = mirrored(small(closed=True))
    np.testing.assert_array_equal(track.xy[2], [1, -1])
    np.testing.assert_array_equal(track.width_left, [0.5, 0.6, 0.7, 0.8])
    assert track.starts[1] == Start(1.0, -0.05, -0.1)
    assert track.cones is not None and track.cones.tolist() == [[0.5, -0.25]]
    assert curves.net_turn(track.xy) == -curves.net_turn(small(closed=True).xy)


def test_a_closed_track_reversed_begins_at_the_same_place() -> None:
    track = reversed_track(small(closed=True))
    np.testing.assert_array_equal(track.xy, [[0, 0], [0, 1], [1, 1], [1, 0]])
    np.testing.assert_array_equal(track.z, [0, 3, 2, 1])
    np.testing.assert_array_equal(track.width_left, [0.5, 0.8, 0.7, 0.6])
    # One metre along, the car was 5 cm left of (1, 0); now it is 5 cm right, three metres along.
    assert track.starts == (Start(0.0), Start(3.0, -0.05, -0.1))


def test_an_open_road_reversed_begins_at_its_end() -> None:
    track = reversed_track(small(closed=False))
    np.testing.assert_array_equal(track.xy, [[0, 1], [1, 1], [1, 0], [0, 0]])
    assert track.starts[0] == Start()


@pytest.mark.parametrize("change", [mirrored, reversed_track])
@pytest.mark.parametrize("name", ["roboracingleague_1", "hills:2", "road:1"])
def test_twice_is_the_track_itself(change, name: str) -> None:
    track = find_track(name)
    twice = change(change(track))
    for field in ("xy", "width_left", "width_right", "z"):
        np.testing.assert_array_equal(getattr(twice, field), getattr(track, field))
    assert [start.s for start in twice.starts] == pytest.approx([start.s for start in track.starts])
