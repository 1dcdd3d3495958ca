"""Reports on many tracks: marks, verdicts and the gap, worked by hand."""

from dataclasses import replace

import pytest

from hotlap.evaluation.generalisation import (
    Report,
    Verdict,
    find_gap,
    overall_verdict,
    report_on,
    steps_for_a_lap,
    verdict_of,
)
from hotlap.evaluation.generalisation_table import crash_words, print_report, report_lines
from hotlap.records import EpisodeResult
from hotlap.sim.tracks import find_track

KNOWN, UNSEEN = "warren", "waveshare"
STEPS = {KNOWN: 100, UNSEEN: 10}


def episode(
    track: str, earned: float, laps: int = 0, crash_s: float | None = None, number: int = 0
) -> EpisodeResult:
    return EpisodeResult(
        identity=number,
        seed=0,
        episode_return=earned,
        length=10,
        end="time" if crash_s is None else "crashed",
        track=track,
        laps=laps,
        lap_times=(12.0,) * laps,
        crash_s=crash_s,
    )


def one_set(shift: float) -> list[EpisodeResult]:
    known = [episode(KNOWN, 100.0 + shift, laps=1) for _ in range(4)]
    unseen = [episode(UNSEEN, 40.0 + shift, crash_s=1.0 + 0.1 * i) for i in range(3)]
    return [*known, *unseen, episode(UNSEEN, 40.0 + shift, laps=1)]


@pytest.fixture
def report() -> Report:
    roads = {name: find_track(name) for name in (KNOWN, UNSEEN)}
    limits = {KNOWN: 10.0, UNSEEN: 3.0}
    return report_on([one_set(0.0), one_set(2.0)], roads, {KNOWN, "mini_monaco"}, limits, STEPS)


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [(1.0, "drives"), (0.9, "drives"), (0.89, "sometimes"), (0.1, "sometimes"), (0.09, "fails"),
     (0.0, "fails")],
)  # fmt: skip
def test_the_lap_rate_decides_the_verdict(rate: float, verdict: str) -> None:
    assert verdict_of(rate) == verdict


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [(["drives", "drives"], "drives"), (["fails"], "fails"), (["drives", "fails"], "sometimes")],
)
def test_tracks_that_do_not_agree_work_sometimes(verdicts: list[Verdict], together: str) -> None:
    assert overall_verdict(verdicts) == together


def test_tracks_are_marked_trained_or_not(report: Report) -> None:
    assert {name: row.trained for name, row in report.tracks.items()} == {
        KNOWN: True,
        UNSEEN: False,
    }
    nobody = report_on([one_set(0.0)], {KNOWN: find_track(KNOWN)}, None, {}, {})
    assert nobody.tracks[KNOWN].trained is None and nobody.gap is None


def test_the_gap_is_trained_less_zero_shot(report: Report) -> None:
    assert report.gap is not None
    assert report.gap.mean_return == pytest.approx(101.0 - 41.0)
    assert report.gap.return_per_step == pytest.approx(1.01 - 4.1)
    assert report.gap.lap_rate == pytest.approx(1.0 - 0.25)
    assert (report.gap.trained, report.gap.zero_shot) == (1, 1)
    assert report.gap.interval is not None
    low, high = report.gap.interval
    assert 58.0 <= low < 60.0 < high <= 62.0


def test_every_track_weighs_the_same_in_the_gap() -> None:
    rows = [episode("a", 10.0), *[episode("b", 20.0)] * 9, episode("c", 5.0)]
    steps = {"a": 10, "b": 10, "c": 10}
    gap = find_gap(rows, {"a", "b"}, steps)
    assert gap is not None and gap.mean_return == pytest.approx(15.0 - 5.0)
    assert find_gap(rows, {"a", "b", "c"}, steps) is find_gap(rows, {"d"}, steps) is None


@pytest.mark.parametrize("known", [1, 4])
def test_a_side_of_single_episodes_leaves_the_interval_of_the_gap_open(known: int) -> None:
    rows = [*[episode(KNOWN, 100.0)] * known, episode(UNSEEN, 40.0)]
    roads = {name: find_track(name) for name in (KNOWN, UNSEEN)}
    report = report_on([rows], roads, {KNOWN}, {}, STEPS)
    assert report.gap is not None and report.gap.interval is None
    assert report.to_table()["gap"]["interval"] is None
    (line,) = (line for line in report_lines(report) if line.startswith("gap"))
    assert line == (
        "gap       60.00 in return, -3.000 in return per step, +0 points of lap rate "
        "(1 trained - 1 zero-shot)"
    )


def test_sets_are_told_apart_and_together(report: Report) -> None:
    assert [row.mean_return for row in report.tracks[KNOWN].sets] == [100.0, 102.0]
    assert report.tracks[KNOWN].mean_return == 101.0
    assert [row.mean_return for row in report.sets] == [70.0, 72.0]
    assert report.count == 16 and report.lap_rate == pytest.approx(10 / 16)


def test_lap_times_are_held_against_the_limits_track_by_track(report: Report) -> None:
    assert report.tracks[KNOWN].mean_lap_ratio == pytest.approx(1.2)
    assert report.mean_lap_ratio == report.lap_time_ratio == pytest.approx((1.2 + 4.0) / 2)


def test_crashes_are_told_by_track(report: Report) -> None:
    assert list(report.crashes) == [UNSEEN]
    crashes = report.tracks[UNSEEN].crashes
    assert (crashes.count, crashes.pattern, crashes.spots[0].count) == (6, "same spot", 6)
    assert crash_words(crashes) == "6, same spot: 6 at 1.1 m"


def test_a_report_is_plain_json(report: Report) -> None:
    table = report.to_table()
    for name in ("lap_rate", "mean_return", "interval", "iqm_interval", "lap_time_ratio"):
        assert name in table and all(name in row for row in table["tracks"].values())
    assert len(table["sets"]) == 2 and table["verdict"] == "sometimes"
    assert table["gap"]["mean_return"] == pytest.approx(60.0)
    assert table["crashes"][UNSEEN]["spots"][0]["count"] == 6
    assert table["tracks"][KNOWN]["verdict"] == "drives"


def test_a_report_is_printed_track_by_set(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(report, "someone")
    printed = capsys.readouterr().out
    for words in ("set 1", "set 2", "trained", "zero-shot", "sometimes", "6, same spot"):
        assert words in printed
    assert any("60.00 in return" in line and "+75 points" in line for line in report_lines(report))


def test_a_track_of_which_no_episode_tells_has_no_verdict() -> None:
    row = replace(episode(KNOWN, 1.0), end="road end", laps_begun=0)
    roads = {name: find_track(name) for name in (KNOWN, UNSEEN)}
    report = report_on([[row, episode(UNSEEN, 1.0, laps=1)]], roads, {KNOWN}, {}, STEPS)
    assert report.tracks[KNOWN].verdict is None and report.verdict == "drives"
    assert report.gap is not None and report.gap.lap_rate is None
    assert overall_verdict([None]) is None
    assert any(line.startswith("verdict   drives: 1 drives") for line in report_lines(report))


def test_there_is_time_for_a_slow_lap_of_a_long_road() -> None:
    assert steps_for_a_lap(find_track("warren"), 0.05, least=1000) == 1000
    assert steps_for_a_lap(find_track("thunderhill"), 0.05, least=1000) == 5000  # 353.4 m: 4712
