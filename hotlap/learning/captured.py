"""Functions of tensors, captured once as a CUDA graph and replayed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hotlap.tasks.graph import WARM_UPS, capturing, on_the_side
from hotlap.tasks.task import State


class Captured:
    """A function whose kernels are launched all at once.

    Its arguments are copied to where they were at the first call, and its answer is overwritten by
    the next call.

    Args:
        function: Takes tensors of fixed shapes; everything else it reads stays where it is.
        changes: Tells which tensors it changes: the calls made to warm up are taken back there.
    """

    def __init__(
        self, function: Callable[..., Any], changes: Callable[[], list[Tensor]] = list
    ) -> None:
        self._function, self._changes = function, changes
        self._graph: torch.cuda.CUDAGraph | None = None
        self._given: tuple[Tensor, ...] = ()
        self._answer: Any = None

    def __call__(self, *given: Tensor) -> Any:
        """Call it."""
        if self._graph is None:
            self._capture(given)
        assert self._graph is not None
        for kept, new in zip(self._given, given, strict=True):
            kept.copy_(new)
        self._graph.replay()
        return self._answer

    def _capture(self, given: tuple[Tensor, ...]) -> None:
        self._given = tuple(value.clone() for value in given)
        before = [value.clone() for value in self._changes()]
        with on_the_side(given[0].device if given else None):
            for _ in range(WARM_UPS):
                self._function(*self._given)
        with capturing() as graph:
            self._answer = self._function(*self._given)
        for value, old in zip(self._changes(), before, strict=True):
            value.copy_(old)
        self._graph = graph


class Glance:
    """A look at worlds, captured on a GPU where a world stays in one place and changes there.

    Args:
        look: From worlds to what is seen in them.
    """

    def __init__(self, look: Callable[[State], Tensor]) -> None:
        self._look = look
        self._known: State | None = None
        self._replay: Captured | None = None

    @torch.no_grad()
    def __call__(self, world: State, device: torch.device) -> Tensor:
        """What is seen in each world; overwritten by the next call."""
        if world is not self._known:
            self._known, self._replay = world, None
            return self._look(world)
        # A world that is itself again is a captured step's.
        if self._replay is None and device.type == "cuda":
            self._replay = Captured(lambda: self._look(world))
        return self._look(world) if self._replay is None else self._replay()
