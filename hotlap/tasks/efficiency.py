"""How much of what a car drives takes it further.

    behind   how far the car is behind the furthest point it has reached, metres   (B, N)
    gained   road won: how far that point moved in the running half of the window  (B, N)
    driven   distance driven in the same half                                      (B, N)

Efficiency is the road won over the distance driven in a window of `HALF_WINDOW` to twice as many
steps: about 1 for a car that goes anywhere, 0 for one that circles, reverses or goes to and fro.
Road counts as won once: by net progress alone, a circle slower than the window, or a long stretch
driven up and down, would be paid for the way up every time.

The window is two halves, the older dropped when the younger is full. So it forgets everything
within twice `HALF_WINDOW` steps and takes five numbers a car. A ring of 60 steps would take 120;
moving averages would do with three, but never quite forget: a car that stops would stay as
efficient as it was.
"""

import torch
from torch import Tensor

State = dict[str, Tensor]

HALF_WINDOW = 30
"""Control steps after which the older half of the window is dropped."""
LEAST_DRIVEN = 1e-4
"""Metres below which a car has not moved: its efficiency is 0 rather than a quotient of noise."""


def begin_window(like: Tensor) -> State:
    """The window of cars that have driven nothing yet; `like` is any (B, N) float tensor."""
    zero = torch.zeros_like(like)
    names = ("behind", "gained", "driven", "gained_before", "driven_before")
    return dict.fromkeys(names, zero)


def move_window(window: State, moved: Tensor, driven: Tensor, clock: Tensor) -> State:
    """The window after a step.

    Args:
        window: As made by `begin_window` or by this function.
        moved: Signed distance along the road in this step (B, N).
        driven: Distance driven in this step (B, N).
        clock: Steps before this one, broadcastable to (B, N) int64.
    """
    turned = torch.remainder(clock, HALF_WINDOW) == 0
    lead = moved - window["behind"]
    gained, so_far = window["gained"], window["driven"]
    return {
        "behind": (-lead).clamp(min=0.0),
        "gained": torch.where(turned, 0.0, gained) + lead.clamp(min=0.0),
        "driven": torch.where(turned, 0.0, so_far) + driven,
        "gained_before": torch.where(turned, gained, window["gained_before"]),
        "driven_before": torch.where(turned, so_far, window["driven_before"]),
    }


def efficiency(window: State) -> Tensor:
    """Road won over distance driven within the window (B, N), 0 for a car that stands."""
    gained = window["gained"] + window["gained_before"]
    driven = window["driven"] + window["driven_before"]
    return gained / driven.clamp(min=LEAST_DRIVEN)
