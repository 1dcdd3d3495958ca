"""How a learner meets a batch: discrete actions in place of continuous ones, and stacked frames.

    B environments, K frames seen together, oldest first along the last axis; they may lie several
    steps apart, which shows slow motion better than as many in a row.

Training and evaluation build the same `Interface` from the same settings, which lie beside every
saved model: a policy can only be judged through the wrapper it learned with.
"""

from dataclasses import replace
from functools import reduce
from operator import or_

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from hotlap.config.interface import InterfaceConfig
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.task import State, Task, compiled, map_tree

BYTES = 4
"""In a word of memory."""


class Interface:
    """A batch as a learner drives it; offers what `BatchEnv` does.

    Args:
        batch: The environments; one seat each.
        config: What stands between them and the learner.
    """

    def __init__(self, batch: BatchEnv, config: InterfaceConfig) -> None:
        if batch.task.seats != 1:
            raise ValueError(f"task {batch.task.name} has {batch.task.seats} seats, a learner one")
        self.batch = batch
        self.config = config
        self.task: Task = batch.task
        self.num_envs = batch.num_envs
        self.device = batch.task.device
        self.table: Tensor | None = None
        self.action_space: spaces.Space = self.task.action_space
        if config.actions == "discrete":
            own = self.task.action_table
            table = action_table(self.task.action_space, config) if own is None else own
            self.table = table.to(self.device)
            self.action_space = spaces.Discrete(len(self.table))
        self.observation_space = stacked_space(self.task.observation_space, config.stack)
        self._reel: Reel | None = None
        if config.stack > 1:
            fused = self.task.compiled and len(self.task.observation_space.shape) == 3
            self._reel = Reel(config.stack, config.stack_every, fused)

    def reset(self, seed: int | None = None, mask: Tensor | None = None) -> Tensor:
        """Begin anew: everything, or with a mask (B,) only those, at their next episode."""
        first = self.batch.reset(seed, mask)
        if self._reel is None:
            return first
        if mask is None or not self._reel.begun:
            return self._reel.begin(first)
        return self._reel.begin_some(first, mask.to(self.device))

    def step(self, action: Tensor) -> Step:
        """Advance every environment by one control step."""
        if self.table is not None:
            action = self.table[action.flatten().to(self.device, torch.int64)]
        step = self.batch.step(action)
        if self._reel is None:
            return step
        return replace(step, observation=self._reel.add(step.observation, step.done))

    def final_observation(self, index: Tensor) -> Tensor:
        """What environments `index` (K,) saw last before the latest step began them anew."""
        if self._reel is None:
            return self.batch.final_observation(index)
        before = self._reel.before(index)
        ended = map_tree(lambda leaf: leaf[index], self.batch.ended_world)
        return torch.cat([before, self.batch.look(ended)], -1)

    def look(self, world: State, seen_before: Tensor) -> Tensor:
        """What is seen in any number of worlds, the step before which `seen_before` was seen.

        Where frames lie several steps apart, all but the newest are a step older than usual.
        """
        frame = self.batch.look(world)
        if self._reel is None:
            return frame
        size = frame.shape[-1]
        kept = seen_before[..., size:] if self.config.stack_every == 1 else seen_before[..., :-size]
        return torch.cat([kept, frame], -1)

    @property
    def world(self) -> State:
        """The task's own state, as it is now."""
        return self.batch.world

    def save_state(self) -> State:
        """A copy of everything that decides the future."""
        saved = self.batch.save_state()
        if self._reel is not None and self._reel.begun:
            saved["seen"] = self._reel.save()
        return saved

    def load_state(self, saved: State) -> Tensor:
        """Go on from a saved state; returns what is seen there."""
        frame = self.batch.load_state(saved)
        return frame if self._reel is None else self._reel.load(saved["seen"], self.device)


class Reel:
    """The latest frames of every environment.

    They lie in a ring, and an environment that began anew is told apart by its age: older than its
    first frame, that first one is seen. So a step writes one frame, however many are kept.

    Args:
        stack: K.
        every: Steps between two of them.
        fused: Find and interleave frames in one compiled pass, four bytes at a time where rows of
            pixels allow it: without a compiler, and byte by byte, that takes longer than drawing
            them.
    """

    def __init__(self, stack: int, every: int, fused: bool = False) -> None:
        self.lags = [every * back for back in range(stack - 1, -1, -1)]
        """Steps back to each frame, oldest first."""
        self.length = self.lags[0] + 1
        self._ring = torch.empty(0)
        self._everybody = torch.empty(0)
        self._back = torch.empty(0)
        self._age = torch.empty(0)
        self._old_age = torch.empty(0)
        self._newest = 0
        self._places: list[Tensor] = []
        """Every place in the ring (), as a tensor: as numbers, each would be compiled for."""
        self._find_all = compiled(_find_fast) if fused else find_frames

    @property
    def begun(self) -> bool:
        """Whether there is any frame."""
        return len(self._ring) > 0

    def begin(self, first: Tensor) -> Tensor:
        """Everybody sees a first frame (B, ..., C); returns (B, ..., K * C)."""
        self._ring = first.new_zeros(self.length, *first.shape)
        self._ring[0] = first
        self._age = torch.zeros(len(first), dtype=torch.int64, device=first.device)
        self._old_age, self._newest = torch.empty(0), 0
        return self._begun()

    def begin_some(self, first: Tensor, mask: Tensor) -> Tensor:
        """Those in a mask (B,) see a first frame, the others what they saw."""
        wide = mask.view(-1, *[1] * (first.dim() - 1))
        self._ring[self._newest] = torch.where(wide, first, self._ring[self._newest])
        self._age = torch.where(mask, 0, self._age)
        return self._seen()

    def add(self, frame: Tensor, done: Tensor) -> Tensor:
        """Everybody sees a next frame, which is a first one where `done` (B,)."""
        if not self.begun:
            raise RuntimeError("the batch has not begun; call reset first")
        self._newest = (self._newest + 1) % self.length
        self._ring[self._newest] = frame
        self._old_age = self._age
        self._age = torch.where(done, 0, self._age + 1)
        return self._seen()

    def before(self, index: Tensor) -> Tensor:
        """All but the newest of what `index` (N,) would see had the latest step begun nothing."""
        if not len(self._old_age):
            raise RuntimeError("there is no step to look back on; call step first")
        newest, age = self._places[self._newest], self._old_age[index] + 1
        return find_frames(self._ring, newest, self._back[:-1], index, age)

    def save(self) -> State:
        """A copy of all of it."""
        # The oldest first, so that it does not matter where the ring began.
        ring = self._ring.roll(-self._newest - 1, 0)
        return {"ring": ring, "age": self._age.clone()}

    def load(self, saved: State, device: torch.device) -> Tensor:
        """Go on from a copy; returns what is seen there."""
        self._ring, self._age = (saved[name].to(device).clone() for name in ("ring", "age"))
        self._old_age, self._newest = torch.empty(0), self.length - 1
        return self._begun()

    def _begun(self) -> Tensor:
        """Make what every step needs; returns what is seen."""
        self._everybody = torch.arange(len(self._age), device=self._age.device)
        self._back = torch.tensor(self.lags, device=self._age.device).unsqueeze(-1)  # (K, 1)
        places = range(self.length)
        self._places = [torch.tensor(place, device=self._age.device) for place in places]
        return self._seen()

    def _seen(self) -> Tensor:
        newest = self._places[self._newest]
        return self._find_all(self._ring, newest, self._back, self._everybody, self._age)


def find_frames(ring: Tensor, newest: Tensor, back: Tensor, who: Tensor, age: Tensor) -> Tensor:
    """Frames (N, ..., L * C) of a ring (R, B, ..., C), none beyond its owner's age.

    Args:
        ring: Of all environments, one step after the other.
        newest: Place of the latest ().
        back: Steps back to each (L, 1).
        who: Whose (N,).
        age: Steps since their episodes began (N,).
    """
    found = ring[(newest - back.minimum(age)) % len(ring), who]
    return found.movedim(0, -2).flatten(-2)


def find_frames_by_words(
    ring: Tensor, newest: Tensor, back: Tensor, who: Tensor, age: Tensor
) -> Tensor:
    """What `find_frames` finds, of pictures (R, B, H, W, C) of bytes whose width is in fours.

    Four pixels of a frame are C words; interleaved with those of the other frames, they are L * C.
    """
    channels, frames = ring.shape[-1], len(back)
    words = ring.flatten(-2).view(torch.int32).unflatten(-1, (-1, channels))
    found = words[(newest - back.minimum(age)) % len(ring), who]  # (L, N, H, W / 4, C)

    def byte(place: int) -> Tensor:
        pixel, rest = divmod(place, frames * channels)
        frame, channel = divmod(rest, channels)
        word, within = divmod(pixel * channels + channel, BYTES)
        return (found[frame, ..., word] >> (8 * within)) & 255

    woven = [
        reduce(or_, (byte(first + k) << (8 * k) for k in range(BYTES)))
        for first in range(0, BYTES * frames * channels, BYTES)
    ]
    pixels = torch.stack(woven, -1).flatten(-2).view(torch.uint8)
    return pixels.unflatten(-1, (-1, frames * channels))


def _find_fast(ring: Tensor, newest: Tensor, back: Tensor, who: Tensor, age: Tensor) -> Tensor:
    """What `find_frames` finds, for a compiler."""
    by_words = ring.shape[-2] % BYTES == 0
    return (find_frames_by_words if by_words else find_frames)(ring, newest, back, who, age)


def action_table(space: spaces.Box, config: InterfaceConfig) -> Tensor:
    """Continuous actions (n_steer * n_throttle, 2), steering slowest, both evenly from low to high.

    Index 7 of 5 x 3 is the middle steering with half the throttle's range.
    """
    if space.shape != (2,):
        raise ValueError(
            f"only actions of two numbers (steering, throttle) can be made discrete, "
            f"got shape {space.shape}; use a learner for continuous actions, such as ppo or sac"
        )
    counts = (config.n_steer, config.n_throttle)
    axes = [
        np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])
        for low, high, count in zip(space.low, space.high, counts, strict=True)
    ]
    steer, throttle = np.meshgrid(*axes, indexing="ij")
    return torch.tensor(np.stack([steer.ravel(), throttle.ravel()], -1), dtype=torch.float32)


def encode_action(table: Tensor, action: Tensor) -> Tensor:
    """Index (B,) of the discrete action nearest to each continuous one (B, 2)."""
    return torch.cdist(action, table).argmin(-1)


def stacked_space(space: spaces.Box, stack: int) -> spaces.Box:
    """The space of `stack` observations side by side along the last axis."""
    low, high = (np.concatenate([end] * stack, -1) for end in (space.low, space.high))
    return spaces.Box(low, high, dtype=space.dtype.type)  # type: ignore[arg-type]
