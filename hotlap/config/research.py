"""What `hotlap research` and `hotlap champion` can be told."""

import math
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hotlap.config.commands import Command
from hotlap.config.study import RaceConfig, StopConfig, StudyConfig

NAME = r"[a-z0-9][a-z0-9._-]{0,63}"
"""How a study may be called: it becomes a folder and a branch."""


@dataclass(frozen=True)
class ResearchConfig(Command):
    """Find the settings that drive best, prove it on fresh seeds, and keep the driver."""

    task: str = "donkey"
    """What is driven: donkey, donkey-lidar, donkey-telemetry, tag, or a Gymnasium id."""
    trials: int | None = None
    """Runs to make, the last test not counted; 0 is no limit. None makes 100, or as many as the
    hours or the target take where one of them is given."""
    hours: float = 0.0
    """Time to spend, this command alone, the last test included; 0 is no limit."""
    target: float | None = None
    """Stop when the champion's claimed score reaches this."""
    study: str | None = None
    """Name of the study and of its folder; the same name goes on with it; none takes the task's."""
    space: str = "auto"
    """What may be tried: a shipped search space by name, or a TOML file of your own."""
    agent: Literal["ppo", "dqn", "sac", "tqc"] | None = None
    """Try only this learner."""
    min_timesteps: int | None = None
    """Fewest steps of a run."""
    max_timesteps: int | None = None
    """Most steps of a run."""
    explore: float = 2.0
    """How bold proposals are: standard deviations of hope added to what is expected; 0 is not."""
    sampler: Literal["gp-ucb", "tpe", "cmaes", "gp", "random", "grid"] = "gp-ucb"
    """Who proposes: the Gaussian process of this house, or one of Optuna's samplers."""
    champion: Literal["race", "naive"] = "race"
    """Who holds the title: the winner of races on fresh seeds, or simply the highest mean."""
    cost_aware: bool = False
    """Prefer what promises more per second."""
    seed: int = 0
    """Seed of every decision."""
    earlier: tuple[Path, ...] = ()
    """Results of earlier studies to learn from: their folders, ledgers, or plain JSON lines."""
    workers: int = 0
    """Runs at the same time; 0 takes one per core, or one per GPU."""
    ordered: bool = False
    """With several workers, decide in the order of the trials: repeatable, but slower."""
    engine: Literal["local", "ray"] = "local"
    """Where runs are made: on this machine, or on a Ray cluster."""
    address: str | None = None
    """Address of the Ray cluster; none starts one on this machine."""
    gpu_share: float = 0.0
    """Part of a GPU that a run takes, so that several can share one; 0 takes a whole one."""
    time_limit: float = 360.0
    """Seconds after which a run is ended."""
    memory_limit: float = 8.0
    """Gigabytes above which a run is ended, with all it started."""
    idle_limit: float = 120.0
    """Seconds without progress after which a run counts as hung; 0 never."""
    cooldown: float = 0.0
    """Seconds between two runs, for simulators that need them; 2 is usual."""
    trainer: str | None = None
    """A command of your own instead of `hotlap train`. Its last word is a folder: trial.json in it
    says what to try, and result.json is what it leaves (`hotlap.research.engines.job`)."""
    preset: str = "auto"
    """Settings of the task: a shipped preset by name, or a TOML file of your own."""
    track: tuple[str, ...] = ()
    """Tracks to train on: names, ranges such as circuit:0-199 (below 90000) or all; none takes the
    preset's."""
    unseen: tuple[str, ...] = ()
    """Tracks the champion is shown on at the end; none takes some it was not trained on."""
    eval_episodes: int = 10
    """Episodes of every evaluation."""
    device: str = "auto"
    """Where to run: auto, cpu, cuda, or one card such as cuda:1."""
    test_runs: int = 10
    """Untouched seeds on which each of the best three is run at the end; 0 leaves it out."""
    remote: str | None = None
    """Git remote that results are pushed to; none pushes nothing."""
    push_every: int = 10
    """Trials between two pushes."""
    race: RaceConfig = field(default_factory=RaceConfig)
    """How much is run again, and what it takes to hold the title."""
    stop: StopConfig = field(default_factory=StopConfig)
    """When nothing is left to win."""
    video: bool = True
    """Film the champion at the end; --no-video leaves that out."""
    repair: bool = False
    """Drop damaged lines from the study's ledger first; a copy is kept."""

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        for name in ("hours", "cooldown", "idle_limit"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        for name in ("time_limit", "memory_limit"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.workers < 0:
            raise ValueError(f"workers must be 0 (one per core) or more, got {self.workers}")
        if self.push_every < 1:
            raise ValueError(f"push_every must be at least 1, got {self.push_every}")
        if self.gpu_share != 0 and not 0.01 <= self.gpu_share <= 1:
            raise ValueError(f"gpu_share must be 0 or lie in 0.01..1, got {self.gpu_share}")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {self.device!r}")
        if self.remote is not None and not re.match(r"\s*[^\s-]", self.remote):
            raise ValueError(
                f"a git remote is an address or a name such as origin, got {self.remote!r}"
            )
        if self.trainer is not None and not self.trainer_words:
            raise ValueError("trainer must be a command, got nothing")
        if self.study is not None and not re.fullmatch(NAME, self.study):
            raise ValueError(
                f"a study's name has small letters, digits, dots and dashes, got {self.study!r}"
            )
        if self.address is not None and self.engine != "ray":
            raise ValueError("--address is for --engine ray")
        target = self.stop.target if self.target is None else self.target
        if self.trials == 0 and self.hours == 0 and target is None and not self.stop.converge:
            raise ValueError("a study needs an end: --trials, --hours, --target or convergence")
        low, high = self.min_timesteps, self.max_timesteps
        if min(low or 1, high or 1) < 1 or (low and high and low > high):
            raise ValueError(f"timesteps must be at least 1 and rise, got {low} and {high}")
        self.study_config(1)  # refuses the rest

    @property
    def name(self) -> str:
        """The study's name."""
        plain = re.sub(r"[^a-z0-9.-]+", "-", self.task.lower()).strip("-.")
        return self.study or f"research-{plain}"

    @property
    def most_trials(self) -> int:
        """Runs to make at most; 0 is no limit."""
        if self.trials is not None:
            return self.trials
        return 0 if self.hours or self.target is not None or self.stop.target is not None else 100

    @property
    def trainer_words(self) -> tuple[str, ...]:
        """The command of one's own, word by word."""
        try:
            return tuple(shlex.split(self.trainer or ""))
        except ValueError as error:
            raise ValueError(f"trainer is no command: {error}: {self.trainer!r}") from error

    @property
    def folder(self) -> Path:
        """Where the study lies."""
        return self.root / self.name

    def study_config(self, workers: int) -> StudyConfig:
        """The study itself, apart from what is trained and where."""
        stop = {"target": self.target} if self.target is not None else {}
        return StudyConfig(
            trials=self.most_trials,
            seed=self.seed,
            sampler=self.sampler,
            explore=self.explore,
            cost_aware=self.cost_aware,
            champion=self.champion,
            workers=workers,
            ordered=self.ordered,
            test_runs=self.test_runs,
            race=self.race,
            stop=StopConfig(**(vars(self.stop) | stop)),
        )

    def training(self) -> dict[str, Any]:
        """Settings of `hotlap train` that are the same in every run."""
        table: dict[str, Any] = {
            "task": self.task,
            "preset": self.preset,
            "track": list(self.track),
            "eval_episodes": self.eval_episodes,
        }
        if self.task.startswith("donkey"):
            # Whatever a run is paid for while it learns, all are judged by the same reward.
            table["evaluation_reward"] = "default"
        return table


@dataclass(frozen=True)
class ChampionConfig(Command):
    """Show who holds the title; let it drive; take it along."""

    study: str | None = None
    """Name or folder of a study; none takes the one that changed last."""
    track: tuple[str, ...] = ()
    """Judge it on these tracks."""
    episodes: int = 10
    """Episodes of that."""
    video: Path | None = None
    """Write a film of a lap to this MP4 file."""
    export: Path | None = None
    """Copy its model into this folder, which must not exist."""

    def __post_init__(self) -> None:
        """Refuse what cannot be shown."""
        if self.episodes < 1:
            raise ValueError(f"episodes must be at least 1, got {self.episodes}")
        if self.video is not None and self.video.suffix != ".mp4":
            raise ValueError(f"video must end in .mp4, got {self.video}")
