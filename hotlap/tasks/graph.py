"""A turn captured once as a CUDA graph and replayed.

Launching a step's kernels one by one takes longer than running them; a replay launches them all at
once. Inputs and outputs live at fixed addresses, so what a replay returns is overwritten by the
next: `BatchEnv` copies what its callers may keep.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hotlap.tasks.task import State, clone_tree, copy_tree, leaves, map_tree

WARM_UPS = 3
"""Calls made one kernel at a time before a capture: libraries choose their ways in them."""


@contextmanager
def capturing() -> Iterator[torch.cuda.CUDAGraph]:
    """A graph that notes what is launched within; it is done when that ends.

    Garbage is collected before and not meanwhile: freeing an older graph spoils a capture.
    """
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            yield graph
    finally:
        if collects:
            gc.enable()


@contextmanager
def on_the_side(device: torch.device | None = None) -> Iterator[None]:
    """A stream of its own, on which a capture asks to be warmed up."""
    here, side = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    side.wait_stream(here)
    with torch.cuda.stream(side):
        yield
    here.wait_stream(side)


class GraphedTurn:
    """Plays turns by replaying a graph of `turn`.

    Args:
        turn: Takes a state and actions, returns what was played, the state after it, and what is
            seen.
    """

    def __init__(self, turn: Callable[[State, Tensor], tuple[Any, State, Tensor]]) -> None:
        self._turn = turn
        self._graph: torch.cuda.CUDAGraph | None = None
        self._state: State = {}
        self._action = torch.empty(0)
        self._result: tuple[Any, State, Tensor] | None = None

    def __call__(self, state: State, action: Tensor) -> tuple[Any, State, Tensor]:
        """One turn; the results are overwritten by the next."""
        if self._graph is None:
            self._capture(state, action)
        if state is not self._state:
            copy_tree(self._state, state)
        self._action.copy_(action)
        assert self._graph is not None and self._result is not None
        self._graph.replay()
        return self._result

    def _capture(self, state: State, action: Tensor) -> None:
        self._state = clone_tree(state)
        self._action = action.clone()
        with on_the_side(action.device):
            for _ in range(WARM_UPS):
                self._turn(self._state, self._action)
        with capturing() as self._graph:
            played, begun, observation = self._turn(self._state, self._action)
            # What a turn passes through unchanged is the kept state itself: copy it before that
            # moves on.
            kept = {leaf.data_ptr() for leaf in leaves(self._state)}
            played = replace(
                played,
                state=map_tree(
                    lambda leaf: leaf.clone() if leaf.data_ptr() in kept else leaf, played.state
                ),
            )
            copy_tree(self._state, begun)
        self._result = (played, self._state, observation)
