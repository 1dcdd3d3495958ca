"""Playing the first episode of many environments, and writing down how each went.

B environments at once, T steps until their first episodes have ended.
log   what was told of every step, by name   (T, B)
own   what was told of one episode, by name  (length,)
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from hotlap.evaluation.lap_books import LapBook, Road, read_crossings, read_laps
from hotlap.records import End, EpisodeResult
from hotlap.tasks.adapters.arrays import Array, to_array
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.interface import Interface
from hotlap.tasks.task import Task

Env = BatchEnv | Interface
Policy = Callable[[Tensor], Tensor]
"""From observations (B, ...), as the environments give them, to actions as they take them."""
TOLD = (
    "speed", "forward_vel", "cte", "laps", "lap_time", "progress", "s", "passed", "over_edge",
    "hit", "tiles",
)  # fmt: skip
"""Metrics that are written down, where a task has them."""
LOST = ("crashed", "spun")
"""Ends that have a place."""
SPINNING = 0.5
"""Sideways speed from which a car that does not go forwards has spun and not stopped, m/s."""
LOOK_EVERY = 32
"""On a GPU, steps between looks whether all have ended: looking makes it wait."""


def play(policy: Policy, env: Env, counted: int, keep: bool) -> dict[str, Array]:
    """Every step (T, B) by name, until the first episodes of the first `counted` have ended."""
    if env.task.seats != 1:
        raise ValueError(f"task {env.task.name} has {env.task.seats} seats, a judged policy one")
    every = 1 if env.task.device.type == "cpu" else LOOK_EVERY
    pages = []
    over = torch.zeros(counted, dtype=torch.bool, device=env.task.device)
    with torch.no_grad():
        observation = env.reset()
        for number in range(1, env.task.max_steps + 1):
            step = env.step(policy(observation))
            observation = step.observation
            columns = _columns(step, keep)
            pages.append(torch.stack(list(columns.values())))  # a copy: steps may be borrowed
            over |= step.done[:counted]
            if number % every == 0 and bool(over.all()):
                break
    book = to_array(torch.stack(pages, 1)).astype(np.float64)  # (K, T, B)
    return dict(zip(columns, book, strict=True))


def _columns(step: Step, keep: bool) -> dict[str, Tensor]:
    """What is written down of a step, each (B,) float32."""
    told = {name: step.metrics[name] for name in TOLD if name in step.metrics}
    if keep and "pos" in step.metrics and {"speed", "s", "over_edge"} <= told.keys():
        told |= {"x": step.metrics["pos"][:, 0], "y": step.metrics["pos"][:, 1]}
    told |= {"return": step.episode_return, "terminated": step.terminated, "done": step.done}
    return {name: value.to(torch.float32) for name, value in told.items()}


def first_episode(log: dict[str, Array], place: int) -> dict[str, Array]:
    """The steps (length,) of the first episode at `place` in the batch."""
    done = log["done"][:, place] > 0
    if not done.any():
        raise RuntimeError(f"an episode went on beyond the {len(done)} steps that its task allows")
    length = int(done.argmax()) + 1
    return {name: column[:length, place] for name, column in log.items()}


def tell(
    own: dict[str, Array], task: Task, identity: int, seed: int, track: str | None
) -> EpisodeResult:
    """How the episode with these steps went."""
    last = {name: float(column[-1]) for name, column in own.items()}
    length = len(own["done"])
    end = _end(bool(last["terminated"]), length < task.max_steps, on_road="cte" in own)
    if end == "crashed" and isinstance(task, DonkeyTask) and task.config.end == "road":
        # It ends there too where a car stands, reverses or spins, still on the road in part.
        near = abs(last["cte"]) <= task.config.max_cte and last["over_edge"] < task.vehicle.width
        if near and not last["hit"]:
            sideways = last["speed"] ** 2 - last["forward_vel"] ** 2
            end = "spun" if sideways > SPINNING**2 else "stopped"
    book = _lap_book(own, end, task, identity)
    return EpisodeResult(
        identity=identity,
        seed=seed,
        track=track,
        episode_return=last["return"],
        length=length,
        seconds=length * task.control_dt,
        laps=None if book is None else book.laps,
        laps_begun=None if book is None else book.begun,
        lap_times=None if book is None else book.times,
        flying_lap_times=None if book is None else book.flying,
        over_edge=float((own["over_edge"] > 0).mean()) if "over_edge" in own else None,
        tiles=last.get("tiles"),
        mean_abs_cte=float(np.abs(own["cte"]).mean()) if "cte" in own else None,
        mean_speed=float(own["speed"].mean()) if "speed" in own else None,
        progress=last.get("progress"),
        end=end,
        crash_s=last.get("s") if end in LOST else None,
    )


def _lap_book(own: dict[str, Array], end: End, task: Task, identity: int) -> LapBook | None:
    """The laps of an episode, where its task has roads."""
    if not isinstance(task, DonkeyTask):
        # An episode of CarRacing is one lap, whoever ended it.
        least = int("tiles" in own)
        return read_crossings(own, end, least) if "lap_time" in own else None
    track = task.roads.tracks[identity % len(task.roads.tracks)]
    at_rest = task.config.start == "line"
    road = Road(track.length, track.closed, at_rest, task.vehicle.width, task.control_dt)
    return read_laps(own, end, road)


def _end(terminated: bool, early: bool, on_road: bool) -> End:
    """Why an episode ended; road tasks terminate only where a car leaves the road or hits a wall.

    Args:
        terminated: Whether the task ended it.
        early: Whether there was time left.
        on_road: Whether the task is one of roads.
    """
    if terminated:
        return "crashed" if on_road else "ended"
    return "road end" if on_road and early else "time"
