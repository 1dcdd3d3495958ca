"""Settings of schedules: which of several tracks are driven when."""

from dataclasses import dataclass, field
from typing import Literal

from hotlap.config.naming import nearest

SCHEDULES = ("parallel", "switch", "curriculum", "plr")
ScheduleName = Literal["parallel", "switch", "curriculum", "plr"]


@dataclass(frozen=True)
class CurriculumConfig:
    """From easy tracks to hard ones, as fast as the driver gets the hang of them."""

    first: float = 0.25
    """Share of the tracks that are open from the beginning, the easiest; at least one."""
    widen: float = 0.1
    """Share of the tracks that are opened at a time; at least one."""
    success: float = 0.6
    """Share of the latest episodes on open tracks that must succeed before more are opened."""
    pace: float = 0.3
    """Metres along the road per second that an episode without a crash must make to succeed; one
    with a whole lap succeeds anyway."""
    episodes: int = 8
    """Episodes that must end between two openings, for each open track on average."""

    def __post_init__(self) -> None:
        """Refuse what cannot be climbed."""
        for name in ("first", "widen", "success"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)}")
        if self.pace < 0:
            raise ValueError(f"pace must be 0 or more, got {self.pace}")
        if self.episodes < 1:
            raise ValueError(f"episodes must be at least 1, got {self.episodes}")


@dataclass(frozen=True)
class PLRConfig:
    """Prioritised level replay: the tracks from which most is to be learned, and the stale ones."""

    score: Literal["absolute", "positive"] = "absolute"
    """Learning potential of a track: its mean absolute advantage, or that of the positive ones.
    Learners without advantages go by the share of episodes that crash."""
    temperature: float = 0.5
    """How evenly tracks are drawn by the rank of their score: towards 0 only the first."""
    staleness: float = 0.3
    """Share of the draws that go by how long ago a track was driven."""
    memory: float = 0.5
    """Weight of what was known of a track's score when it is measured again."""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn from."""
        if self.score not in ("absolute", "positive"):
            raise ValueError(nearest(self.score, ("absolute", "positive"), "score"))
        if not self.temperature >= 0.02:
            raise ValueError(f"temperature must be at least 0.02, got {self.temperature}")
        if not 0 < self.staleness <= 1:
            raise ValueError(
                f"staleness must lie in (0, 1], or tracks would be forgotten; got {self.staleness}"
            )
        if not 0 <= self.memory < 1:
            raise ValueError(f"memory must lie in [0, 1), got {self.memory}")


@dataclass(frozen=True)
class ScheduleConfig:
    """Which of several tracks are driven when."""

    kind: ScheduleName = "parallel"
    """All at once, one after another, from easy to hard, or by learning potential."""
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    """Settings of the curriculum."""
    plr: PLRConfig = field(default_factory=PLRConfig)
    """Settings of prioritised level replay."""

    def __post_init__(self) -> None:
        """Refuse a schedule that is none."""
        if self.kind not in SCHEDULES:
            raise ValueError(nearest(self.kind, SCHEDULES, "schedule"))
