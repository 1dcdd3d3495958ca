"""Settings of a study: how its budget is spent, who may hold the title, and when it ends."""

import math
from dataclasses import dataclass, field
from typing import Literal

from hotlap.config.naming import nearest

SAMPLERS = ("gp-ucb", "tpe", "cmaes", "gp", "random", "grid")
CHAMPIONS = ("race", "naive")


@dataclass(frozen=True)
class SeedLists:
    """Seeds of the runs; what is claimed from some is tested on others."""

    tuning: tuple[int, ...] = tuple(range(10))
    """Of runs that try something new."""
    race: tuple[int, ...] = tuple(range(10, 100))
    """Of runs that try something again; the same list for all, in this order."""
    test: tuple[int, ...] = tuple(range(100, 200))
    """Of the last test, touched by nothing before it."""

    def __post_init__(self) -> None:
        """Refuse seeds that would be used for choosing and for testing."""
        if not self.tuning or not self.race:
            raise ValueError("tuning and race seeds must not be empty")
        if both := set(self.test) & {*self.tuning, *self.race}:
            raise ValueError(f"seeds {sorted(both)[:5]} are for choosing and for testing")


@dataclass(frozen=True)
class RaceConfig:
    """How much is run again, and what it takes to hold the title."""

    share: float = 0.3
    """Share of the trials that run something again, in all."""
    closing: float = 0.2
    """Share of the trials kept for the race at the end."""
    every: int = 10
    """Proposals between two short races on the way."""
    runs: int = 3
    """Runs without the one that nominated it, before a configuration may take the title."""
    probability: float = 0.9
    """How probably better than the champion it must be."""
    hopeless: float = 0.05
    """Below this probability of being better than the leader it is not run again."""
    refresh: int = 20
    """Trials after which the champion is run again."""

    def __post_init__(self) -> None:
        """Refuse what is no race."""
        if not 0 <= self.closing <= self.share < 1:
            raise ValueError(
                f"closing and share must lie in 0..1 and rise, got {self.closing}, {self.share}"
            )
        if self.every < 1 or self.runs < 1 or self.refresh < 1:
            raise ValueError("every, runs and refresh must be at least 1")
        if not 0.5 <= self.probability < 1:
            raise ValueError(f"probability must lie in 0.5..1, got {self.probability}")
        if not 0 <= self.hopeless < 0.5:
            raise ValueError(f"hopeless must lie in 0..0.5, got {self.hopeless}")


@dataclass(frozen=True)
class StopConfig:
    """When a study ends, beside its number of trials."""

    target: float | None = None
    """Claimed score of the champion that is good enough."""
    converge: bool = True
    """Stop when nothing can plausibly win any more; --stop.no-converge goes on."""
    epsilon: float = 0.0
    """Difference in score that does not matter; never taken smaller than the seeds' noise."""
    probability: float = 0.9
    """How probably the leader must be within epsilon of the best there is."""
    hold: int = 10
    """Trials for which all of it must have held."""
    least: int = 30
    """Trials before which no study converges; five per parameter if that is more."""

    def __post_init__(self) -> None:
        """Refuse what cannot end well."""
        if self.target is not None and not math.isfinite(self.target):
            raise ValueError(f"target must be a number, got {self.target}")
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be 0 or more, got {self.epsilon}")
        if not 0.5 <= self.probability < 1:
            raise ValueError(f"probability must lie in 0.5..1, got {self.probability}")
        if self.hold < 1 or self.least < 1:
            raise ValueError("hold and least must be at least 1")


@dataclass(frozen=True)
class StudyConfig:
    """A study."""

    trials: int = 100
    """Runs to make, the last test not counted; 0 is no limit."""
    seed: int = 0
    """Seed of every decision."""
    sampler: Literal["gp-ucb", "tpe", "cmaes", "gp", "random", "grid"] = "gp-ucb"
    """Who proposes: the Gaussian process of this house, or one of Optuna's samplers."""
    explore: float = 2.0
    """Standard deviations of hope in the upper confidence bound."""
    cost_aware: bool = False
    """Whether the seconds a run takes count when proposing; needs times that repeat to repeat."""
    champion: Literal["race", "naive"] = "race"
    """Who holds the title: the winner of races on fresh seeds, or simply the highest mean."""
    workers: int = 1
    """Runs at the same time."""
    ordered: bool = False
    """With several workers, decide in the order of the trials: repeatable, but slower."""
    test_runs: int = 10
    """Untouched seeds on which each of the best three is run at the end; 0 leaves it out."""
    race: RaceConfig = field(default_factory=RaceConfig)
    """The race."""
    stop: StopConfig = field(default_factory=StopConfig)
    """The end."""
    seeds: SeedLists = field(default_factory=SeedLists)
    """Seeds of the runs."""

    def __post_init__(self) -> None:
        """Refuse what cannot be studied."""
        if self.trials < 0:
            raise ValueError(f"trials must be 0 (no limit) or more, got {self.trials}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")
        if not 0 <= self.test_runs <= len(self.seeds.test):
            raise ValueError(
                f"test_runs must lie in 0..{len(self.seeds.test)}, got {self.test_runs}: that many "
                "are in seeds.test"
            )
        if not self.explore >= 0:
            raise ValueError(f"explore must be 0 or more, got {self.explore}")
        if self.sampler not in SAMPLERS:
            raise ValueError(nearest(self.sampler, SAMPLERS, "sampler"))
        if self.champion not in CHAMPIONS:
            raise ValueError(nearest(self.champion, CHAMPIONS, "champion rule"))
