"""What is written down comes back the same."""

import json
from dataclasses import replace

import pytest

from hotlap.records import EpisodeResult, EvalResult, Summary, rename_intervals

FOREIGN = EpisodeResult(identity=3, seed=7, episode_return=-1.5, length=12, end="ended")
DRIVEN = EpisodeResult(
    identity=0,
    seed=(1 << 40) + 5,
    episode_return=40.25,
    length=200,
    end="crashed",
    track="warren",
    seconds=10.0,
    laps=2,
    lap_times=(4.5, 4.25),
    mean_abs_cte=0.5,
    mean_speed=2.0,
    progress=20.0,
    crash_s=3.5,
)
SUMMARY = Summary(
    count=1, mean_return=40.25, std_return=0.0, iqm=40.25, interval=None, iqm_interval=None
)
RESULT = EvalResult(
    **{**vars(SUMMARY), "interval": (1.0, 2.0), "lap_rate": 0.5, "best_lap_time": 4.25},
    episodes=(DRIVEN, FOREIGN),
    tracks={"warren": SUMMARY},
)


@pytest.mark.parametrize("record", [FOREIGN, DRIVEN, SUMMARY, RESULT])
def test_a_record_comes_back_from_json(record: EpisodeResult | Summary) -> None:
    table = record.to_table()
    written = json.dumps(table, allow_nan=False)
    assert json.loads(written) == table
    assert type(record).from_table(json.loads(written)) == record


def test_a_record_of_earlier_days_comes_back_with_each_interval_under_its_name() -> None:
    earlier = SUMMARY.to_table() | {"interval": [1.0, 2.0], "mean_interval": [3.0, 4.0]}
    del earlier["iqm_interval"]
    today = replace(SUMMARY, interval=(3.0, 4.0), iqm_interval=(1.0, 2.0))
    assert Summary.from_table(earlier) == today
    found = EvalResult.from_table(earlier | {"episodes": [], "tracks": {"warren": earlier}})
    assert found.interval == (3.0, 4.0) and found.tracks == {"warren": today}


def test_intervals_are_renamed_all_the_way_down_and_those_of_other_records_left() -> None:
    earlier = {"interval": [1.0, 2.0], "mean_interval": [3.0, 4.0]}
    today = {"interval": [3.0, 4.0], "iqm_interval": [1.0, 2.0]}
    gap = {"mean_return": 2.0, "interval": [1.0, 2.0]}
    told = {**earlier, "gap": gap, "tracks": {"warren": {**earlier, "sets": [earlier]}}}
    now = {**today, "gap": gap, "tracks": {"warren": {**today, "sets": [today]}}}
    assert rename_intervals(told) == rename_intervals(now) == now


def test_what_a_task_does_not_tell_is_none() -> None:
    table = FOREIGN.to_table()
    assert [name for name, value in table.items() if value is not None] == [
        "identity", "seed", "episode_return", "length", "end",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="episode_return of EpisodeResult must be finite"):
        replace(DRIVEN, episode_return=value)
    with pytest.raises(ValueError, match="lap_times of EpisodeResult must be finite"):
        replace(DRIVEN, lap_times=(4.0, value))
