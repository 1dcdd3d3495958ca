"""Keeping the best: sequences of scores and what they mean, worked by hand."""

import json

import pytest

from hotlap.config.runs import RollbackConfig
from hotlap.research.keeper import BEFORE, Keeper

USUAL = RollbackConfig(lost=0.5, patience=3)


def play(scores: list[float], config: RollbackConfig = USUAL) -> tuple[Keeper, str]:
    """The books after these scores, and the first letter of each verdict."""
    keeper, verdicts = Keeper(), ""
    for segment, score in enumerate(scores):
        keeper, verdict = keeper.note(score, segment, config)
        verdicts += verdict[0]
    return keeper, verdicts


@pytest.mark.parametrize(
    ("scores", "verdicts"),
    [
        ([1.0], "b"),  # the first is the best so far, whatever it is
        ([-9.0, -8.0, -8.0], "bbh"),  # as good is not better
        ([0, 10, 4, 4, 4], "bbhhc"),  # below 10 - 0.5 * 10 = 5, three times in a row
        ([0, 10, 5, 5, 5, 5], "bbhhhh"),  # not below it
        ([0, 10, 4, 4, 6, 4, 4], "bbhhhhh"),  # 6 breaks the row
        ([0, 10, 4, 4, 6, 4, 4, 4], "bbhhhhhc"),
        ([0, 10, 4, 4, 12, 4, 4, 4], "bbhhbhhc"),  # a new best breaks it too; below 6 now
        ([0, 10, 4, 4, 4, 4, 4, 4, 4, 4], "bbhhchhhhh"),  # only once
        ([0, 10, 4, 4, 4, 20, 0, 0, 0], "bbhhcbhhh"),  # even after a new best
        ([10, 4, 0, -50, -50, -50], "bhhhhh"),  # nothing was gained, nothing can be lost
        ([10, 10, 0, 0, 0], "bhhhh"),
        ([-100, -10, -60, -60, -60], "bbhhc"),  # below -10 - 0.5 * 90 = -55
        ([-100, -10, -50, -50, -50], "bbhhh"),
    ],
)
def test_verdicts(scores: list[float], verdicts: str) -> None:
    assert play(scores)[1] == verdicts


def test_the_books() -> None:
    keeper, _ = play([0, 10, 4, 12, 4, 4])
    assert keeper == Keeper(first=0, best=12, best_segment=3, bad=2, rolled_back=-1)
    keeper, _ = play([0, 10, 4, 12, 4, 4, 4])
    assert keeper == Keeper(first=0, best=12, best_segment=3, bad=0, rolled_back=6)


def test_a_good_start_can_be_lost_without_a_gain() -> None:
    """A run that begins with a model: what it had before the first segment counts as gained."""
    for before, scores, verdicts in (
        (10.0, [6, 4, 4, 4], "hhhc"),  # below 10 - 0.5 * 10 = 5
        (-10.0, [-14, -16, -16, -16], "hhhc"),  # below -10 - 5
        (10.0, [12, 11, 10, 10, 10], "bhhhh"),  # 2 gained since, which may be luck
        (10.0, [12, 11, 5, 5, 5], "bhhhc"),  # below 12 - 0.5 * 12 = 6
    ):
        keeper, verdict = Keeper().note(before, BEFORE, USUAL)
        assert verdict == "best" and keeper.best_segment == BEFORE
        found = ""
        for segment, score in enumerate(scores):
            keeper, verdict = keeper.note(score, segment, USUAL)
            found += verdict[0]
        assert found == verdicts


def test_patience_and_share_are_settings() -> None:
    assert play([0, 10, 8], RollbackConfig(lost=0.1, patience=1))[1] == "bbc"  # below 9
    assert play([0, 10, 0, -1], RollbackConfig(lost=1.0, patience=1))[1] == "bbhc"  # below 0
    assert play([0, 10, 4, 4, 4, 4], RollbackConfig(patience=4))[1] == "bbhhhc"


def test_the_books_go_through_json() -> None:
    for scores in ([], [0, 10, 4]):
        keeper, _ = play(scores)  # type: ignore[arg-type]
        assert Keeper(**json.loads(json.dumps(keeper.to_table()))) == keeper
