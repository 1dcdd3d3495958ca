from pathlib import Path

import pytest

from hotlap.config.commands import BenchSimConfig, WatchConfig


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"seed": -1}, "seed must be 0 or more"),
        ({"laps": 0}, "laps must be 1 or more"),
        ({"seconds": 0.0}, "seconds must be positive"),
        ({"video": Path("lap.gif")}, "video must end in .mp4"),
    ],
)
def test_what_cannot_be_watched_is_refused(setting: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        WatchConfig("scripted:pure_pursuit", **setting)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"device": "gpu"}, "device must be auto, cpu, cuda or cuda:N"),
        ({"batch": ()}, "batch must hold"),
        ({"batch": (4, -1)}, "batch must hold"),
        ({"seconds": float("nan")}, "seconds must be positive"),
    ],
)
def test_what_cannot_be_measured_is_refused(setting: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        BenchSimConfig(**setting)
