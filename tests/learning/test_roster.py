"""Cars in a training drive where the schedule wants them, whoever learns."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import DQNConfig, PPOConfig
from hotlap.config.schedules import CurriculumConfig, ScheduleConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.learning.factory import make_learner
from hotlap.learning.roster import READ_EVERY, make_roster
from hotlap.learning.schedules import Curriculum, LevelReplay
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.interface import Interface

torch.set_num_threads(1)
TRACKS = ("generated_track", "warehouse", "mini_monaco", "waveshare")
ROAD = DonkeyConfig(tracks=TRACKS, sensor="telemetry", start="random", max_steps=6)
PPO = PPOConfig(envs=4, net=(8,), stack=1, steps=8, batch_size=16, epochs=1)
DQN = DQNConfig(envs=4, net=(8,), stack=1, replay_size=2000, batch_size=8, warm_up=16)
LEARNERS = pytest.mark.parametrize("agent", [PPO, DQN], ids=["ppo", "dqn"])


class Training:
    """A learner and, after every step, the roads that its cars were on."""

    def __init__(
        self, agent: Any, schedule: ScheduleConfig, total: int, road: DonkeyConfig = ROAD
    ) -> None:
        discrete = isinstance(agent, DQNConfig)
        self.batch = BatchEnv(DonkeyTask(road), agent.envs, borrow=True, captured=True)
        interface = InterfaceConfig(actions="discrete" if discrete else "continuous", stack=1)
        env = SB3VecEnv(Interface(self.batch, interface))
        self.learner: Any = make_learner(agent, env, "cpu", 0, total)
        self.learner.roster = make_roster(schedule, env, total, advantages=not discrete)
        self.roads: list[list[int]] = []
        step = self.batch.step

        def watched(action: torch.Tensor) -> Any:
            told = step(action)
            self.roads.append(self.batch.ended_world["road"].flatten().tolist())
            return told

        self.batch.step = watched  # type: ignore[method-assign]

    def drive(self, *segments: int) -> list[list[int]]:
        for number, steps in enumerate(segments):
            self.learner.learn_segment(0, number, steps)
        return self.roads

    def count(self, track: int, first: int = 0) -> int:
        return sum(road == track for roads in self.roads[first:] for road in roads)


@LEARNERS
def test_parallel_has_every_track_in_every_step(agent: Any) -> None:
    training = Training(agent, ScheduleConfig(), total=128)
    assert training.drive(64, 64) == [[0, 1, 2, 3]] * 32


@LEARNERS
def test_books_change_nothing(agent: Any) -> None:
    with_books, without = (Training(agent, ScheduleConfig(), total=64) for _ in range(2))
    without.learner.roster = None
    for training in (with_books, without):
        training.drive(64)
    mine, other = (t.learner.policy.state_dict() for t in (with_books, without))
    assert all(torch.equal(mine[name], other[name]) for name in mine)


@LEARNERS
@pytest.mark.parametrize("segments", [(256,), (96, 96, 64)], ids=["one segment", "three"])
def test_switch_drives_each_track_for_an_equal_part(agent: Any, segments: tuple[int, ...]) -> None:
    training = Training(agent, ScheduleConfig("switch"), total=256)
    roads = training.drive(*segments)
    assert roads == [[track] * 4 for track in range(4) for _ in range(16)]


def test_a_replay_knows_where_switch_cuts_episodes_off() -> None:
    training = Training(replace(DQN, envs=2), ScheduleConfig("switch"), total=64)
    training.drive(64)
    # 32 rows; episodes of 6 are cut off after 8 rows, after 16, ...
    replay = training.learner.replay_buffer
    assert replay.ages[:32, 0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1] * 4
    assert replay.truncated[7:31:8].all()


@LEARNERS
def test_a_curriculum_widens_while_a_training_runs(agent: Any) -> None:
    easy = CurriculumConfig(success=0.01, pace=0.0, episodes=1)
    start = Training(agent, ScheduleConfig("curriculum", easy), total=4096)
    schedule = start.learner.roster.schedule
    assert isinstance(schedule, Curriculum)
    first = int(schedule.order[0])
    start.drive(2048)
    assert start.roads[0] == [first] * 4
    assert all(start.count(track) > 0 for track in range(4))
    assert start.count(first, first=len(start.roads) // 2) > 0


@LEARNERS
def test_a_curriculum_stays_where_nobody_succeeds(agent: Any) -> None:
    hopeless = CurriculumConfig(success=1.0, pace=1000.0, episodes=1)
    training = Training(agent, ScheduleConfig("curriculum", hopeless), total=4096)
    training.drive(1024)
    first = int(training.learner.roster.schedule.order[0])
    assert training.count(first) == 1024


@LEARNERS
def test_level_replay_visits_all_and_has_its_favourites(agent: Any) -> None:
    training = Training(agent, ScheduleConfig("plr"), total=4096)
    training.drive(1024)
    schedule = training.learner.roster.schedule
    assert isinstance(schedule, LevelReplay) and (schedule.driven >= 0).all()
    assert all(training.count(track) > 0 for track in range(4))
    schedule.scores[:] = [0.0, 9.0, 0.0, 0.0]
    begun = len(training.roads)
    training.learner.roster.begin_segment(1024)
    training.batch.reset(seed=5)
    for _ in range(24):
        training.batch.step(torch.zeros(4, 2))
    driven = [training.count(track, first=begun) for track in range(4)]
    assert driven[1] == max(driven)


@LEARNERS
def test_metrics_are_told_by_track(agent: Any) -> None:
    training = Training(agent, ScheduleConfig("plr"), total=4096)
    training.drive(4 * READ_EVERY)
    told = training.learner.roster.metrics()
    driven = {name.split("/")[1] for name in told}
    assert driven <= set(TRACKS) and driven
    for track in driven:
        assert 0.0 <= told[f"tracks/{track}/crashed"] <= 1.0
    shares = [value for name, value in told.items() if name.endswith("share")]
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["switch", "curriculum", "plr"])
def test_one_track_is_nothing_to_choose_among(kind: Any) -> None:
    with pytest.raises(ValueError, match="name several with --track"):
        Training(PPO, ScheduleConfig(kind), 64, replace(ROAD, tracks=("warehouse",)))


def test_one_track_needs_no_books() -> None:
    alone = Training(PPO, ScheduleConfig(), 64, replace(ROAD, tracks=("warehouse",)))
    assert alone.learner.roster is None


def test_a_track_that_is_there_several_times_is_told_once() -> None:
    road = replace(ROAD, tracks=("generated_track", "waveshare*3"))
    training = Training(PPO, ScheduleConfig(), total=64, road=road)
    training.drive(64)
    roster = training.learner.roster
    assert roster.names == ["generated_track"] + ["waveshare"] * 3
    told = roster.metrics()
    assert told["tracks/generated_track/share"] == pytest.approx(0.25)
    assert told["tracks/waveshare/share"] == pytest.approx(0.75)
    sums = roster.books.sums
    mean = sums["returns"][1:].sum() / sums["episodes"][1:].sum()
    assert told["tracks/waveshare/return"] == pytest.approx(mean)
    assert sums["returns"][3] / sums["episodes"][3] != pytest.approx(mean)
