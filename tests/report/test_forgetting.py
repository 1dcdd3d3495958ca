"""What a run forgot on each track, from the table of its evaluations alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.report.forgetting import NAMED, forgotten, histories, table_lines, tracks_report
from hotlap.store.ledger import Ledger
from hotlap.store.run_folder import RunFolder

CURVES = {"warehouse": [10.0, 50.0, 30.0], "mini_monaco": [5.0, 6.0, 7.0]}
LAPS = {"warehouse": [0.0, 1.0, 0.25], "mini_monaco": [0.0, 0.0, 0.5]}


def rows(curves: dict[str, list[float]]) -> list[dict[str, Any]]:
    count = len(next(iter(curves.values())))
    return [
        {
            "segment": place,
            "steps": 1000 * (place + 1),
            "tracks": {
                track: {"episodes": 2, "return": curve[place]}
                | ({"lap_rate": LAPS[track][place]} if track in LAPS else {})
                for track, curve in curves.items()
            },
        }
        for place in range(count)
    ]


def make_run(path: Path, table: list[dict[str, Any]]) -> Path:
    with RunFolder.create(path, {}) as folder:
        for row in table:
            folder.append("evaluations", row)
    return path


def test_forgetting_is_the_best_less_the_last() -> None:
    found = forgotten(rows(CURVES))
    assert found["warehouse"] == {
        "return": 30.0, "best_return": 50.0, "forgotten_return": 20.0,
        "lap_rate": 0.25, "best_lap_rate": 1.0, "forgotten_lap_rate": 0.75,
    }  # fmt: skip
    assert found["mini_monaco"]["forgotten_return"] == 0.0
    assert histories(rows(CURVES), "return")["mini_monaco"] == [(1000, 5), (2000, 6), (3000, 7)]
    assert "20.0" in table_lines(found)[1] and "75%" in table_lines(found)[1]


def test_the_verb_draws_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "run", rows(CURVES))
    assert main(["report", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["tracks"]["warehouse"]["forgotten_return"] == 20.0
    assert Path(told["picture"]).read_bytes().startswith(b"\x89PNG")
    assert main(["report", str(folder), "--picture", "tracks.jpg"]) == 2


def test_many_tracks_fit_in_a_picture(tmp_path: Path) -> None:
    curves = {f"circuit:{n}": [float(n), 1.0] for n in range(5 * NAMED)}
    picture = tmp_path / "many.png"
    told = tracks_report(make_run(tmp_path / "run", rows(curves)), picture)
    assert picture.exists() and len(told["tracks"]) == 5 * NAMED


def test_a_run_without_tracks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run", [{"segment": 0, "steps": 10, "tracks": {}}])
    assert main(["report", str(folder)]) == 2
    assert "no evaluations by track" in capsys.readouterr().err


def test_a_study_has_its_page_written_anew(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.jsonl", {}).close()
    assert main(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.md").exists()
