"""Sums by track are those of the steps driven on it, and old episodes fade."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hotlap.learning.track_books import COLUMNS, HALF_LIFE, Told, TrackBooks, tally
from hotlap.learning.track_metrics import SHOWN, few_or_quantiles

WORLD = {
    "road": torch.tensor([[0], [2], [2], [2], [0]]),
    "time": torch.full((5, 1), 10.0),
    "progress": torch.tensor([[4.0], [9.0], [30.0], [1.0], [2.0]]),
    "laps": torch.tensor([[0], [0], [1], [0], [0]]),
    "finished": torch.zeros(5, 1, dtype=torch.bool),
}
TOLD = Told(
    WORLD,
    done=torch.tensor([False, True, True, True, True]),
    truncated=torch.tensor([False, True, False, True, False]),
    episode_return=torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]),
    advantage=torch.tensor([-1.0, 2.0, -3.0, 4.0, 5.0]),
)


def test_an_end_with_all_done_is_no_crash() -> None:
    finished = torch.tensor([[False], [False], [True], [False], [False]])
    sums = tally(replace(TOLD, worlds=WORLD | {"finished": finished}), tracks=3, pace=0.5)
    crashes = COLUMNS.index("crashes")
    assert tally(TOLD, 3, 0.5)[:, crashes].tolist() == [1.0, 0.0, 1.0]
    assert sums[:, crashes].tolist() == [1.0, 0.0, 0.0]


def test_sums_worked_by_hand() -> None:
    sums = tally(TOLD, tracks=3, pace=0.5)
    table = dict(zip(COLUMNS, sums.T.tolist(), strict=True))
    assert table == {
        "steps": [2, 0, 3],
        "episodes": [1, 0, 3],
        "returns": [5, 0, 9],
        "crashes": [1, 0, 1],
        "laps": [0, 0, 1],
        # 9 m in 10 s without a crash, and a lap before one; 1 m in 10 s is standing around
        "successes": [0, 0, 2],
        "absolute": [6, 0, 9],
        "positive": [5, 0, 6],
    }


def test_a_learner_without_advantages_has_none() -> None:
    without = Told(TOLD.worlds, TOLD.done, TOLD.truncated, TOLD.episode_return)
    assert tally(without, 3, 0.5)[:, -2:].abs().sum() == 0.0


def test_an_episode_counts_half_after_a_half_life() -> None:
    books = TrackBooks(2)
    bad = {name: np.array([HALF_LIFE, 0.0]) for name in COLUMNS}
    good = bad | {"crashes": np.zeros(2)}
    books.note(bad)
    assert books.known.tolist() == [True, False]
    assert books.mean("crashes").tolist() == [1.0, 0.0]
    books.note(good)
    assert books.mean("crashes")[0] == pytest.approx(1 / 3)


def test_few_tracks_are_told_by_name_and_many_by_quantiles() -> None:
    few = few_or_quantiles("tracks", {"a/b.csv": {"return": 2.0}}, ["a/b.csv", "c"])
    assert few == {"tracks/a_b.csv/return": 2.0}
    names = [f"circuit:{n}" for n in range(SHOWN * 20)]
    rows = {name: {"return": float(n)} for n, name in enumerate(names)}
    many = few_or_quantiles("tracks", rows, names)
    assert len(many) < 12
    assert many["tracks/median/return"] == pytest.approx(159.5)
    assert [many[f"tracks/worst_{k}/track"] for k in (1, 2, 3)] == [0.0, 1.0, 2.0]
    assert few_or_quantiles("tracks", {}, names) == {}
