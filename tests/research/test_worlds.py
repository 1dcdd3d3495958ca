"""Environments of a run: which tracks they have."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hotlap.config.presets import from_table, to_table
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.runs import EvaluationConfig, RunConfig
from hotlap.config.tasks import DonkeyConfig, TagConfig
from hotlap.research.commands import refuse_unknown_run
from hotlap.research.experiment import _judged_otherwise
from hotlap.research.worlds import judged_tracks, make_training_env, track_words, tracks_of

from .tiny import ROAD, tiny_run

torch.set_num_threads(1)


def driven(tracks: tuple[str, ...], steps: int) -> set[int]:
    """Numbers of the tracks that four environments have been on, in episodes of one step."""
    run = tiny_run(settings=replace(ROAD, tracks=tracks, max_steps=1))
    env = make_training_env(run)
    env.reset()
    seen: set[int] = set()
    for _ in range(steps):
        env.step(np.zeros((4, 2), dtype=np.float32))
        seen |= set(env.batch.world["road"].flatten().tolist())
    return seen


def test_a_run_keeps_its_words_and_has_every_track_they_stand_for() -> None:
    run = tiny_run(settings=DonkeyConfig(tracks=("hills:1-3", "warren", "hills:1")))
    assert track_words(run) == ("hills:1-3", "warren", "hills:1")
    assert tracks_of(run) == ("hills:1", "hills:2", "hills:3", "warren", "hills:1")
    assert judged_tracks(run, 2) == ("hills:1", "hills:3")


def test_more_tracks_than_environments_are_all_driven() -> None:
    assert driven(("circuit:0-6",), steps=30) == set(range(7))


def test_environments_keep_their_tracks_where_there_is_one_each() -> None:
    assert driven(("circuit:0-1",), steps=3) == {0, 1}


def test_nothing_trains_on_tracks_that_are_kept_apart() -> None:
    with pytest.raises(ValueError, match="are for judging only"):
        make_training_env(tiny_run(settings=replace(ROAD, tracks=("loop:90000",))))


def test_a_run_may_be_judged_on_other_tracks_each_of_them_once() -> None:
    run = tiny_run(settings=DonkeyConfig(tracks=("warren*3", "hills:1")))
    assert judged_tracks(run, 10) == ("warren", "hills:1")
    asked = EvaluationConfig(tracks=("circuit:1-4", "circuit:2*2"))
    assert judged_tracks(replace(run, evaluation=asked), 10) == tuple(
        f"circuit:{number}" for number in (1, 2, 3, 4)
    )
    assert judged_tracks(replace(run, evaluation=asked), 2) == ("circuit:1", "circuit:3")
    assert judged_tracks(tiny_run(settings=TagConfig(), evaluation=asked), 2) == ()


def test_judged_worlds_are_plain_where_asked() -> None:
    ranges = RandomisationConfig(friction=(0.5, 0.9))
    run = tiny_run(settings=replace(ROAD, randomise=ranges))
    assert "randomise" not in _judged_otherwise(run)
    plain = replace(run, evaluation=EvaluationConfig(randomised=False))
    assert _judged_otherwise(plain)["randomise"] == RandomisationConfig()


@pytest.mark.parametrize(
    ("track", "complaint"), [("wareen", "warren"), ("circuit:90000", "choose nothing")]
)
def test_tracks_to_judge_on_are_looked_up_before_anything_is_trained(
    track: str, complaint: str
) -> None:
    run = tiny_run(evaluation=EvaluationConfig(tracks=(track,)))
    with pytest.raises((KeyError, ValueError), match=complaint):
        refuse_unknown_run(run, trust=False)


def test_settings_written_before_later_ones_were_there_still_open() -> None:
    run = tiny_run(sensor="camera")
    table = to_table(run)
    for name in (
        "standardise", "teacher", "teacher_weight", "teacher_until", "teacher_fade", "average_over",
        "stack_every", "ramp",
    ):  # fmt: skip
        del table["agent"][name]
    del table["interface"]["stack_every"]
    del table["settings"]["end"], table["settings"]["randomise"]["share"]
    del table["evaluation"]["tracks"], table["evaluation"]["randomised"]
    assert from_table(RunConfig, table, "old") == run
