"""A replay that stays on the device, holding every frame once.

    T rows in a ring, B environments, N samples, K frames seen together (oldest first).
    row      number of a step of all environments since the beginning
    place    which environment
    number   of one step of one environment: row * B + place. It lies in slot number % (T * B), and
             the same environment's next step is B further on.
    age      steps since the episode began when a frame was seen                       (T, B)

Row t leads to row t + 1, so next observations need no room of their own. What was seen last before
an episode ended is not kept: a terminated row leads to nothing that matters, and a truncated row to
nothing that is known. So a truncated row is never learned from itself, and neither is the newest,
whose end is still to come. Sums of n rewards that would reach such a row stop before it and go on
from what was seen there, which is known.
"""

import math
from typing import NamedTuple

import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.preprocessing import get_action_dim, get_obs_shape
from torch import Tensor

from hotlap.learning.rollouts import tensor_kind
from hotlap.tasks.memory import refuse_if_too_large

SPARE = 2
"""Candidates drawn per sample, as some turn out to be rows that cannot be learned from."""


class Samples(NamedTuple):
    """What Stable-Baselines3 calls ReplayBufferSamples; the last three are (N, 1)."""

    observations: Tensor
    actions: Tensor
    next_observations: Tensor
    dones: Tensor
    """1 where the task ended, so that nothing comes after."""
    rewards: Tensor
    """Sums of up to n rewards, discounted."""
    discounts: Tensor
    """Of what comes after them."""


class Replay(BaseBuffer):
    """Steps to learn from, sampled evenly.

    Args:
        buffer_size: Steps held, all environments together.
        observation_space: What the policy sees: K frames together.
        action_space: Of one environment.
        device: Where everything lives.
        n_envs: B.
        stack: K. Where an episode is younger, its first frame is repeated.
        channels_first: Whether frames lie together along the first axis (pictures as policies take
            them) instead of the last.
        n_step: Rewards added up, at most.
        gamma: Discount per step.
        reward_scale: What rewards are multiplied by as they come.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        device: torch.device | str = "cpu",
        n_envs: int = 1,
        stack: int = 1,
        channels_first: bool = False,
        n_step: int = 1,
        gamma: float = 0.99,
        reward_scale: float = 1.0,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.stack, self.channels_first, self.n_step = stack, channels_first, n_step
        self.reward_scale = reward_scale
        self.rows = buffer_size // n_envs
        if self.rows < stack + n_step + 1:
            raise ValueError(
                f"a replay of {buffer_size} steps holds {self.rows} of each of {n_envs} "
                f"environments; at least {stack + n_step + 1} are needed"
            )
        self.bytes = self.bytes_needed(buffer_size, observation_space, action_space, n_envs, stack)
        self.frame_shape = self._frame_shape()
        steps = self.rows * n_envs
        hint = " (replay_size)"
        refuse_if_too_large(steps, f"steps of {self._size}", self.bytes, self.device, hint)

        def make(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
            return torch.zeros(self.rows, n_envs, *shape, dtype=dtype, device=self.device)

        self.frames = make(self.frame_shape, tensor_kind(observation_space))
        self.actions = make((self.action_dim,), tensor_kind(action_space))
        self.rewards = make((), torch.float32)
        self.terminated, self.truncated = make((), torch.bool), make((), torch.bool)
        self.ages = make((), torch.int32)
        powers = torch.arange(n_step + 1, dtype=torch.float64)
        self._powers = (gamma**powers).to(self.device, torch.float32)
        # Numbers between which is sampled. As Python's, a captured update would hold on to them.
        self._first, self._end = (
            torch.zeros((), dtype=torch.int64, device=self.device) for _ in range(2)
        )
        self.reset()

    def _frame_shape(self) -> tuple[int, ...]:
        """Of one frame of the K that the policy sees."""
        shape = list(self.obs_shape)
        axis = 0 if self.channels_first else -1
        if shape[axis] % self.stack:
            raise ValueError(
                f"observations of shape {self.obs_shape} are not {self.stack} frames side by side"
            )
        shape[axis] //= self.stack
        return tuple(shape)

    # --- memory --------------------------------------------------------------------------------

    @classmethod
    def bytes_needed(
        cls,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        n_envs: int = 1,
        stack: int = 1,
    ) -> int:
        """Memory that a replay takes; arguments are those of the class."""
        shape = get_obs_shape(observation_space)
        if isinstance(shape, dict):
            raise ValueError(
                "a replay holds one kind of observation, got a dictionary; "
                "flatten it first (gymnasium.wrappers.FlattenObservation)"
            )
        frame = math.prod(shape) // stack * tensor_kind(observation_space).itemsize
        action = get_action_dim(action_space) * tensor_kind(action_space).itemsize
        books = 4 + 1 + 1 + 4  # reward, terminated, truncated, age
        return buffer_size // n_envs * n_envs * (frame + action + books)

    def __str__(self) -> str:
        steps = f"{self.rows * self.n_envs:,} steps of {self._size}"
        return f"replay: {steps}, {self.bytes / 1e9:.2f} GB"

    @property
    def _size(self) -> str:
        """Of a frame, as people write it."""
        shape = self.frame_shape
        shape = (*shape[1:], shape[0]) if self.channels_first else shape
        return "x".join(map(str, shape))

    # --- writing -------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget everything."""
        self.written = self._begun = 0
        self._ready = False
        self._note()

    def add(
        self, seen: Tensor, action: Tensor, reward: Tensor, terminated: Tensor, truncated: Tensor
    ) -> None:
        """Write down one step of all environments: what was seen before it, and what came of it."""
        self.show(seen)
        self.tell(action, reward, terminated, truncated)

    def show(self, seen: Tensor) -> None:
        """Write down what is seen before a step; `tell` must follow."""
        self.frames[self.written % self.rows] = self._newest_frame(seen)

    def tell(self, action: Tensor, reward: Tensor, terminated: Tensor, truncated: Tensor) -> None:
        """Write down the step."""
        t = self.written % self.rows
        self.actions[t] = action.reshape(self.n_envs, self.action_dim)
        self.rewards[t] = reward * self.reward_scale
        self.terminated[t], self.truncated[t] = terminated, truncated
        if self.written == self._begun:
            self.ages[t] = 0
        else:
            before = t - 1  # of a ring: slot -1 is the last
            alive = ~(self.terminated[before] | self.truncated[before])
            self.ages[t] = (self.ages[before] + 1) * alive
        self.written += 1
        self._note()

    def cut(self, where: Tensor | None = None) -> None:
        """Nothing follows from the newest row: environments, or those of a mask, begin anew."""
        if self.written > self._begun:
            t = (self.written - 1) % self.rows
            alive = ~self.terminated[t]
            self.truncated[t] |= alive if where is None else alive & where

    def _newest_frame(self, seen: Tensor) -> Tensor:
        """The last of the frames that are seen together."""
        if self.stack == 1:
            return seen.reshape(self.n_envs, *self.frame_shape)
        if self.channels_first:
            return seen[:, -self.frame_shape[0] :]
        return seen[..., -self.frame_shape[-1] :]

    def _note(self) -> None:
        """Say which rows can be sampled: those whose stack is still whole, up to the newest."""
        self.pos = self.written % self.rows
        self.full = self.written - self._begun >= self.rows
        lowest = self.oldest + (self.stack - 1 if self.oldest else 0)
        newest = max(self.written - 1, lowest)
        self._first.fill_(lowest * self.n_envs)
        self._end.fill_(newest * self.n_envs)
        self._span = newest - lowest

    @property
    def oldest(self) -> int:
        """The first row that is still held."""
        return max(self._begun, self.written - self.rows)

    # --- saving --------------------------------------------------------------------------------

    def rows_since(self, count: int) -> dict[str, Tensor]:
        """Copies of the rows from number `count` on, or from `oldest` if that is later."""
        first = max(count, self.oldest)
        slots = torch.arange(first, self.written, device=self.device) % self.rows
        return {name: column.index_select(0, slots) for name, column in self._columns().items()}

    def put_rows(self, rows: dict[str, Tensor], first: int) -> None:
        """Write saved rows, of which the first has number `first`, after those held already."""
        if self.written == self._begun:
            self.written = self._begun = first
        elif first != self.written:
            raise ValueError(
                f"the replay goes on at row {self.written}, the saved rows begin at {first}"
            )
        else:  # environments may have been begun anew after the rows before were saved
            self.cut(rows["ages"][0].to(self.device) == 0)
        count = len(rows["rewards"])
        kept = min(count, self.rows)
        slots = torch.arange(first + count - kept, first + count, device=self.device) % self.rows
        for name, column in self._columns().items():
            column.index_copy_(0, slots, rows[name][count - kept :].to(self.device))
        self.written = first + count
        self._note()

    def _columns(self) -> dict[str, Tensor]:
        names = ("frames", "actions", "rewards", "terminated", "truncated", "ages")
        return {name: getattr(self, name) for name in names}

    # --- sampling ------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether there is anything to learn from."""
        if not self._ready and self._span:
            rows = torch.arange(self.written - 1 - self._span, self.written - 1) % self.rows
            self._ready = not bool(self.truncated[rows.to(self.device)].all())
        return self._ready

    def sample(self, batch_size: int, env: None = None) -> Samples:  # type: ignore[override]
        """Steps drawn evenly from all that can be learned from, by torch's own generator.

        Nothing waits for the device, and shapes do not depend on what is drawn.
        """
        draws = torch.rand(SPARE * batch_size, dtype=torch.float64, device=self.device)
        drawn = (draws * (self._end - self._first)).to(torch.int64) + self._first
        usable = ~self.truncated.view(-1)[self._slots(drawn)]
        chosen, found = first_of(drawn, usable, batch_size)
        samples = self._samples(chosen)
        # Rather no number at all than one learned from a row that leads nowhere.
        return samples._replace(rewards=torch.where(found > 0, samples.rewards, torch.nan))

    def at(self, rows: Tensor, places: Tensor) -> Samples:
        """The samples of given rows (N,) and places (N,)."""
        return self._samples(rows * self.n_envs + places)

    def _samples(self, numbers: Tensor) -> Samples:
        slots = self._slots(numbers)
        if self.n_step == 1:
            reward, over = self.rewards.view(-1)[slots], self.terminated.view(-1)[slots]
            after, discount = numbers + self.n_envs, self._powers[1].expand(len(numbers))
        else:
            reward, over, taken = self._add_up(numbers)
            after, discount = numbers + taken * self.n_envs, self._powers[taken]
        return Samples(
            observations=self._seen(numbers),
            actions=self.actions.flatten(0, 1).index_select(0, slots),
            next_observations=self._seen(after),
            dones=over.to(torch.float32).unsqueeze(1),
            rewards=reward.unsqueeze(1),
            discounts=discount.unsqueeze(1),
        )

    def _add_up(self, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sums of up to n rewards, whether they end in a termination, how many they are; (N,)."""
        ahead = torch.arange(self.n_step, device=self.device) * self.n_envs
        ahead = numbers.unsqueeze(1) + ahead  # (N, n)
        slots = self._slots(ahead)
        ended = self.terminated.view(-1)[slots]
        stop = self.truncated.view(-1)[slots] | (ahead >= self._end)
        stop[:, 1:] |= ended[:, :-1]
        taken = stop.cumsum(1) == 0
        reward = (self.rewards.view(-1)[slots] * taken * self._powers[:-1]).sum(1)
        return reward, (ended & taken).any(1), taken.sum(1)

    def _seen(self, numbers: Tensor) -> Tensor:
        """What the policy saw before steps (N,): frames put together as the environments do."""
        frames = self.frames.flatten(0, 1)
        slots = self._slots(numbers)
        if self.stack == 1:
            return frames.index_select(0, slots)
        back = torch.arange(self.stack - 1, -1, -1, device=self.device)
        back = torch.minimum(back, self.ages.view(-1)[slots].unsqueeze(1))  # (N, K)
        slots = self._slots(numbers.unsqueeze(1) - back * self.n_envs)
        found = frames.index_select(0, slots.flatten()).unflatten(0, slots.shape)
        if self.channels_first:
            return found.flatten(1, 2)
        return found.movedim(1, -2).flatten(-2)

    def _get_samples(self, batch_inds: Tensor, env: None = None) -> Samples:  # type: ignore[override]
        """Stable-Baselines3's name for it."""
        return self._samples(batch_inds)

    def _slots(self, numbers: Tensor) -> Tensor:
        """Where steps lie among all T * B."""
        return numbers % (self.rows * self.n_envs)


def first_of(drawn: Tensor, usable: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The first `count` usable ones among those drawn (repeated if fewer), and how many are usable.

    They are as evenly spread over all that is usable as draws repeated until one is usable.
    """
    order = usable.cumsum(0)
    found = order[-1]
    place = torch.where(usable & (order <= count), order - 1, count)
    chosen = drawn.new_zeros(count + 1).scatter_(0, place, drawn)
    again = torch.arange(count, device=drawn.device) % found.clamp(1, count)
    return chosen[again], found
