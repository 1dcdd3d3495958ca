"""What scripted drivers earn per step, and how far an honest one stays from the gate of v6.

    python benchmarks/scripted_rewards.py earn
    python benchmarks/scripted_rewards.py earn --rewards v5 v6 --max-cte 16
    python benchmarks/scripted_rewards.py gate

`earn` drives steps 100 to 500 of `generated_track` from the line, when the circler is on its circle
and the window of efficiency knows nothing else, and prints a table of mean rewards. `gate` drives
the eleven scenes and 130 generated tracks to the end of a lap or of the road and prints the lowest
efficiency on the way, from the line and from random starts. Both are what
`tests/tasks/test_donkey_rewards.py` measures, which asserts the signs and the gate on less.
"""

import argparse
from typing import Any

import torch
from torch import Tensor

from hotlap.config.tasks import DONKEY_REWARDS
from hotlap.sim.tracks import NAMES
from hotlap.sim.tracks.selection import expand
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.donkey_rewards import GATE, REWARDS
from hotlap.tasks.drivers import make_driver
from hotlap.tasks.efficiency import efficiency
from hotlap.tasks.registry import make_task

HONEST = ("centre_line", "pure_pursuit", "racing_line")
FILLED = 100
"""Steps after which the window holds nothing of the way to the circle."""
STEPS = 500
FAMILIES = ("road:0-29", "circuit:0-29", "hills:0-29", "eight:0-29", "circuit:0-9@0.9")
STARTS = ("line", "random")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    deeds = parser.add_subparsers(dest="deed", required=True)
    earn_ = deeds.add_parser("earn", help="print what drivers earn per step")
    earn_.add_argument("--rewards", nargs="+", choices=DONKEY_REWARDS, default=tuple(REWARDS))
    earn_.add_argument("--max-cte", type=float, default=8.0)
    deeds.add_parser("gate", help="print the lowest efficiency of honest drivers")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.deed == "earn":
        earn(asked.rewards, asked.max_cte)
    else:
        gate()


def earn(rewards: list[str], max_cte: float) -> None:
    """Print a row per driver, a column per reward."""
    print(f"| driver | {' | '.join(rewards)} |\n|{'---|' * (1 + len(rewards))}")
    for driver in ("circler", *HONEST):
        paid = [drive(reward, driver, STEPS, max_cte=max_cte)[FILLED:] for reward in rewards]
        print(f"| {driver} | {' | '.join(f'{own.mean():.3f}' for own in paid)} |", flush=True)


def gate() -> None:
    """Print a row per driver, a column per start."""
    tracks = (*NAMES, *expand(FAMILIES))
    print(f"{len(tracks)} tracks; the gate closes at {GATE}\n")
    print(f"| driver | {' | '.join(STARTS)} |\n|{'---|' * (1 + len(STARTS))}")
    for driver in HONEST:
        cells = []
        for start in STARTS:
            lowest = least_efficient(driver, tracks, start)
            where = min(lowest, key=lowest.__getitem__)
            crashed = ", ".join(name for name in tracks if name not in lowest)
            beside = f"; crashed on {crashed}" if crashed else ""
            cells.append(f"{lowest[where]:.3f} ({where}{beside})")
        print(f"| {driver} | {' | '.join(cells)} |", flush=True)


def drive(reward: str, driver: str, steps: int, **settings: Any) -> Tensor:
    """Rewards (steps, B) of a scripted driver that must not end."""
    task = _make_task(driver, reward=reward, max_steps=steps + 1, **settings)
    env = BatchEnv(task, len(task.roads.tracks))
    env.reset()
    act, rewards = make_driver(driver, task), []
    for _ in range(steps):
        step = env.step(act(env.world))
        assert not step.done.any()
        rewards.append(step.reward)
    return torch.stack(rewards)


def least_efficient(driver: str, tracks: tuple[str, ...], start: str) -> dict[str, float]:
    """The lowest that efficiency falls on the way to the end of a lap or of the road.

    By track, without those on which the driver crashes.
    """
    task = _make_task(driver, tracks=tracks, reward="v6", start=start, max_steps=6000)
    env, act = BatchEnv(task, len(tracks)), make_driver(driver, task)
    env.reset()
    lowest = torch.full((len(tracks),), torch.inf)
    over = torch.zeros(len(tracks), dtype=torch.bool)
    crashed = over.clone()
    while not over.all():
        step = env.step(act(env.world))
        found = efficiency(env.ended_world["window"]).squeeze(-1)
        lowest = torch.where(over, lowest, torch.minimum(lowest, found))
        crashed |= step.terminated & ~over
        over |= step.done | (step.metrics["progress"] >= task.roads.length)
    told = zip(tracks, lowest.tolist(), crashed.tolist(), strict=True)
    return {name: low for name, low, lost in told if not lost}


def _make_task(driver: str, **settings: Any) -> DonkeyTask:
    """The task, with brakes for who asks for them."""
    throttle_min = -1.0 if driver == "racing_line" else 0.0
    task = make_task("donkey-telemetry", throttle_min=throttle_min, **settings)
    assert isinstance(task, DonkeyTask)
    return task


if __name__ == "__main__":
    main()
