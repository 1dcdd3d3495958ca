"""What each verb of the command line can be told."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


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
    """Which tracks; all of them when none is named."""
    draw: Path | None = None
    """Write one map per track, as PNG, into this folder."""
    sheet: Path | None = None
    """Write what the camera sees on each track to this PNG file."""
    preset: str = "donkey/default"
    """Settings behind the sheet: a shipped preset by name, or a TOML file of your own."""


@dataclass(frozen=True)
class WatchConfig(Command):
    """Let a driver drive, say how it went, and film it."""

    model: str
    """Who drives: scripted:NAME, a run's folder, a bundle, or zoo:NAME."""
    task: str = "donkey"
    """What is driven."""
    track: str = "generated_track"
    """Where it is driven."""
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
