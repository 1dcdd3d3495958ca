"""Tracks are drawn as the table says, which can be written over while a batch runs."""

import pytest
import torch

from hotlap.config.tasks import DonkeyConfig
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.track_choice import TrackChoice

TRACKS = ("generated_track", "warehouse", "mini_monaco")
KEYS = torch.arange(20_000)


def batch_of_tracks(num_envs: int = 8, max_steps: int = 3) -> tuple[BatchEnv, TrackChoice]:
    task = DonkeyTask(DonkeyConfig(tracks=TRACKS, sensor="telemetry", max_steps=max_steps))
    choice = task.draw_tracks()
    batch = BatchEnv(task, num_envs)
    return batch, choice


def roads(batch: BatchEnv) -> list[int]:
    return batch.world["road"].flatten().tolist()


def test_tracks_come_in_the_shares_they_were_given() -> None:
    choice = TrackChoice(4)
    choice.set([1.0, 0.0, 3.0, 0.0])
    drawn = torch.bincount(choice.draw(KEYS), minlength=4) / len(KEYS)
    assert drawn.tolist() == pytest.approx([0.25, 0.0, 0.75, 0.0], abs=0.01)
    assert drawn[1] == drawn[3] == 0.0


def test_a_table_is_even_until_it_is_set() -> None:
    drawn = torch.bincount(TrackChoice(5).draw(KEYS), minlength=5) / len(KEYS)
    assert drawn.tolist() == pytest.approx([0.2] * 5, abs=0.015)


def test_an_episode_draws_the_same_track_alone_and_in_company() -> None:
    choice = TrackChoice(7)
    together = choice.draw(KEYS[:50])
    assert together.tolist() == [int(choice.draw(KEYS[i : i + 1])) for i in range(50)]


def test_setting_a_table_keeps_its_place_in_memory() -> None:
    choice = TrackChoice(3)
    where = choice._bounds.data_ptr()
    choice.set([0.0, 1.0, 0.0])
    assert choice._bounds.data_ptr() == where
    assert choice.draw(KEYS[:100]).unique().tolist() == [1]


@pytest.mark.parametrize("shares", [[1.0], [0.0, 0.0], [1.0, -0.1], [1.0, float("nan")]])
def test_shares_that_are_none_are_refused(shares: list[float]) -> None:
    with pytest.raises(ValueError, match="expected 2 shares"):
        TrackChoice(2).set(shares)


def test_without_a_table_environment_i_has_track_i() -> None:
    task = DonkeyTask(DonkeyConfig(tracks=TRACKS, sensor="telemetry"))
    batch = BatchEnv(task, 7)
    batch.reset()
    assert roads(batch) == [0, 1, 2, 0, 1, 2, 0]


def test_a_running_batch_follows_the_table_from_the_next_episode_on() -> None:
    batch, choice = batch_of_tracks(max_steps=3)
    choice.set([1.0, 0.0, 0.0])
    batch.reset()
    still = torch.zeros(8, 2)
    driven = [roads(batch)]
    for count in range(6):
        if count == 1:
            choice.set([0.0, 0.0, 1.0])
            batch.forget_beginnings()
        batch.step(still)
        driven.append(roads(batch))
    assert driven == [[0] * 8] * 3 + [[2] * 8] * 4


def test_what_was_begun_ahead_of_time_is_forgotten() -> None:
    batch, choice = batch_of_tracks(num_envs=2, max_steps=3)
    choice.set([1.0, 0.0, 0.0])
    batch.reset()
    batch.step(torch.zeros(2, 2))
    batch.reset(mask=torch.tensor([True, False]))  # the two end at different steps from here on
    for _ in range(2):
        batch.step(torch.zeros(2, 2))  # the second begins anew, and the first's next is prepared
    choice.set([0.0, 1.0, 0.0])
    batch.forget_beginnings()
    batch.step(torch.zeros(2, 2))
    assert roads(batch) == [1, 0]


def test_a_compiled_step_reads_the_table_anew() -> None:
    choice = TrackChoice(3)
    draw = torch.compile(choice.draw, backend="eager", fullgraph=True, dynamic=False)
    choice.set([0.0, 1.0, 0.0])
    assert draw(KEYS[:9]).tolist() == [1] * 9
    choice.set([0.0, 0.0, 1.0])
    assert draw(KEYS[:9]).tolist() == [2] * 9


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_captured_step_reads_the_table_anew(compiled: bool) -> None:
    config = DonkeyConfig(tracks=TRACKS, sensor="telemetry", max_steps=3)
    task = DonkeyTask(config, "cuda", compiled)
    choice = task.draw_tracks()
    choice.set([1.0, 0.0, 0.0])
    batch = BatchEnv(task, 64, captured=True)
    batch.reset()
    driven = []
    for shares in ([1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]):
        choice.set(shares)
        for _ in range(3):
            batch.step(torch.zeros(64, 2, device="cuda"))
        driven.append(set(roads(batch)))
    assert driven == [{0}, {1, 2}, {2}]
