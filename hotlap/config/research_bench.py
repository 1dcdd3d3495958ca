"""What the benchmark of the research loop can be told."""

from dataclasses import dataclass
from pathlib import Path

from hotlap.config.commands import Command


@dataclass(frozen=True)
class BenchResearchConfig(Command):
    """Measure how well configurations are proposed and chosen, beside Optuna's samplers."""

    measures: tuple[str, ...] = ()
    """What to measure: regret, landscape, speed; all of them when none is named."""
    problems: tuple[str, ...] = ()
    """Problems for regret, by name; all of them when none is named."""
    samplers: tuple[str, ...] = ("gp-ucb", "gp", "tpe", "random")
    """Who proposes: gp-ucb, or one of Optuna's samplers by its name in `hotlap research`."""
    strategies: tuple[str, ...] = ()
    """Ways of spending a study's runs on the landscape, by name; all when none is named."""
    repetitions: int = 20
    """How often everything is repeated, each time with other seeds."""
    budget: int = 100
    """Evaluations of a problem that each sampler has."""
    landscape: Path | None = None
    """File with a recorded landscape; the one that is shipped when none is named."""
    landscape_budget: int = 60
    """Runs that each study on the landscape has."""
    seed: int = 0
    """Seed of everything random."""
    workers: int = 1
    """Processes that measure at the same time, each with one thread."""
    seconds: float = 0.0
    """Begin nothing new after this many seconds, and report what is there; 0 is no limit."""
    out: Path | None = None
    """Keep every finished repetition in this file, one JSON line each, and go on from there."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        if self.repetitions < 1:
            raise ValueError(f"repetitions must be at least 1, got {self.repetitions}")
        if self.budget < 2:
            raise ValueError(f"budget must be at least 2, got {self.budget}")
        if self.landscape_budget < 2:
            raise ValueError(f"landscape_budget must be at least 2, got {self.landscape_budget}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")
        if self.seconds < 0:
            raise ValueError(f"seconds must be 0 or more, got {self.seconds}")
