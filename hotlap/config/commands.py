"""What each verb of the command line can be told."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hotlap.config.carracing import Backend, Look


@dataclass(frozen=True, kw_only=True)
class Command:
    """What every verb can be told."""

    json: bool = False
    """End the output with one line that holds one JSON object."""
    debug: bool = False
    """Show the traceback when something fails."""
    root: Path = Path("runs")
    """Folder under which everything is written."""


@dataclass(frozen=True)
class TracksConfig(Command):
    """List the tracks, with what makes each of them hard."""

    names: tuple[str, ...] = ()
    """Which tracks: names, ranges such as circuit:0-9, all or unseen; the scenes if none."""
    draw: Path | None = None
    """Write one map per track, as PNG, into this folder."""
    sheet: Path | None = None
    """Write what the camera sees on each track to this PNG file."""
    preset: str = "donkey/default"
    """Settings behind the sheet: a shipped preset by name, or a TOML file of your own."""


@dataclass(frozen=True)
class ReportConfig(Command):
    """Say from its files how a run fared on each track and what it forgot, or how a study went."""

    folder: Path
    """The folder of a run or of a study."""
    picture: Path | None = None
    """Draw a run's tracks to this PNG file; none is report/tracks.png in its folder."""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if self.picture is not None and self.picture.suffix != ".png":
            raise ValueError(f"picture must end in .png, got {self.picture}")


@dataclass(frozen=True)
class WatchConfig(Command):
    """Let a driver drive, say how it went, and film it."""

    model: str
    """Who drives: scripted:NAME, a run's folder, a bundle, or zoo:NAME."""
    task: str = "donkey"
    """What is driven."""
    track: str = "auto"
    """Where it is driven; auto is generated_track, and with CarRacing a track that is kept out of
    training, the seed says which."""
    backend: Backend | None = None
    """Where CarRacing is driven: twin (as if left out), gymnasium (the real one) or envpool."""
    look: Look | None = None
    """How CarRacing's pictures are changed: plain, recoloured, noise, bars or varied."""
    preset: str = "donkey/default"
    """Settings of the task: a shipped preset by name, or a TOML file of your own."""
    video: Path | None = None
    """Write a film of it to this MP4 file."""
    seed: int = 0
    """Seed of everything random."""
    laps: int = 1
    """Stop after this many laps."""
    seconds: float = 120.0
    """Give up after this many simulated seconds."""
    trust: bool = False
    """Open models that could run code when opened, such as zips from elsewhere."""

    def __post_init__(self) -> None:
        """Refuse what cannot be driven."""
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if self.laps < 1:
            raise ValueError(f"laps must be 1 or more, got {self.laps}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds}")
        if self.video is not None and self.video.suffix != ".mp4":
            raise ValueError(f"video must end in .mp4, got {self.video}")


@dataclass(frozen=True)
class BenchSimConfig(Command):
    """Measure how many steps per second the simulator makes on this machine."""

    device: str = "auto"
    """Where to run: auto, cpu, cuda, or one card such as cuda:1."""
    batch: tuple[int, ...] = (0,)
    """Numbers of environments to measure, one after another; 0 chooses some for the device."""
    compiled: Literal["auto", "on", "off"] = "auto"
    """Whether to compile the step; auto does where a compiler is found."""
    seconds: float = 4.0
    """How long each figure is measured, in all."""
    measures: tuple[str, ...] = ()
    """Which figures to take, by their names in the JSON; all of them when none is named."""
    tracks: tuple[str, ...] = ("generated_track",)
    """Tracks the cars drive on, shared out among the environments."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {self.device!r}")
        if not self.batch or min(self.batch) < 0:
            raise ValueError(f"batch must hold numbers of 0 or more, got {self.batch}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds}")


@dataclass(frozen=True)
class BenchTrainConfig(Command):
    """Measure how fast the learners are on this machine, beside stock Stable-Baselines3."""

    device: str = "auto"
    """Where to run: auto, cpu, cuda, or one card such as cuda:1."""
    compiled: Literal["auto", "on", "off"] = "auto"
    """Whether to compile; auto does where a compiler is found."""
    seconds: float = 20.0
    """How long each figure is measured, for each of the two."""
    measures: tuple[str, ...] = ()
    """Which figures to take, by their names in the JSON; all of them when none is named."""
    threads: int = 1
    """Threads of the process."""
    stock_steps: int = 0
    """Steps between updates of the stock learner, where ours would take it minutes; 0 is ours."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {self.device!r}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds}")
        if self.threads < 1 or self.stock_steps < 0:
            raise ValueError("threads must be at least 1 and stock_steps 0 or more")


@dataclass(frozen=True)
class BenchFirstLapConfig(Command):
    """Time the way from nothing to a first clean lap, from camera frames."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds, one after another."""
    track: str = "generated_track"
    """Where to lap."""
    device: str = "auto"
    """Where to run: auto, cpu, cuda, or one card such as cuda:1."""
    limit: float = 300.0
    """Give a seed up after this many seconds."""
    threads: int = 1
    """Threads of each process."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {self.device!r}")
        if not self.seeds or min(self.seeds) < 0:
            raise ValueError(f"seeds must be numbers of 0 or more, got {self.seeds}")
        if not self.limit > 0 or self.threads < 1:
            raise ValueError("limit must be positive and threads at least 1")
