"""Environments of a run: which tracks they have."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hotlap.config.tasks import DonkeyConfig
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
