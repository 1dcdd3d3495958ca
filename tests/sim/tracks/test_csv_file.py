"""Reading centre lines, and refusing what cannot be driven."""

from pathlib import Path

import numpy as np
import pytest

from hotlap.sim.tracks import csv_file, curves, find_track
from hotlap.sim.tracks.csv_file import load_csv, read_line, save_csv

OCTAGON = [(10 * np.cos(a), 10 * np.sin(a)) for a in np.arange(8) * np.pi / 4]


def write(path: Path, points: list, widths: str = "1.0,2.0", header: str = "") -> Path:
    rows = "".join(f"{x:.6f},{y:.6f},{widths}\n" for x, y in points)
    path.write_text(header + rows)
    return path


def test_a_closed_line_is_resampled_with_its_widths(tmp_path: Path) -> None:
    track = load_csv(write(tmp_path / "ring.csv", OCTAGON))
    assert track.name == "ring" and track.closed
    assert track.length == pytest.approx(2 * np.pi * 10, rel=0.01)
    assert track.spacing == pytest.approx(0.15, rel=0.01)
    np.testing.assert_allclose(track.width_right, 1.0)
    np.testing.assert_allclose(track.width_left, 2.0)


def test_a_repeated_last_point_closes_the_line(tmp_path: Path) -> None:
    once = load_csv(write(tmp_path / "a.csv", OCTAGON))
    twice = load_csv(write(tmp_path / "b.csv", [*OCTAGON, OCTAGON[0]]))
    np.testing.assert_array_equal(once.xy, twice.xy)


def test_comments_headers_and_semicolons_are_understood(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.csv", OCTAGON)
    dressed = tmp_path / "b.csv"
    dressed.write_text("# made by hand\n\nx;y;right;left\n" + plain.read_text().replace(",", " ; "))
    np.testing.assert_array_equal(load_csv(plain).xy, load_csv(dressed).xy)


def test_an_open_line_ends_where_it_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [(0, 0), (5, 1), (10, 0), (15, 2)])
    track = load_csv(path, closed=False)
    assert not track.closed
    np.testing.assert_allclose(track.xy[[0, -1]], [[0, 0], [15, 2]], atol=1e-9)


@pytest.mark.parametrize("name", ["generated_track", "circuit:5"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    track = find_track(name)
    save_csv(track, tmp_path / "copy.csv")
    copy = load_csv(tmp_path / "copy.csv", spacing=track.spacing)
    assert len(copy.xy) == len(track.xy)
    np.testing.assert_allclose(copy.xy, track.xy, atol=1e-3 * track.spacing)
    np.testing.assert_allclose(copy.width_left, track.width_left, rtol=1e-6)
    np.testing.assert_allclose(copy.width_right, track.width_right, rtol=1e-6)
    assert curves.tightest_radius(copy.xy) == pytest.approx(
        curves.tightest_radius(track.xy), rel=0.01
    )


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("nan,1,1,1", "line 4: 'nan' is not a finite number"),
        ("1,inf,1,1", "line 4: 'inf' is not a finite number"),
        ("1,1e999,1,1", "line 4: '1e999' is not a finite number"),
        ("1,two,1,1", "line 4: 'two' is not a finite number"),
        ("1,1,1", "line 4: expected 4 numbers .* found 3"),
        ("7.1,7.1,0,1", "line 4: a width must be above zero"),
        ("7.1,7.1,1,-1", "line 4: a width must be above zero"),
        ("7.071068,7.071068,1,2", "line 4: repeats the point of line 3"),
    ],
)
def test_a_bad_row_is_refused_by_line(tmp_path: Path, row: str, problem: str) -> None:
    path = write(tmp_path / "bad.csv", OCTAGON, header="# comment\n")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], row, *lines[3:]]))
    with pytest.raises(ValueError, match=rf"bad\.csv, {problem}"):
        load_csv(path)


def test_too_few_points_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "few.csv", OCTAGON[:4])
    with pytest.raises(
        ValueError, match=r"few\.csv, line 4: a closed track needs at least 5 points"
    ):
        load_csv(path)
    load_csv(path, closed=False)
    with pytest.raises(ValueError, match="an open road needs at least 4 points, found 3"):
        load_csv(write(path, OCTAGON[:3]), closed=False)
    path.write_text("")
    with pytest.raises(ValueError, match=r"few\.csv: .* found 0"):
        load_csv(path)


def test_a_crossing_names_both_lines(tmp_path: Path) -> None:
    bow_tie = [
        (0, 0),
        (5, 0),
        (10, 5),
        (15, 10),
        (20, 10),
        (20, 0),
        (15, 0),
        (10, 4.9),
        (5, 10),
        (0, 10),
    ]
    with pytest.raises(
        ValueError, match=r"tie\.csv, line [23]: .* crosses the road from line [78]"
    ):
        load_csv(write(tmp_path / "tie.csv", bow_tie))


def test_an_open_line_that_is_closed_by_a_crossing_is_told_so(tmp_path: Path) -> None:
    angle = np.linspace(0, 3.5 * np.pi, 60)
    spiral = angle[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    with pytest.raises(ValueError, match=r"open\.csv, line 60: the line is not closed: .* lies 1"):
        load_csv(write(tmp_path / "open.csv", spiral))


def test_x_and_y_alone_are_read_but_make_no_road(tmp_path: Path) -> None:
    path = tmp_path / "xy.csv"
    path.write_text("x,y\n" + "".join(f"{x:.6f},{y:.6f}\n" for x, y in [*OCTAGON, OCTAGON[0]]))
    line = read_line(path)
    np.testing.assert_allclose(line.points, OCTAGON, atol=1e-6)
    assert line.widths is None and line.lines == [*range(2, 10)]
    with pytest.raises(
        ValueError, match=r"line 2: expected 4 numbers .*x and y alone; .*only CarRacing"
    ):
        load_csv(path)
    path.write_text(path.read_text() + "1,2,3,4\n")
    with pytest.raises(ValueError, match=r"line 11: expected 2 numbers \(x, y\), found 4"):
        read_line(path)
    path.write_text("1,2,3\n")
    with pytest.raises(ValueError, match=r"expected 2 numbers \(x, y\) or 4 numbers \(x, .* 3$"):
        read_line(path)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "big.csv", OCTAGON)
    with pytest.raises(ValueError, match=r"big\.csv: .* would be more than 1,000,000"):
        load_csv(path, spacing=1e-9)
    monkeypatch.setattr(csv_file, "MAX_LINES", 7)
    with pytest.raises(ValueError, match="8 lines; a track file may have 7"):
        load_csv(path)
    monkeypatch.setattr(csv_file, "MAX_BYTES", 10)
    with pytest.raises(ValueError, match="bytes; a track file may have 10"):
        load_csv(path)
