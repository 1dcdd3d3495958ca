"""What `hotlap evaluate` can be told."""

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from hotlap.config.bridges import BridgeConfig, over_the_wire
from hotlap.config.carracing import Backend, Look
from hotlap.config.commands import Command


@dataclass(frozen=True)
class EvaluateConfig(Command):
    """Judge a model on seeds it never saw."""

    model: str
    """A run's folder, a bundle, a name from the zoo (zoo:NAME), or scripted:NAME."""
    track: tuple[str, ...] = ()
    """Tracks to drive: names, all (the eleven scenes), unseen (100 generated tracks that are kept
    out of training) or a range such as circuit:100-199; none takes those it was trained on."""
    episodes: int = 10
    """Episodes, shared out among the tracks; with --sets, of every track in every set."""
    sets: int = 0
    """Judge every track so many times, with other seeds; 0 is once."""
    seed: int = 20_000
    """Seed of the episodes; never one of a training, whatever its number. In CarRacing it names the
    first episode's track."""
    start: Literal["line", "random"] = "random"
    """Begin at the track's own start poses at rest, or anywhere on it, mostly rolling (CarRacing
    is judged from the line)."""
    randomise: str | None = None
    """What differs between episodes: none, light (half of everything), full, or parts of full, such
    as looks,friction,delay (others: image, lens, car, steering); left out it is as in training."""
    host: str | None = None
    """Drive over the wire, in the simulators on this machine; left out, drive in this process."""
    port: tuple[int, ...] = ()
    """Where those simulators listen (9091 if left out); several are driven at once."""
    bridge: BridgeConfig = field(default_factory=BridgeConfig)
    """How simulators are driven over the wire."""
    backend: Backend | None = None
    """Where CarRacing is driven: twin (as if left out), gymnasium (the real one) or envpool."""
    look: Look | None = None
    """How CarRacing's pictures are changed: plain, recoloured, noise or bars; in the twin, varied
    draws one of them for every episode."""
    stochastic: bool = False
    """Draw actions instead of taking the best."""
    plot: Path | None = None
    """Write the driven lines, coloured by speed, to this PNG file (one per track)."""
    video: Path | None = None
    """Write a film of a lap from the line to this MP4 file."""
    device: str = "auto"
    """Where to run: auto, cpu, cuda, or one card such as cuda:1."""
    trust: bool = False
    """Open models that could run code when opened, such as zips from elsewhere."""
    algorithm: Literal["auto", "ppo", "dqn", "sac", "tqc"] = "auto"
    """Learner that made a zip; auto reads it from the file."""
    task: str | None = None
    """Task to judge a zip from elsewhere on, or a Gymnasium id."""
    preset: str | None = None
    """Settings of that task: a shipped preset by name, or a TOML file of your own; left out,
    donkey/default, and for CarRacing carracing/classic-warp. How many pictures a zip stacks, and
    how it acts, its policy tells."""

    def __post_init__(self) -> None:
        """Refuse what cannot be judged."""
        if self.episodes < 1:
            raise ValueError(f"episodes must be at least 1, got {self.episodes}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {self.device!r}")
        if self.video is not None and self.video.suffix != ".mp4":
            raise ValueError(f"video must end in .mp4, got {self.video}")
        if self.plot is not None and self.plot.suffix != ".png":
            raise ValueError(f"plot must end in .png, got {self.plot}")
        over_the_wire(self.bridge, self.host, self.port)  # refuses an address at once
        if self.sets < 0:
            raise ValueError(f"sets must be 0 or more, got {self.sets}")

    def asked(self) -> dict[str, Any]:
        """What was asked for and decides the result, where it is not the usual."""
        free = {"model", "json", "debug", "root", "plot", "video", "device", "trust"}
        free |= {"host", "port", "bridge"}  # told with what came of them
        usual = {f.name: f.default for f in fields(self) if f.name not in free}
        given = {name: getattr(self, name) for name in usual}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value != usual[name]
        }
