"""What `hotlap zoo` can be told."""

import re
from dataclasses import dataclass
from pathlib import Path

from hotlap.config.commands import Command

NAME = r"[a-z0-9][a-z0-9_.-]{0,39}"
"""What a champion may be called."""


@dataclass(frozen=True)
class ZooConfig(Command):
    """List the trained champions that come along, or tell of one."""

    name: str | None = None
    """Which one; none lists them all."""


@dataclass(frozen=True)
class ZooAddConfig(Command):
    """Put a trained model into the zoo, with how it was judged."""

    name: str
    """What it is called there: small letters, digits and dashes."""
    run: str
    """The model: a run's folder, a bundle, or zoo:NAME."""
    evaluation: tuple[Path, ...] = ()
    """What `hotlap evaluate --json` printed about it; the first one is shown in the list."""
    command: str | None = None
    """The command that trained it."""
    about: str | None = None
    """A sentence about it."""
    half: bool = False
    """Keep the weights as 16-bit numbers, which take half the room and drive a little otherwise:
    judge it after that."""
    replace: bool = False
    """Take the place of the one that has the name."""

    def __post_init__(self) -> None:
        """Refuse names that are none."""
        refuse_name(self.name)


def refuse_name(name: str) -> None:
    """Stop at what could be a path."""
    if not re.fullmatch(NAME, name):
        raise ValueError(
            f"a name in the zoo has small letters, digits and dashes, 40 at most, got {name!r}"
        )
