"""CarRacing tracks by name, and the circuits drawn by hand."""

from pathlib import Path

import numpy as np
import pytest

from hotlap.sim.carracing.catalogue import (
    HELD_OUT,
    MOST,
    expand,
    find_tile_tracks,
    list_changes,
    list_tile_tracks,
    refuse_held_out,
)
from hotlap.sim.carracing.centre_line import TILES
from hotlap.sim.carracing.circuits import CIRCUITS, circuit_line
from hotlap.sim.carracing.generator import generate
from hotlap.sim.carracing.tile_track import HALF_WIDTH, KERB_WIDTH, PLAYFIELD, STEP, TileTrack
from hotlap.sim.tracks import NAMES, curves, find_track
from hotlap.sim.tracks.csv_file import save_csv
from hotlap.sim.tracks.track import Array

CLOSED = [name for name in NAMES if name != "generated_road"]


def nodes(track: TileTrack) -> Array:
    return np.stack([track.x, track.y], 1)


def test_seeds_ranges_and_circuits_come_in_their_order() -> None:
    names = ["carracing:5", "carracing:oval", "carracing:2-3", "carracing:5", "carracing:oval*2"]
    found = find_tile_tracks(names)
    assert [track.name.partition(":")[2] for track in found] == [
        "5", "oval", "2", "3", "5", "oval", "oval",
    ]  # fmt: skip
    for track, alone in zip([found[0], *found[2:4]], generate([5, 2, 3]), strict=True):
        np.testing.assert_array_equal(nodes(track), nodes(alone))


@pytest.mark.parametrize("name", CLOSED)
def test_every_closed_scene_can_be_driven(name: str) -> None:
    track = find_tile_tracks([name])[0]
    assert track.name == name
    assert TILES[0] <= len(track) <= TILES[1]
    assert np.abs(nodes(track)).max() < PLAYFIELD - 29


def test_a_road_is_as_wide_as_carracings_if_its_lap_then_fits() -> None:
    road = find_track("warehouse")
    track = find_tile_tracks(["warehouse"])[0]
    assert len(track) == round(road.length * HALF_WIDTH / road.half_width / STEP)
    assert len(find_tile_tracks(["waveshare"])[0]) == TILES[0]  # it would have 56
    assert len(find_tile_tracks(["thunderhill"])[0]) == TILES[1]  # it would have 673


def test_tiles_lie_in_the_middle_of_a_road_whose_line_is_its_right_lane() -> None:
    road = find_track("warren")  # 7 u to the left of its line, 3 u to the right
    track = find_tile_tracks(["warren"])[0]
    assert curves.net_turn(road.xy) == pytest.approx(-2 * np.pi)
    # Of 5 u half a road, the middle lies 2 u to the left of the line: here, all round outside.
    line = np.ptp(road.xy, axis=0) * HALF_WIDTH / road.half_width
    assert np.ptp(nodes(track), axis=0) == pytest.approx(line + 2 * 0.4 * HALF_WIDTH, abs=0.1)


def test_a_family_and_a_file_are_found(tmp_path: Path) -> None:
    road = find_track("circuit:3")
    save_csv(road, tmp_path / "mine.csv")
    family, file = find_tile_tracks(["circuit:3", str(tmp_path / "mine.csv")])
    np.testing.assert_allclose(nodes(family), nodes(file), atol=0.05)
    ahead = curves.headings(road.xy)[0]
    assert np.cos(family.turn[0] + np.pi / 2 - ahead) > 0.999


def ellipse(turns_across: int = 1) -> Array:
    """A lap of some 3 km; with two turns across, a figure of eight."""
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    return np.stack([500 * np.sin(angle), 400 * np.cos(turns_across * angle + 0.5)], 1)


def test_a_file_of_x_and_y_alone_keeps_its_size_if_that_fits(tmp_path: Path) -> None:
    small, large = str(tmp_path / "small.csv"), str(tmp_path / "large.csv")
    np.savetxt(small, ellipse() / 3, delimiter=" ; ", header="x_m; y_m", comments="")
    np.savetxt(large, ellipse(), delimiter=",", header="x_m,y_m")
    same, fitted = find_tile_tracks([small, large])
    assert np.ptp(nodes(same), axis=0) == pytest.approx([1000 / 3, 800 / 3], abs=0.1)
    assert same.note is None
    assert len(fitted) == TILES[1]
    np.testing.assert_allclose(fitted.turn[0], same.turn[0], atol=0.01)
    (told,) = list_changes([small, large, large, "carracing:0", "carracing:oval"])
    assert told.startswith(f"{large}: lap of 2,7") and "made 1,575 units long (0.5" in told


def test_a_road_may_cross_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "eight.csv")
    widths = np.tile([5.0, 7.0], (200, 1))
    np.savetxt(path, np.hstack([ellipse(2), widths]), delimiter=",")
    track = find_tile_tracks([path])[0]
    assert len(curves.crossings(nodes(track))) == 1
    with pytest.raises(ValueError, match="crosses the road from line"):
        find_track(path)


def test_a_file_whose_line_is_open_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    for columns in (ellipse()[:120], np.hstack([ellipse(2)[:120], np.full((120, 2), 6.0)])):
        np.savetxt(path, columns, delimiter=",")
        with pytest.raises(ValueError, match=r"open\.csv.*: the line is not closed: its last"):
            find_tile_tracks([str(path)])
    with pytest.raises(ValueError, match=r"none\.csv: there is no such track file"):
        find_tile_tracks([str(tmp_path / "none.csv")])


def test_open_roads_are_refused() -> None:
    with pytest.raises(ValueError, match="generated_road: an open road has no laps"):
        find_tile_tracks(["generated_road"])


def test_an_unknown_name_is_met_with_the_nearest_and_the_rest() -> None:
    for name, meant in (("carracing:hairpin", "carracing:hairpins"), ("warehose", "warehouse")):
        with pytest.raises(KeyError, match=f"did you mean '{meant}'") as e:
            find_tile_tracks([name])
        assert all(known in str(e.value) for known in list_tile_tracks())
    with pytest.raises(KeyError, match="did you mean 'carracing:kidney'"):
        find_tile_tracks(["kidney"])


def test_ranges_and_numbers_are_checked() -> None:
    assert expand(["carracing:8-9", "carracing:007"]) == (
        "carracing:8", "carracing:9", "carracing:007",
    )  # fmt: skip
    for wrong in ("carracing:-5", "carracing:3-", "carracing:1-2-3"):
        with pytest.raises(ValueError, match="a range of tracks is written carracing:0-255"):
            expand([wrong])
    with pytest.raises(ValueError, match=f"a range holds 1 to {MOST} tracks, this one 0"):
        expand(["carracing:9-8"])
    with pytest.raises(ValueError, match=f"at most {MOST} tracks"):
        expand(["carracing:0-4000", "carracing:5000-5999"])
    with pytest.raises(KeyError, match=r"unknown track 'carracing:1\.5'"):
        find_tile_tracks(["carracing:1.5"])


def test_held_out_seeds_are_refused_however_they_are_named() -> None:
    assert (HELD_OUT[0], HELD_OUT[-1]) == (10_000, 29_999)
    refuse_held_out(["carracing:0-255", "carracing:9999", "carracing:30000", "carracing:oval"])
    with pytest.raises(ValueError, match=r"carracing:10500: .*10000 to 29999 are for judging only"):
        refuse_held_out(["carracing:1", "carracing:10500"])
    with pytest.raises(ValueError, match="carracing:10000 and 2 more"):
        refuse_held_out(["carracing:9990-10002"])
    with pytest.raises(ValueError, match="carracing:10000 and 1 more"):
        refuse_held_out(["carracing:10000*2"])
    with pytest.raises(ValueError, match=r"circuit:90001: .* for judging only"):
        refuse_held_out(["circuit:90001"])


@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_drawn_by_hand_can_be_driven(name: str) -> None:
    line = circuit_line(name)
    assert curves.tightest_radius(line) > 12  # the generator's own bends go down to 11.3
    piece = np.hypot(*curves.edges(line, closed=True).T)
    assert piece.max() < 2 * piece.min()  # closed: the last piece is like the others

    track = find_tile_tracks([f"carracing:{name}"])[0]
    drawn = curves.cumulative_length(line, closed=True)[-1] / STEP
    assert len(track) == round(drawn)  # it keeps its size
    assert TILES[0] <= len(track) <= TILES[1]
    xy = nodes(track)
    crossings = curves.crossings(xy)
    assert len(crossings) == (1 if name == "figure_eight" else 0)
    if not len(crossings):  # roads and kerbs of two parts do not touch
        assert curves.clearance(xy, 60, 60) > 2 * (HALF_WIDTH + KERB_WIDTH)


def test_circuits_are_driven_both_ways_round() -> None:
    turns = {name: round(curves.net_turn(circuit_line(name)) / (2 * np.pi)) for name in CIRCUITS}
    assert turns["figure_eight"] == 0
    assert {turns[name] for name in ("oval", "hairpins", "mixed")} == {1}
    assert {turns[name] for name in ("triangle", "street", "chicanes")} == {-1}


def test_a_lap_of_every_circuit_begins_straight() -> None:
    for name in CIRCUITS:
        track = find_tile_tracks([f"carracing:{name}"])[0]
        assert abs(track.turn[2] - track.turn[0]) < 1e-3
