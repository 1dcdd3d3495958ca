"""Settings of CarRacing, in our twin and in Gymnasium's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hotlap.config.naming import nearest

Backend = Literal["twin", "gymnasium", "envpool"]
View = Literal["crop", "warp", "full"]
Look = Literal["plain", "recoloured", "noise", "bars", "varied"]
Reward = Literal["default", "thorough"]
Start = Literal["line", "random", "mixed"]

FRAMES_PER_SECOND = 50
FIVE_ACTIONS = (
    (0.0, 0.0, 0.0),
    (0.6, 0.0, 0.0),
    (-0.6, 0.0, 0.0),
    (0.0, 0.2, 0.0),
    (0.0, 0.0, 0.8),
)
"""Gymnasium's discrete actions as steering, gas and brake: nothing, right, left, gas, brake."""
SIZES: dict[str, int] = {"crop": 84, "warp": 84, "full": 96}
"""Height and width of a picture, by view."""


@dataclass(frozen=True)
class CarRacingConfig:
    """Visit every tile of a track, in as few frames as possible."""

    tracks: tuple[str, ...] = ("carracing:0-31",)
    """Tracks of the twin: `carracing:7` is the one that Gymnasium makes from seed 7; ranges
    (`carracing:0-31`) and CSV paths too. Every episode draws one."""
    backend: Backend = "twin"
    """Where it is driven: our tensors, Gymnasium's CarRacing-v3, or EnvPool's."""
    view: View = "crop"
    """crop: 84x84 without the panel and the sides; warp: the whole frame shrunk to 84x84; full: the
    96x96 frame."""
    colour: bool = False
    """Red, green and blue in place of gray."""
    look: Look = "plain"
    """How the picture is changed: other colours of road and grass, noise, or bars at the sides;
    varied draws one of these or plain for every episode (in the twin alone)."""
    actions: Literal["pair", "triple"] = "pair"
    """pair: steering, and gas (above 0) or brake (below); triple: Gymnasium's three numbers."""
    brake: float = 1.0
    """Brake of the lowest action; from 0.9 on, wheels lock."""
    repeat: int = 1
    """Frames that an action lasts."""
    reward: Reward = "default"
    """default is Gymnasium's own; thorough also charges for tiles left behind, most for the first,
    and for grass, and ends where a car does not come back to the road."""
    start: Start = "line"
    """Begin where Gymnasium does, or at rest anywhere on the track, or one in four on the line and
    the others anywhere (in the twin alone)."""
    max_frames: int = 1000
    """Frames after which an episode is cut off."""

    def __post_init__(self) -> None:
        """Refuse what cannot be driven."""
        if not self.tracks:
            raise ValueError("tracks must name at least one track")
        for name, known in (
            ("backend", Backend),
            ("view", View),
            ("look", Look),
            ("reward", Reward),
            ("start", Start),
        ):
            if getattr(self, name) not in get_args(known):
                raise ValueError(nearest(getattr(self, name), get_args(known), name))
        if self.actions not in ("pair", "triple"):
            raise ValueError(nearest(self.actions, ("pair", "triple"), "actions"))
        if self.look == "varied" and self.backend != "twin":
            raise ValueError(
                f"the look varied is for the twin; in {self.backend}, name one of "
                + ", ".join(name for name in get_args(Look) if name != "varied")
            )
        if not 0 < self.brake <= 1:
            raise ValueError(f"brake must lie in (0, 1], got {self.brake}")
        if not 1 <= self.repeat <= 16:
            raise ValueError(f"repeat must lie in 1..16, got {self.repeat}")
        if self.max_frames < 1:
            raise ValueError(f"max_frames must be at least 1, got {self.max_frames}")

    @property
    def outside(self) -> bool:
        """Whether cars live in processes of their own, where nobody knows more than they tell."""
        return self.backend != "twin"

    @property
    def max_steps(self) -> int:
        """Decisions after which an episode is cut off."""
        return -(-self.max_frames // self.repeat)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of a picture."""
        size = SIZES[self.view]
        return size, size, 3 if self.colour else 1


def controls(action: Sequence[float], config: CarRacingConfig) -> tuple[float, float, float]:
    """Steering, gas and brake of an action as the task takes it."""
    if config.actions == "triple":
        steer, gas, brake = action
    else:
        steer, pedal = action
        gas, brake = max(pedal, 0.0), config.brake * max(-pedal, 0.0)
    return min(max(steer, -1.0), 1.0), min(max(gas, 0.0), 1.0), min(max(brake, 0.0), 1.0)
