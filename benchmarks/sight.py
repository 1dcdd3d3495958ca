"""How far ahead a net can tell the road from what the camera sees, in plain and in other looks.

    python benchmarks/sight.py --encoder nature --minutes 10
    python benchmarks/sight.py --encoder small --size 48 30 --seed 1

Cars of the preset `donkey/any-track` are driven by a noisy scripted driver; a net like a policy's
encoder is asked for the state, picture by picture, each seen about once. Printed is the share of
the variance that it explains on tracks it was not taught on: of the speed, the room beside the car,
the heading and the road's curvature some metres ahead. Seeing is the larger part of driving from
pictures, and here it is measured in minutes on one core.
"""

import argparse
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from hotlap.config.presets import load_preset
from hotlap.config.strengths import find_randomisation
from hotlap.config.tasks import DonkeyConfig
from hotlap.learning.encoders import Nature, Small
from hotlap.learning.rollouts import channels_first
from hotlap.research.judged_looks import JUDGED_PAINT
from hotlap.research.teachers import make_eyes
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import COURSE, DonkeyTask
from hotlap.tasks.drivers import make_driver

TAUGHT = ("circuit:0-39", "hills:0-39")
JUDGED = ("circuit:80000-80015", "hills:80000-80015")
CARS, HELD, BATCH, BACK = 128, 8192, 256, 4
"""Cars, pictures held to choose from, pictures of a gradient step, control steps between frames."""
RATE = 5e-4
"""Learning rate, brought to 0 over the time given."""
ENCODERS = {"nature": Nature, "small": Small}
FEATURES = 384
TOLD = {"speed": 0, "room": 8, "heading": 6} | {
    f"curve {COURSE[k]:g} m": 12 + 2 * len(COURSE) + k for k in (2, 4, 5, 6, 7)
}
"""Where in the state the numbers stand that are printed."""

Moments = tuple[Tensor, Tensor]
"""Pictures (M, H, W, C) as bytes, and states (M, K)."""


class Traffic:
    """Cars on some tracks, and what they see beside what is known."""

    def __init__(self, settings: DonkeyConfig, seed: int) -> None:
        task = DonkeyTask(settings, torch.device("cpu"))
        self.env = BatchEnv(task, CARS, seed=seed)
        self.eyes = make_eyes(task, replace(settings, sensor="state"))
        self.driver = make_driver("racing_line", task)
        self.draw = torch.Generator().manual_seed(seed)
        self.frames = [self.env.reset()] * (BACK + 1)
        self.noise = torch.zeros(CARS, 2)
        self.loud = torch.rand(CARS, 1, generator=self.draw) * torch.tensor([0.6, 0.5])

    def step(self) -> Moments:
        shock = torch.randn(CARS, 2, generator=self.draw)
        self.noise = 0.85 * self.noise + 0.5 * shock
        action = self.driver(self.env.world).squeeze(1) + self.loud * self.noise
        seen = self.env.step(action.clamp(-1, 1)).observation
        self.frames = [*self.frames[1:], seen.clone()]
        told = self.eyes.present(self.eyes.observe(self.env.world)).flatten(1)
        return torch.cat([self.frames[-1], self.frames[0]], -1), told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--encoder", choices=tuple(ENCODERS), default="nature")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, nargs=2, default=(96, 60), metavar=("WIDTH", "HEIGHT"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)
    settings = load_preset(DonkeyConfig, "donkey/any-track")
    camera = replace(settings.camera, width=asked.size[0], height=asked.size[1])
    settings = replace(settings, tracks=TAUGHT, camera=camera)
    looks = replace(find_randomisation("looks,friction,delay"), paint=JUDGED_PAINT)
    plain = find_randomisation("none")
    judged = {
        name: gather(replace(settings, tracks=JUDGED, randomise=ways))
        for name, ways in (("plain", plain), ("looks", looks))
    }
    teach(make_net(asked.encoder, judged["plain"]), Traffic(settings, asked.seed), judged, asked)


def gather(settings: DonkeyConfig) -> Moments:
    """A few thousand moments of these worlds."""
    traffic = Traffic(settings, seed=7)
    moments = [traffic.step() for _ in range(600)][60::12]
    pictures, states = zip(*moments, strict=True)
    return torch.cat(pictures), torch.cat(states)


def make_net(encoder: str, sample: Moments) -> nn.Module:
    pictures, states = sample
    space = spaces.Box(0, 255, channels_first(pictures).shape[1:], np.uint8)
    eye = ENCODERS[encoder](space, FEATURES, standardise=True)
    return nn.Sequential(eye, nn.Linear(FEATURES, 256), nn.Tanh(), nn.Linear(256, states.shape[1]))


def teach(
    net: nn.Module, traffic: Traffic, judged: dict[str, Moments], asked: argparse.Namespace
) -> None:
    pictures, states = zip(*[traffic.step() for _ in range(HELD // CARS)], strict=True)
    held, known = torch.cat(pictures), torch.cat(states)
    mean, spread = known.mean(0), known.std(0) + 1e-3
    adam = torch.optim.Adam(net.parameters(), lr=RATE, eps=1e-5)
    began, place, steps, told = time.monotonic(), 0, 0, 0
    while (done := (time.monotonic() - began) / (60 * asked.minutes)) < 1:
        for _ in range(BATCH // CARS):
            seen, state = traffic.step()
            held[place : place + CARS], known[place : place + CARS] = seen, state
            place = (place + CARS) % HELD
        adam.param_groups[0]["lr"] = RATE * (1 - done)
        chosen = torch.randint(HELD, (BATCH,))
        target = ((known[chosen] - mean) / spread).clamp(-5, 5)
        loss = (net(channels_first(held[chosen]).float() / 255) - target).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        steps += 1
        if done * 4 > told + 1:
            told += 1
            tell(net, judged, mean, spread, steps, asked)
    tell(net, judged, mean, spread, steps, asked)


@torch.no_grad()
def tell(
    net: nn.Module,
    judged: dict[str, Moments],
    mean: Tensor,
    spread: Tensor,
    steps: int,
    asked: argparse.Namespace,
) -> None:
    """One line of JSON: what is explained of each number."""
    row: dict[str, Any] = {"encoder": asked.encoder, "seed": asked.seed, "size": [*asked.size]}
    row["pictures"] = steps * BATCH
    for name, (pictures, states) in judged.items():
        seen = channels_first(pictures)
        said = torch.cat([net(part.float() / 255) for part in seen.split(512)]) * spread + mean
        missing = (said - states).square().mean(0) / (states.var(0) + 1e-9)
        row[name] = {word: round(float(1 - missing[k]), 3) for word, k in TOLD.items()}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
