"""Cars in simulators, driven together: what a batch of our own environments is to a learner.

    B cars, each in a simulator (or a world of one) of its own.

All commands are sent before any answer is waited for, so a step takes as long as the slowest of the
simulators and not as all of them together. A car whose simulator goes away ends the step with
`SimulatorGone`; where an episode begins, a simulator that came back is found again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.bridges import BridgeConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.sim.random import Stream, make_key, uniform
from hotlap.sim.tracks.selection import expand
from hotlap.tasks.bridges.outside_batch import OutsideBatch, OutsideTask
from hotlap.tasks.bridges.verdicts import (
    has_end,
    has_run_out,
    judge_sights,
    metrics_of,
    refuse_untold,
)
from hotlap.tasks.bridges.wire_car import Sight, WireCar
from hotlap.tasks.task import Outcome, State, episode_key

CONTROL_DT = 0.05
"""Simulated seconds between two pictures."""
FARTHEST_START = 0.8
"""Share of an open road within which cars begin that may begin anywhere."""
MOST_WAITS = 100_000
"""Latest waits for a picture that are remembered."""

Found = TypeVar("Found")


def camera_spaces(config: DonkeyConfig) -> tuple[spaces.Box, spaces.Box]:
    """What a driver sees and does: the donkey task's own spaces."""
    low = np.array([-config.steer_limit, config.throttle_min], dtype=np.float32)
    high = np.array([config.steer_limit, config.throttle_max], dtype=np.float32)
    return spaces.Box(0, 255, config.camera.shape, np.uint8), spaces.Box(low, high)


class WireTask(OutsideTask):
    """The donkey task with a camera, in simulators over the wire.

    Episodes begin at rest and look as the simulator draws them. In `hotlap serve` they begin where
    the settings say, on the line or anywhere; in Unity's simulator always at the start.

    Args:
        config: The task's settings.
        bridge: Where the simulators are.
        device: Where observations and rewards go.
        cars: Those of another task, to be driven with other settings.
    """

    name = "donkey"

    def __init__(
        self,
        config: DonkeyConfig,
        bridge: BridgeConfig,
        device: torch.device | str = "cpu",
        cars: Sequence[WireCar] = (),
    ) -> None:
        refuse_untold(config)
        self.config = config
        self.bridge = bridge
        self.device = torch.device(device)
        self.control_dt = CONTROL_DT
        self.max_steps = config.max_steps
        self.scenes = expand(config.tracks)
        self.observation_space, self.action_space = camera_spaces(config)
        self.cars = tuple(cars) or tuple(
            WireCar(address, config.camera, bridge) for address in bridge.addresses
        )
        self.waits: deque[float] = deque(maxlen=MOST_WAITS)
        """Seconds from a command to the picture that answers it."""
        self._scene = [""] * len(self.cars)

    def begin(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> State:
        """The first `len(who)` cars at their starts."""
        return self.begin_some(range(len(who)), seed, who, episode)

    def begin_some(
        self, places: Sequence[int], seed: int | Tensor, who: Tensor, episode: Tensor
    ) -> State:
        """Some cars (K,) at their starts; identities (K,) say on which scenes."""
        along = self._starts(seed, who, episode)
        calls = []
        for place, identity, begin in zip(places, who.tolist(), along, strict=True):
            scene = self._scene[place] = self.scenes[identity % len(self.scenes)]
            calls.append(partial(self.cars[place].reset, scene, begin))
        return self._state(_together(calls))

    def _starts(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> list[float]:
        """Where along the road each car begins, as a share of it."""
        if self.config.start == "line":
            return [0.0] * len(who)
        key = make_key(episode_key(seed, who, episode), Stream.START)
        scenes = [self.scenes[identity % len(self.scenes)] for identity in who.tolist()]
        draws = zip(uniform(key, 1).squeeze(-1).tolist(), scenes, strict=True)
        return [draw * FARTHEST_START if has_end(scene) else draw for draw, scene in draws]

    def advance(self, state: State, action: Tensor) -> Outcome:
        """Send every car its command, then wait for what they all see."""
        low, high = (
            torch.as_tensor(end) for end in (self.action_space.low, self.action_space.high)
        )
        told = torch.maximum(torch.minimum(action[:, 0].cpu(), high), low).tolist()
        cars = self.cars[: len(told)]
        for car, (steering, throttle) in zip(cars, told, strict=True):
            car.send(steering, throttle)
        sights = []
        for car in cars:
            sights.append(car.receive())
            self.waits.append(car.waited)
        terms, over = judge_sights(self.config, sights)
        ends = zip(self._scene, sights, strict=False)
        cut = torch.tensor([has_run_out(scene, sight.telemetry) for scene, sight in ends])
        return Outcome(
            state=self._state(sights),
            terms={name: term.to(self.device) for name, term in terms.items()},
            terminated=over.to(self.device),
            cut=cut.to(self.device),
            metrics={name: v.to(self.device) for name, v in metrics_of(sights).items()},
        )

    def observe(self, state: State) -> Tensor:
        """Pictures (B, 1, H, W, C)."""
        seen: Tensor = state["picture"]
        return seen.unsqueeze(1)

    def _state(self, sights: Sequence[Sight]) -> State:
        pictures = np.stack([sight.picture for sight in sights])
        return {"picture": torch.from_numpy(pictures).to(self.device)}

    def close(self) -> None:
        """Leave all simulators."""
        for car in self.cars:
            car.close()


class WireBatch(OutsideBatch):
    """A batch of cars over the wire, for whatever takes a `BatchEnv`.

    Args:
        task: The cars.
        num_envs: How many of them, from the first on.
        seed: With identity and episode, decides where a car begins.
        who: Identities (B,), which say on which scenes they drive.
    """

    task: WireTask

    def __init__(
        self, task: WireTask, num_envs: int, seed: int = 0, who: Tensor | None = None
    ) -> None:
        if num_envs > len(task.cars):
            raise ValueError(
                f"{num_envs} environments need as many addresses, got {len(task.cars)}"
            )
        super().__init__(task, num_envs, seed, who)

    def reset(self, seed: int | None = None, mask: Tensor | None = None) -> Tensor:
        """Begin anew: everything, or with a mask (B,) of everybody, at their next episode."""
        if mask is not None and not bool(mask.all()):
            raise ValueError("cars over the wire begin all together, or each at its episode's end")
        return super().reset(seed, mask)

    def load_state(self, saved: State) -> Tensor:
        """Refused: a simulator cannot be put back."""
        raise RuntimeError("a simulator over the wire cannot be put back to a saved state")


def _together(calls: Sequence[Callable[[], Found]]) -> list[Found]:
    """Make calls at the same time; the first error is raised once all have ended."""
    if len(calls) == 1:
        return [calls[0]()]
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
