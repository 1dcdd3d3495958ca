"""Settings of studies: what is refused, and in which words."""

from pathlib import Path
from typing import Any

import pytest

from hotlap.config.research import ChampionConfig, ResearchConfig
from hotlap.config.study import RaceConfig, SeedLists, StopConfig, StudyConfig


@pytest.mark.parametrize(
    ("cls", "settings", "words"),
    [
        (StudyConfig, {"trials": -1}, "trials must be 0 (no limit) or more, got -1"),
        (StudyConfig, {"seed": -1}, "seed must be 0 or more"),
        (StudyConfig, {"workers": 0}, "workers must be at least 1, got 0"),
        (StudyConfig, {"test_runs": 101}, "test_runs must lie in 0..100, got 101"),
        (StudyConfig, {"explore": float("nan")}, "explore must be 0 or more, got nan"),
        (StudyConfig, {"sampler": "gp_ucb"}, "unknown sampler 'gp_ucb'; did you mean 'gp-ucb'?"),
        (StudyConfig, {"champion": "best"}, "unknown champion rule 'best'"),
        (SeedLists, {"race": ()}, "tuning and race seeds must not be empty"),
        (SeedLists, {"test": (5, 300)}, "seeds [5] are for choosing and for testing"),
        (RaceConfig, {"share": 0.1}, "closing and share must lie in 0..1 and rise, got 0.2, 0.1"),
        (RaceConfig, {"runs": 0}, "every, runs and refresh must be at least 1"),
        (RaceConfig, {"probability": 1.0}, "probability must lie in 0.5..1, got 1.0"),
        (RaceConfig, {"hopeless": 0.5}, "hopeless must lie in 0..0.5, got 0.5"),
        (StopConfig, {"epsilon": -1.0}, "epsilon must be 0 or more, got -1.0"),
        (StopConfig, {"probability": 0.2}, "probability must lie in 0.5..1, got 0.2"),
        (StopConfig, {"hold": 0}, "hold and least must be at least 1"),
        (ResearchConfig, {"hours": -1.0}, "hours must be 0 or more, got -1.0"),
        (ResearchConfig, {"time_limit": 0.0}, "time_limit must be positive, got 0.0"),
        (ResearchConfig, {"time_limit": float("inf")}, "time_limit must be positive, got inf"),
        (ResearchConfig, {"workers": -2}, "workers must be 0 (one per core) or more, got -2"),
        (ResearchConfig, {"gpu_share": 1.5}, "gpu_share must be 0 or lie in 0.01..1, got 1.5"),
        (ResearchConfig, {"study": "My Study"}, "small letters, digits, dots and dashes"),
        (ResearchConfig, {"address": "auto"}, "--address is for --engine ray"),
        (ResearchConfig, {"min_timesteps": 9, "max_timesteps": 8}, "timesteps must be at least 1"),
        (ResearchConfig, {"trials": 0, "stop": StopConfig(converge=False)}, "needs an end"),
        (ResearchConfig, {"push_every": 0}, "push_every must be at least 1, got 0"),
        (ResearchConfig, {"test_runs": -1}, "test_runs must lie in 0..100, got -1"),
        (ChampionConfig, {"episodes": 0}, "episodes must be at least 1, got 0"),
        (ChampionConfig, {"video": Path("lap.avi")}, "video must end in .mp4, got lap.avi"),
    ],
)
def test_what_cannot_be_is_refused(cls: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as refused:
        cls(**settings)
    assert words in str(refused.value)


def test_a_study_is_named_after_its_task() -> None:
    assert ResearchConfig("donkey").folder == Path("runs/research-donkey")
    assert ResearchConfig("CartPole-v1").name == "research-cartpole-v1"
    assert ResearchConfig("a/b:C").name == "research-a-b-c"
    assert ResearchConfig("donkey", study="night.2").name == "night.2"


def test_the_settings_of_the_command_reach_the_study() -> None:
    config = ResearchConfig(trials=7, target=3.0, stop=StopConfig(epsilon=0.5), champion="naive")
    study = config.study_config(workers=4)
    assert (study.trials, study.workers, study.champion) == (7, 4, "naive")
    assert study.stop == StopConfig(target=3.0, epsilon=0.5)


def test_an_end_may_be_a_target_alone() -> None:
    no_end = StopConfig(converge=False)
    assert ResearchConfig(trials=0, target=5.0, stop=no_end).study_config(1).stop.target == 5.0
    own = StopConfig(converge=False, target=5.0)
    assert ResearchConfig(trials=0, stop=own).study_config(1).stop.target == 5.0


def test_all_runs_on_the_road_are_judged_by_one_reward() -> None:
    assert ResearchConfig("donkey-lidar").training()["evaluation_reward"] == "default"
    assert "evaluation_reward" not in ResearchConfig("CartPole-v1").training()
