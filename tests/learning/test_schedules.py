"""Every schedule sends cars where it says."""

import json
from typing import Any

import numpy as np
import pytest

from hotlap.config.schedules import CurriculumConfig, PLRConfig, ScheduleConfig
from hotlap.learning.schedules import (
    Curriculum,
    LevelReplay,
    Schedule,
    Switch,
    make_schedule,
    ranks,
)
from hotlap.learning.track_books import COLUMNS, TrackBooks
from hotlap.tasks.registry import make_task
from hotlap.tasks.track_choice import TrackTask

EAGER = CurriculumConfig(first=0.25, widen=0.25, success=0.5, episodes=2)


def measured(tracks: int, **columns: list[float]) -> dict[str, np.ndarray]:
    return {name: np.array(columns.get(name, [0.0] * tracks), float) for name in COLUMNS}


def tell(schedule: Schedule, books: TrackBooks, **columns: list[float]) -> None:
    latest = measured(len(books.known), **columns)
    books.note(latest)
    schedule.note(latest, books)


# --- switch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tracks", [2, 3, 4, 7])
def test_switch_divides_the_training_evenly_and_in_order(tracks: int) -> None:
    steps = 100 * tracks
    driven = [int(Switch(tracks).shares(step / steps).argmax()) for step in range(steps)]
    assert driven == [track for track in range(tracks) for _ in range(100)]
    assert Switch(tracks).shares(1.0).tolist() == [0.0] * (tracks - 1) + [1.0]


# --- curriculum ----------------------------------------------------------------------------------


def test_a_curriculum_begins_with_the_easiest() -> None:
    schedule = Curriculum(EAGER, [0.9, 0.1, 0.5, 0.3])
    assert schedule.shares(0.0).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_failure_opens_nothing_however_long_it_lasts() -> None:
    schedule, books = Curriculum(EAGER, [0.0, 1.0, 2.0, 3.0]), TrackBooks(4)
    for _ in range(100):
        tell(schedule, books, episodes=[9, 0, 0, 0], successes=[4, 0, 0, 0])
    assert schedule.open == 1 and schedule.shares(0.99).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_success_opens_the_next_and_keeps_the_others() -> None:
    schedule, books = Curriculum(EAGER, [3.0, 2.0, 1.0, 0.0]), TrackBooks(4)
    tell(schedule, books, episodes=[0, 0, 0, 1], successes=[0, 0, 0, 1])
    assert schedule.open == 1  # one episode says too little
    tell(schedule, books, episodes=[0, 0, 0, 1], successes=[0, 0, 0, 1])
    assert schedule.shares(0.0).tolist() == [0.0, 0.0, 0.5, 0.5]
    tell(schedule, books, episodes=[0, 0, 0, 9], successes=[0, 0, 0, 9])
    assert schedule.open == 2  # nobody has driven the new one yet
    tell(schedule, books, episodes=[0, 0, 9, 0], successes=[0, 0, 9, 0])
    assert schedule.shares(0.0).tolist() == pytest.approx([0.0, 1 / 3, 1 / 3, 1 / 3])
    for _ in range(5):
        tell(schedule, books, episodes=[9] * 4, successes=[9] * 4)
    assert schedule.shares(0.0).tolist() == [0.25] * 4


def looks(task: str, *tracks: str) -> list[float]:
    """How hard tracks look to a task."""
    made = make_task(task, tracks=tracks)
    assert isinstance(made, TrackTask)
    return made.difficulties


def test_the_straight_and_wide_look_easier_than_the_narrow_and_winding() -> None:
    easy, hard = looks("donkey-state", "warehouse", "mini_monaco")
    assert easy < hard
    easy, hard = looks("carracing", "carracing:oval", "carracing:zigzag")
    assert easy < hard


# --- plr -----------------------------------------------------------------------------------------


def seen_all(scores: list[float], **settings: Any) -> tuple[LevelReplay, TrackBooks]:
    schedule = LevelReplay(PLRConfig(**settings), len(scores), advantages=True)
    books = TrackBooks(len(scores))
    tell(schedule, books, steps=[1] * len(scores), absolute=scores, positive=scores[::-1])
    return schedule, books


def test_tracks_that_nobody_has_driven_come_first() -> None:
    schedule, books = LevelReplay(PLRConfig(), 4, advantages=True), TrackBooks(4)
    assert schedule.shares(0.0).tolist() == [0.25] * 4
    tell(schedule, books, steps=[5, 0, 5, 0], absolute=[50, 0, 5, 0])
    assert schedule.shares(0.0).tolist() == [0.0, 0.5, 0.0, 0.5]


def test_more_learning_potential_is_driven_more_and_nothing_is_left_out() -> None:
    shares = seen_all([1.0, 4.0, 2.0])[0].shares(0.0)
    assert shares[1] > shares[2] > shares[0] > 0.0
    assert shares.sum() == pytest.approx(1.0)


def test_scores_are_means_over_steps_and_of_the_chosen_kind() -> None:
    schedule, books = LevelReplay(PLRConfig(memory=0.0), 2, advantages=True), TrackBooks(2)
    tell(schedule, books, steps=[10, 100], absolute=[20, 50])
    assert schedule.scores.tolist() == [2.0, 0.5]
    assert seen_all([1.0, 4.0], score="positive")[0].scores.tolist() == [4.0, 1.0]


def test_rank_and_temperature_decide_worked_by_hand() -> None:
    shares = seen_all([1.0, 4.0], temperature=1.0, staleness=0.2)[0].shares(0.0)
    # ranks 2 and 1: 1/3 and 2/3; both were driven just now, so staleness is even
    assert shares.tolist() == pytest.approx([0.8 / 3 + 0.1, 1.6 / 3 + 0.1])


def test_a_track_left_alone_is_driven_more_and_more() -> None:
    schedule, books = seen_all([1.0, 4.0, 2.0])
    before = schedule.shares(0.0)[0]
    for _ in range(3):
        tell(schedule, books, steps=[0, 1, 1], absolute=[0, 4, 2])
    assert schedule.shares(0.0)[0] > before + 0.15  # it has all of the share of staleness now


def test_without_advantages_crashes_decide() -> None:
    schedule, books = LevelReplay(PLRConfig(), 3, advantages=False), TrackBooks(3)
    tell(schedule, books, steps=[9] * 3, episodes=[4, 4, 4], crashes=[1, 4, 0])
    shares = schedule.shares(0.0)
    assert shares[1] > shares[0] > shares[2] > 0.0


def test_equal_scores_have_equal_ranks() -> None:
    assert ranks(np.array([3.0, 5.0, 3.0, 1.0])).tolist() == [2.5, 1.0, 2.5, 4.0]


# --- all -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["switch", "curriculum", "plr"])
def test_what_a_schedule_remembers_survives_json(kind: Any) -> None:
    config = ScheduleConfig(kind, curriculum=EAGER)
    one, other = (make_schedule(config, [1.0, 3.0, 2.0], advantages=True) for _ in range(2))
    assert one is not None and other is not None
    books, draw = TrackBooks(3), np.random.default_rng(0)
    for _ in range(5):
        episodes = draw.integers(0, 4, 3)
        tell(one, books, steps=draw.integers(0, 9, 3).tolist(), episodes=episodes.tolist(),
             successes=episodes.tolist(), absolute=draw.random(3).tolist())  # fmt: skip
    other.load(json.loads(json.dumps(one.state())))
    assert other.shares(0.4).tolist() == one.shares(0.4).tolist()
    assert other.state() == one.state()


def test_parallel_needs_no_schedule() -> None:
    assert make_schedule(ScheduleConfig(), [1.0, 1.0], advantages=True) is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ScheduleConfig("swich"),  # type: ignore[arg-type]
        lambda: CurriculumConfig(first=0.0),
        lambda: CurriculumConfig(success=1.1),
        lambda: PLRConfig(staleness=0.0),
        lambda: PLRConfig(temperature=0.0),
        lambda: PLRConfig(memory=1.0),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError):
        wrong()
