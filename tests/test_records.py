"""What is written down comes back the same."""

import json
from dataclasses import replace

import pytest

from hotlap.records import EpisodeResult, EvalResult, Summary

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
    count=1, mean_return=40.25, std_return=0.0, iqm=40.25, interval=None, mean_interval=None
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
