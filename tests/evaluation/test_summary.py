"""What episodes say together, worked by hand, and how it is printed."""

from dataclasses import replace

import pytest

from hotlap.evaluation.eval_table import print_result, summary_lines
from hotlap.evaluation.summary import summarise
from hotlap.records import End, EpisodeResult


def episode(identity: int, earned: float, track: str | None, *laps: float) -> EpisodeResult:
    return EpisodeResult(
        identity=identity,
        seed=0,
        episode_return=earned,
        length=10,
        end="crashed",
        track=track,
        laps=len(laps),
        lap_times=laps,
        crash_s=1.25,
    )


EPISODES = [
    episode(0, 1.0, "short", 4.0, 3.0),
    episode(1, 9.0, "long", 10.0),
    episode(2, 5.0, "short"),
    episode(3, 3.0, "long"),
]
LIMITS = {"short": 2.0, "long": 8.0}


def test_all_episodes_together() -> None:
    result = summarise(EPISODES, LIMITS)
    assert result.count == 4
    assert result.mean_return == 4.5
    assert result.std_return == pytest.approx(8.75**0.5)  # 12.25 + 20.25 + 0.25 + 2.25, over 4
    assert result.iqm == 4.0  # of 3 and 5
    assert result.interval is not None
    assert result.interval[0] < 4.5 < result.interval[1]
    assert result.lap_rate == 0.5
    assert result.mean_lap_time == pytest.approx(17 / 3)
    assert (result.best_lap_time, result.lap_time_ratio) == (3.0, 1.5)


def test_the_interval_is_that_of_the_mean_and_the_middle_half_has_its_own() -> None:
    rows = [replace(EPISODES[0], episode_return=value) for value in [10.0] * 19 + [-90.0]]
    result = summarise(rows)
    assert (result.mean_return, result.iqm) == (5.0, 10.0)
    assert result.interval is not None and result.interval[0] < 5.0 < result.interval[1] == 10.0
    assert result.iqm_interval == (10.0, 10.0)  # the one bad episode is never a quarter of a draw


def test_each_track_by_itself() -> None:
    tracks = summarise(EPISODES, LIMITS).tracks
    assert tracks["short"].mean_return == 3.0
    assert tracks["short"].interval == tracks["short"].iqm_interval == (1.0, 5.0)
    assert tracks["long"].lap_rate == 0.5
    assert (tracks["long"].best_lap_time, tracks["long"].lap_time_ratio) == (10.0, 1.25)


def test_a_lap_without_a_known_limit_has_no_ratio() -> None:
    result = summarise(EPISODES, {"long": 8.0})
    assert result.lap_time_ratio is None
    assert result.tracks["long"].lap_time_ratio == 1.25


def test_an_open_road_driven_to_its_end_counts_as_a_lap() -> None:
    rows = [replace(row, end="road end", crash_s=None) for row in EPISODES[2:]]
    assert summarise([*rows, EPISODES[3]]).lap_rate == pytest.approx(2 / 3)
    assert summarise(rows).mean_lap_time is None


def test_ratios_are_of_all_laps_and_of_flying_ones_and_every_track_weighs_the_same() -> None:
    rows = [
        replace(EPISODES[0], flying_lap_times=(3.0,)),
        replace(EPISODES[1], flying_lap_times=()),
        EPISODES[2],
        replace(EPISODES[3], lap_times=(9.0,) * 9),
    ]
    result = summarise(rows, LIMITS)
    long = (10.0 + 9 * 9.0) / 10 / 8.0
    assert result.tracks["short"].mean_lap_ratio == pytest.approx(3.5 / 2.0)
    assert result.tracks["long"].mean_lap_ratio == pytest.approx(long)
    assert result.mean_lap_ratio == pytest.approx((3.5 / 2.0 + long) / 2)
    assert result.flying_lap_ratio == result.tracks["short"].flying_lap_ratio == 1.5
    assert result.tracks["long"].flying_lap_ratio is None
    assert summarise(rows, {}).mean_lap_ratio is None


def test_laps_finished_are_laps_over_laps_begun() -> None:
    rows = [
        replace(row, laps_begun=begun) for row, begun in zip(EPISODES, (3, 1, 0, 1), strict=True)
    ]
    result = summarise(rows)
    assert result.laps_finished == pytest.approx(3 / 5)
    assert result.tracks["short"].laps_finished == pytest.approx(2 / 3)
    assert summarise(rows[2:3]).laps_finished is None
    assert summarise(EPISODES).laps_finished is None


ENDS: list[tuple[End, int, int]] = [
    ("road end", 1, 1), ("road end", 0, 0), ("road end", 0, 1), ("crashed", 0, 1),
]  # fmt: skip


def test_the_last_bit_of_an_open_road_says_nothing_of_laps() -> None:
    rows = [
        replace(row, end=end, laps=laps, laps_begun=begun, lap_times=())
        for row, (end, laps, begun) in zip(EPISODES, ENDS, strict=True)
    ]
    assert summarise(rows).lap_rate == pytest.approx(1 / 3)
    assert summarise(rows[1:2]).lap_rate is None


def test_steps_over_the_edge_are_a_share_of_all_steps() -> None:
    rows = [
        replace(EPISODES[0], over_edge=0.5, length=10),
        replace(EPISODES[1], over_edge=0.0, length=90),
        EPISODES[2],
    ]
    assert summarise(rows).over_edge == pytest.approx(0.05)
    assert summarise(EPISODES).over_edge is None


def test_nothing_cannot_be_summarised() -> None:
    with pytest.raises(ValueError, match="no episodes"):
        summarise([])


def test_a_few_episodes_are_printed_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(summarise(EPISODES, LIMITS), "donkey, seed 3")
    title, header, *rows = capsys.readouterr().out.splitlines()
    assert title == "donkey, seed 3"
    assert header.split() == ["#", "track", "return", "steps", "laps", "best", "lap", "s", "end"]
    assert rows[0].split() == ["0", "short", "1.00", "10", "2", "3.00", "crashed", "at", "1.2", "m"]
    assert rows[2].split()[4:6] == ["0", "-"]
    assert rows[5].startswith("return    4.50 ± 2.96 over 4 episodes, mean within ")
    assert rows[6].startswith("IQM       4.00 within ")
    assert rows[7] == "lap rate  50% of the episodes with a clean lap"
    assert rows[8] == "best lap  3.00 s, 1.50 x the least possible (mean 5.67 s)"


def test_many_episodes_are_printed_by_track(capsys: pytest.CaptureFixture[str]) -> None:
    many = [episode(i, float(i), f"a_track_with_a_long_name:{i % 3}", 4.0) for i in range(24)]
    print_result(summarise(many))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.startswith("track ")
    assert [row.split()[:2] for row in rows[:3]] == [
        [f"a_track_with_a_long_name:{i}", "8"] for i in range(3)
    ]
    assert "100%" in rows[0]
    assert rows[3] == ""


def test_a_single_return_has_no_interval_and_no_laps_to_tell_of() -> None:
    alone = EpisodeResult(identity=0, seed=0, episode_return=2.0, length=3, end="ended")
    assert summary_lines(summarise([alone])) == [
        "return    2.00 ± 0.00 over 1 episode",
        "IQM       2.00",
    ]
