"""What `hotlap blend` can be told."""

from dataclasses import dataclass
from pathlib import Path

from hotlap.config.commands import Command


@dataclass(frozen=True)
class BlendConfig(Command):
    """Average a model with the one that it came from, to keep most of what both of them can.

    A champion that was trained on for something new has forgotten a little of what it knew. Weights
    between the two often do some of the new, and nearly all of the old.
    """

    a: str
    """The model that was there before: a run's folder, a bundle, or zoo:NAME."""
    b: str
    """What came of it (--init-from)."""
    save_dir: Path
    """Where the blended model goes, as a bundle."""
    share: float = 0.5
    """How much of b is in it, between 0 and 1."""

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0 < self.share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {self.share:g}")
