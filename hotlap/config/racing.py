"""What `hotlap race` can be told."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hotlap.config.carracing import Backend, Look
from hotlap.config.commands import Command
from hotlap.config.naming import nearest
from hotlap.config.tasks import DONKEY_REWARDS


@dataclass(frozen=True)
class RaceConfig(Command):
    """Let two drivers drive the same episodes, and say who is faster."""

    a: str
    """A driver: a run's folder, a bundle, zoo:NAME, scripted:NAME, or with --trust a zip."""
    b: str
    """The other."""
    track: tuple[str, ...] = ()
    """Where: names, all (the eleven scenes) or a range such as circuit:100-199; left out,
    generated_track. In CarRacing the tracks of the seeds."""
    episodes: int = 10
    """Pairs of episodes on every track; in CarRacing in all, shared out among the tracks."""
    seed: int | None = None
    """Seed of the episodes, never one of a training; left out, 30,000. In CarRacing it names the
    first episode's track; left out, 20,000."""
    start: Literal["line", "random"] = "random"
    """Begin at the track's own start poses at rest, or anywhere on it, mostly rolling."""
    reward: str = "default"
    """Named reward that the returns of both count."""
    seconds: float = 50.0
    """Simulated time of an episode; more where a slow lap takes more."""
    video: Path | None = None
    """Write a film of both, from the line of the first track, to this MP4 file."""
    plot: Path | None = None
    """Lay the best laps of both side by side in this PNG file: speeds over the road, who gains
    where, and what is lost to the least possible; several tracks get NAME-TRACK.png each."""
    device: str = "auto"
    """Where to run: auto, cpu, cuda, or one card such as cuda:1."""
    trust: bool = False
    """Open models that could run code when opened, such as zips from elsewhere."""
    backend: Backend | None = None
    """Where CarRacing is driven: twin (as if left out), gymnasium (the real one) or envpool."""
    look: Look | None = None
    """How CarRacing's pictures are changed: plain, recoloured, noise or bars; in the twin, varied
    draws one of them for every episode."""
    task: str = "donkey"
    """What zips were trained on: donkey, donkey-lidar, donkey-telemetry or carracing."""
    preset: str | None = None
    """Settings of that task: a shipped preset by name, or a TOML file of your own; left out,
    donkey/default, and for CarRacing carracing/classic-warp."""

    def __post_init__(self) -> None:
        """Refuse what cannot be raced."""
        if self.episodes < 2:
            raise ValueError(
                f"episodes must be at least 2, got {self.episodes}: one pair says nothing of chance"
            )
        if self.seed is not None and self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds}")
        if self.reward not in DONKEY_REWARDS:
            raise ValueError(nearest(self.reward, DONKEY_REWARDS, "reward"))
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {self.device!r}")
        if self.video is not None and self.video.suffix != ".mp4":
            raise ValueError(f"video must end in .mp4, got {self.video}")
        if self.plot is not None and self.plot.suffix != ".png":
            raise ValueError(f"plot must end in .png, got {self.plot}")
