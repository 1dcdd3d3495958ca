"""How far CarRacing's twin is from Gymnasium's own, and how much faster.

    python benchmarks/carracing_twin.py drive --tracks 24 --frames 200
    python benchmarks/carracing_twin.py drive --tracks 24 --frames 200 --model zoo:carracing
    python benchmarks/carracing_twin.py speed
    python benchmarks/carracing_twin.py alone --device cuda --envs 4096 16384

`drive`: a script that sees the real car drives it, with slow noise and slides, or a model that sees
its pictures, as fast as it can; the twin gets the same actions and nothing else. Distance between
the two hulls, both returns, and gray levels by which the twin's picture differs from the real one.
`speed`: frames per second, each drawn and judged, of one real environment and of a batch of the
twin, in turns on one thread. `alone`: those of the twin by the clock, on 512 tracks, cars driven
apart by random actions, compiled and not.
"""

import argparse
import math
import os
import time
from typing import Any

import numpy as np
import torch

from hotlap.config.carracing import CarRacingConfig, controls
from hotlap.research.models import open_model
from hotlap.sim.carracing.catalogue import find_tile_tracks
from hotlap.sim.carracing.tile_track import TileTrack
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.bridges.carracing_frames import driver_view
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.interface import Reel

REACH = 5
"""Nodes ahead that the script drives to."""
WAYS = {"both": (False, True), "on": (True,), "off": (False,)}


def scripted(env: Any, track: TileTrack, rng: np.random.Generator, level: np.ndarray) -> np.ndarray:
    """Steering, gas and brake towards the road ahead, with noise that changes slowly."""
    x, y = env.car.hull.position
    node = (int(np.hypot(track.x - x, track.y - y).argmin()) + REACH) % len(track)
    aim = math.atan2(track.y[node] - y, track.x[node] - x) - env.car.hull.angle - math.pi / 2
    aim = (aim + math.pi) % (2 * math.pi) - math.pi
    level[:] = 0.95 * level + 0.2 * rng.normal(size=2)
    speed = math.hypot(*env.car.hull.linearVelocity)
    brake = 0.5 * level[1] - 0.4 if speed > 20 else 0.0
    action = [-2 * aim + 0.3 * level[0], 0.3 * (speed < 45) + 0.4 * level[1], brake]
    return np.clip(action, [-1, 0, 0], 1).astype(np.float32)


class Script:
    """A script at the wheel; `scripted` says how it drives."""

    def __init__(self, seed: int, track: TileTrack) -> None:
        self.track, self.rng, self.level = track, np.random.default_rng(seed), np.zeros(2)

    def __call__(self, env: Any, picture: np.ndarray) -> np.ndarray:
        """Steering, gas and brake."""
        return scripted(env, self.track, self.rng, self.level)


class Pilot:
    """A model at the wheel, which sees a picture whenever it decides."""

    def __init__(self, name: str) -> None:
        model = open_model(name)
        assert model.run is not None and isinstance(model.run.settings, CarRacingConfig)
        self.config, seen = model.run.settings, model.run.interface
        self.driver = model.driver()
        self.reel = Reel(seen.stack, seen.stack_every)
        self.frame = 0
        self.action = np.zeros(3, np.float32)

    def __call__(self, env: Any, picture: np.ndarray) -> np.ndarray:
        """Steering, gas and brake."""
        if self.frame % self.config.repeat == 0:
            view = torch.tensor(driver_view(picture[None], self.config))
            nobody = torch.zeros(1, dtype=torch.bool)
            seen = self.reel.add(view, nobody) if self.frame else self.reel.begin(view)
            chosen = self.driver(seen)[0].tolist()
            self.action = np.array(controls(chosen, self.config), np.float32)
        self.frame += 1
        return self.action


def drive(seed: int, frames: int, model: str | None) -> dict[str, Any]:
    """The same actions in both; in the real one they are chosen."""
    from gymnasium.envs.box2d.car_racing import CarRacing

    config = CarRacingConfig(tracks=(f"carracing:{seed}",), actions="triple")
    (track,) = find_tile_tracks(config.tracks)
    env: Any = CarRacing()
    picture, _ = env.reset(seed=seed)
    batch = BatchEnv(CarRacingTask(config), 1)
    batch.reset()
    driver = Script(seed, track) if model is None else Pilot(model)
    apart, paid, levels, fastest = [], [], [], 0.0
    for _ in range(frames):
        action = driver(env, picture)
        picture, reward, over, _, _ = env.step(action)
        fastest = max(fastest, env.car.hull.linearVelocity.length)
        step = batch.step(torch.tensor(action)[None])
        x, y = env.car.hull.position
        apart.append(math.hypot(x - step.metrics["x"][0], y - step.metrics["y"][0]))
        paid.append((reward, float(step.reward[0])))
        if over or step.terminated[0]:
            break
        seen = driver_view(picture[None], config)[0].astype(int)
        levels.append(np.abs(seen - step.observation[0].numpy().astype(int)).mean())
    env.close()
    real, ours = np.array(paid).T
    return {
        "tiles": len(track),
        "apart": [apart[min(when, len(apart)) - 1] for when in (50, 100, 200, frames)],
        "returns": (real.sum(), ours.sum()),
        "levels": float(np.mean(levels)),
        "fastest": fastest,
    }


def show_drives(tracks: int, frames: int, model: str | None) -> None:
    print("| seed | tiles | fastest | apart after 50 | 100 | 200 | at the end | return | twin "
          "| gray levels |")  # fmt: skip
    print("|---" * 10 + "|")
    found = []
    for seed in range(tracks):
        row = drive(seed, frames, model)
        found.append(row)
        cells = [f"{value:.4f}" for value in row["apart"]]
        cells += [f"{value:.1f}" for value in row["returns"]] + [f"{row['levels']:.2f}"]
        print(
            f"| {seed} | {row['tiles']} | {row['fastest']:.1f} | " + " | ".join(cells) + " |",
            flush=True,
        )
    apart = np.array([row["apart"] for row in found])
    print("median apart", np.median(apart, 0).round(4), "worst", apart.max(0).round(4))
    equal = sum(abs(a - b) < 0.05 for a, b in (row["returns"] for row in found))
    print(f"{equal} of {tracks} returns equal to 0.05;", end=" ")
    print(f"gray levels apart {np.mean([row['levels'] for row in found]):.2f}")


def show_speed(rounds: int, num_envs: int) -> None:
    from gymnasium.envs.box2d.car_racing import CarRacing

    env = CarRacing()
    env.reset(seed=0)
    batches = {
        name: BatchEnv(
            CarRacingTask(CarRacingConfig(tracks=("carracing:0-15",)), compiled=name != "twin"),
            num_envs,
            borrow=True,
        )
        for name in ("twin", "twin, compiled")
    }
    action = torch.tensor([[0.02, 0.1]]).repeat(num_envs, 1)
    for batch in batches.values():
        batch.reset()
        batch.step(action)
    rates: dict[str, list[float]] = {"gymnasium": [], **{name: [] for name in batches}}
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(100):
            env.step(np.array([0.02, 0.1, 0.0]))
        rates["gymnasium"].append(100 / (time.process_time() - began))
        for name, batch in batches.items():
            began = time.process_time()
            for _ in range(20):
                batch.step(action)
            rates[name].append(20 * num_envs / (time.process_time() - began))
    base = np.median(rates["gymnasium"])
    for name, each in rates.items():
        print(f"{name}: {np.median(each):,.0f} frames/s, {np.median(each) / base:.0f}x")


def show_alone(device: str, counts: list[int], seconds: float, ways: tuple[bool, ...]) -> None:
    config = CarRacingConfig(tracks=("carracing:0-511",))
    for num_envs in counts:
        for compiled in ways:
            began = time.perf_counter()
            task = CarRacingTask(config, device=device, compiled=compiled)
            task.draw_tracks()
            batch = BatchEnv(task, num_envs, borrow=True, captured=True)
            batch.reset()
            actions = torch.rand(16, num_envs, 2, device=device) * 2 - 1
            for action in actions:
                batch.step(action)
            _wait(device)
            ready = time.perf_counter()
            frames = 0
            while time.perf_counter() - ready < seconds:
                for action in actions:
                    batch.step(action)
                _wait(device)
                frames += len(actions) * num_envs
            rate = frames / (time.perf_counter() - ready)
            print(f"{num_envs} cars, {'compiled' if compiled else 'not compiled'}: {rate:,.0f} "
                  f"frames/s, ready after {ready - began:.0f} s", flush=True)  # fmt: skip


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


if __name__ == "__main__":
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["drive", "speed", "alone"])
    parser.add_argument("--tracks", type=int, default=24)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--model", help="who drives, in place of the script")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--envs", type=int, nargs="+", default=[64])
    parser.add_argument("--device", default="cpu", help="of `alone`")
    parser.add_argument("--seconds", type=float, default=5.0, help="of `alone`, each")
    parser.add_argument("--compiled", choices=list(WAYS), default="both", help="of `alone`")
    args = parser.parse_args()
    if args.what == "drive":
        show_drives(args.tracks, args.frames, args.model)
    elif args.what == "speed":
        for num_envs in args.envs:
            show_speed(args.rounds, num_envs)
    else:
        show_alone(args.device, args.envs, args.seconds, WAYS[args.compiled])
