"""A run, settled to the last setting: what is written beside every model."""

from dataclasses import dataclass, field
from typing import Literal

from hotlap.config.bridges import BridgeConfig
from hotlap.config.carracing import CarRacingConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import AGENTS, DQNConfig, PPOConfig, SACConfig, TQCConfig
from hotlap.config.schedules import ScheduleConfig
from hotlap.config.tasks import DonkeyConfig, TagConfig

Agent = PPOConfig | DQNConfig | SACConfig | TQCConfig
Settings = DonkeyConfig | CarRacingConfig | TagConfig


@dataclass(frozen=True)
class EvaluationConfig:
    """How a policy is judged."""

    episodes: int = 10
    """Episodes, shared out among the tracks."""
    seed: int = 10_000
    """Seed of the episodes; never one of a training, whatever its number."""
    start: Literal["line", "random"] = "random"
    """Begin at the track's own start poses at rest, or anywhere on it, mostly rolling."""
    deterministic: bool = True
    """Take the best action instead of drawing one."""
    reward: str | None = None
    """Named reward that is counted; none is the one that was trained with."""
    tracks: tuple[str, ...] = ()
    """Tracks that are driven; none are those trained on."""
    randomised: bool = True
    """Whether what differs between episodes of the training differs here too."""

    def __post_init__(self) -> None:
        """Refuse what cannot be judged."""
        if self.episodes < 1:
            raise ValueError(f"episodes must be at least 1, got {self.episodes}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if self.start not in ("line", "random"):
            raise ValueError(f"start must be line or random, got {self.start!r}")


@dataclass(frozen=True)
class RollbackConfig:
    """What is done when a training collapses."""

    lost: float = 0.5
    """Share of the best score, or of what was gained since the first if more, that must be lost."""
    patience: int = 3
    """Evaluations in a row that must be that bad."""
    rate: float = 0.5
    """Factor on the learning rate after going back to the best."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if not 0 < self.lost <= 1:
            raise ValueError(f"lost must lie in (0, 1], got {self.lost}")
        if self.patience < 1:
            raise ValueError(f"patience must be at least 1, got {self.patience}")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must lie in (0, 1], got {self.rate}")


@dataclass(frozen=True)
class RunConfig:
    """One training run."""

    task: str
    """A task by name, or a Gymnasium environment by its id."""
    settings: Settings | None
    """The task's own; none for a Gymnasium environment."""
    agent: Agent
    """The learner's."""
    interface: InterfaceConfig
    """What stands between the two."""
    timesteps: int
    """Steps to train for, all environments together."""
    segment_steps: int
    """Steps between two checkpoints."""
    seed: int = 0
    """Seed of everything random."""
    device: str = "cpu"
    """Where it runs."""
    threads: int = 1
    """Threads of the process; other numbers add up in another order."""
    compiled: bool = False
    """Whether simulator, nets and updates are compiled."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    """How checkpoints and the final policy are judged."""
    milestones: int = 0
    """Policies of the latest segments that stay beside the best, each a model of its own."""
    rollback: RollbackConfig = field(default_factory=RollbackConfig)
    """What is done after a collapse."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """Which of its tracks are driven when."""
    init_from: str | None = None
    """Model whose weights it began with."""
    bridge: BridgeConfig | None = None
    """Simulators over the wire that it drives in; none drives in this process."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if self.timesteps < 1:
            raise ValueError(f"timesteps must be at least 1, got {self.timesteps}")
        if self.segment_steps < 1:
            raise ValueError(f"segment_steps must be at least 1, got {self.segment_steps}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if self.milestones < 0:
            raise ValueError(f"milestones must be 0 or more, got {self.milestones}")

    @property
    def agent_name(self) -> str:
        """The learner's name, as in `--agent`."""
        return AGENTS[KINDS.index(type(self.agent))]

    @property
    def segments(self) -> int:
        """How many segments the training has."""
        return -(-self.timesteps // self.segment_steps)

    def steps_of(self, segment: int) -> int:
        """Steps of a segment; the last takes what is left."""
        return min(self.segment_steps, self.timesteps - segment * self.segment_steps)


KINDS: tuple[type, ...] = (PPOConfig, DQNConfig, SACConfig, TQCConfig)
"""Settings of the learners, in the order of `AGENTS`."""
