"""Laps that have to be driven.

    progress   net distance driven along the road since the episode began, metres  (B, N)
    passed     whole lengths of the road in it                                     (B, N) int64
    clean      whether the car has stayed on the road since the last of them       (B, N) bool
    laps       those driven cleanly from end to end: the only ones that count      (B, N) int64

A lap is a full length of net progress, measured by the windowed projection: driving in circles over
the line, reversing over it or turning round before it earns nothing, because what is driven
backwards is taken off again; nor does a circle through the infield, because it leaves the road. The
time a lap ends is interpolated within the step.
"""

import torch
from torch import Tensor

State = dict[str, Tensor]


def begin_laps(like: Tensor) -> State:
    """Books of cars that have driven nothing yet; `like` is any (B, N) float tensor."""
    zero = torch.zeros_like(like)
    none = zero.to(torch.int64)
    clean = torch.ones_like(like, dtype=torch.bool)
    return {
        "progress": zero, "passed": none, "clean": clean, "laps": none, "lap_began": zero,
        "lap_time": zero,
    }  # fmt: skip


def count_laps(
    books: State, moved: Tensor, length: Tensor, time: Tensor, dt: float, on_road: Tensor
) -> State:
    """The books after a step.

    Args:
        books: As made by `begin_laps` or by this function.
        moved: Signed distance along the road in this step (B, N).
        length: Length of a lap (B, N).
        time: Seconds since the episode began, at the end of this step, broadcastable to (B, N).
        dt: Length of the step, seconds.
        on_road: Whether the car is on the road at the end of this step (B, N) bool.

    `lap_time` is the duration of the lap that ended in this step, 0 where none did that counts.
    """
    progress = books["progress"] + moved
    goal = (books["passed"] + 1) * length
    crossed = progress >= goal
    over = ((progress - goal) / moved.clamp(min=1e-9)).clamp(0.0, 1.0)
    when = time - over * dt
    clean = books["clean"] & on_road
    counts = crossed & clean
    return {
        "progress": progress,
        "passed": books["passed"] + crossed,
        "clean": clean | crossed,
        "laps": books["laps"] + counts,
        "lap_began": torch.where(crossed, when, books["lap_began"]),
        "lap_time": torch.where(counts, when - books["lap_began"], 0.0),
    }
