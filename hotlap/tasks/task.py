"""What every task offers, as pure functions of tensors.

    B environments, S seats (cars driven from outside) in each.
    who      identity of an environment; with the seed it decides all that will happen  (B,) int64
    episode  how many episodes the environment has begun before                          (B,) int64
    state    nested dict of tensors, each (B, ...)
    terms    reward by name, already weighted, each (B, S); the reward is their sum

`begin`, `advance` and `observe` treat environments independently and never branch on data, so a
task runs eager, compiled and captured, alone and in any batch, to the same numbers.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from hotlap.sim.random import make_key

State = dict[str, Any]
"""Tensors, or dicts of them."""


@dataclass(frozen=True)
class Outcome:
    """What one control step did."""

    state: State
    terms: dict[str, Tensor]
    """Weighted reward terms (B, S)."""
    terminated: Tensor
    """The task ended: crashed, caught, finished (B,) bool."""
    cut: Tensor
    """It was cut off by something other than the clock, such as the end of a road (B,) bool."""
    metrics: dict[str, Tensor]
    """What is worth knowing about this step (B,) or (B, S)."""


class Task(ABC):
    """A composition of world, vehicle, sensor, reward and ending rules."""

    name: str
    observation_space: gym.spaces.Box
    """Of one seat."""
    action_space: gym.spaces.Box
    """Of one seat."""
    action_table: Tensor | None = None
    """Actions (K, A) to choose from, where a task has its own discrete ones."""
    seats: int = 1
    control_dt: float
    max_steps: int
    device: torch.device
    compiled: bool = False
    """Whether steps and pictures go through torch.compile."""
    staged: bool = False
    """Whether `observe` compiles its own stages, and must not be compiled whole."""
    stages_steps: bool = False
    """Whether `advance` does so too, and `begin` is better left as it is."""

    @abstractmethod
    def begin(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> State:
        """Fresh episodes, decided by (seed, who, episode) alone; the seed may be a tensor ()."""

    @abstractmethod
    def advance(self, state: State, action: Tensor) -> Outcome:
        """One control step under actions (B, S, A)."""

    @abstractmethod
    def observe(self, state: State) -> Tensor:
        """What each seat sees (B, S, ...), perhaps packed."""

    def present(self, observed: Tensor) -> Tensor:
        """What `observe` returned, as the observation space has it; costs nothing."""
        return observed

    def close(self) -> None:
        """Let go of what lies outside this process; most tasks have nothing there."""
        return

    @property
    def bytes_per_env(self) -> int:
        """Memory one environment takes while stepping: its state, observation and working space."""
        space = self.observation_space
        size = math.prod(space.shape) * space.dtype.itemsize
        return 4096 + 3 * size * self.seats


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of fixed shapes, compiled as a whole."""
    return torch.compile(function, dynamic=False, fullgraph=True)


def episode_key(seed: int | Tensor, who: Tensor, episode: Tensor) -> Tensor:
    """The key (B,) that all draws of an episode come from; a seed counts in all its 64 bits."""
    seed = torch.as_tensor(seed, dtype=torch.int64, device=who.device)
    return make_key(who, seed & 0xFFFFFFFF, seed >> 32, episode)


def map_tree(function: Callable[..., Tensor], *trees: Any) -> Any:
    """Apply `function` to corresponding tensors of nested dicts."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: map_tree(function, *(tree[key] for tree in trees)) for key in first}
    return function(*trees)


def leaves(tree: Any) -> list[Tensor]:
    """All tensors of nested dicts."""
    if not isinstance(tree, dict):
        return [tree]
    return [leaf for value in tree.values() for leaf in leaves(value)]


def copy_tree(into: State, tree: State) -> None:
    """Copy a tree of tensors over another; on a GPU in a few launches, whatever their number."""
    by_kind: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}

    def sort(old: Tensor, new: Tensor) -> Tensor:
        olds, news = by_kind.setdefault(old.dtype, ([], []))
        olds.append(old)
        news.append(new)
        return old

    map_tree(sort, into, tree)  # by name: two trees need not be in the same order
    for olds, news in by_kind.values():
        torch._foreach_copy_(olds, news)


def clone_tree(tree: State) -> State:
    """A copy of a tree of tensors."""
    copy = map_tree(torch.empty_like, tree)
    copy_tree(copy, tree)
    return copy


def choose_tree(mask: Tensor, yes: State, no: State) -> State:
    """`yes` for the environments in mask (B,), `no` for the others."""

    def pick(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(mask.view(-1, *[1] * (a.dim() - 1)), a, b)

    return map_tree(pick, yes, no)
