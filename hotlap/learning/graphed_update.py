"""A gradient update captured once as a CUDA graph and replayed.

An update is a few hundred small kernels; launching them one by one takes several times as long as
running them, and a replay launches them all at once. Whatever an update reads and writes must stay
where it was at the capture: nets, optimisers and replay are changed in place, and numbers that move
(learning rates, how far the replay is filled) are tensors. Randomness moves on with every replay,
and follows `torch.manual_seed`.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from hotlap.tasks.graph import WARM_UPS, capturing, on_the_side


class GraphedUpdate:
    """Makes updates by replaying a graph.

    Args:
        update: Makes one update and returns what is worth knowing about it. It must not wait for
            the device, nor branch on what it finds there.
    """

    def __init__(self, update: Callable[[], Tensor]) -> None:
        self._update = update
        self._made = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._told = torch.empty(0)

    def __call__(self) -> Tensor:
        """One update; what it returns is overwritten by the next."""
        if self._made < WARM_UPS:
            self._made += 1
            return self._warm_up()
        if self._graph is None:
            with capturing() as self._graph:  # notes what is to be done, and does nothing
                self._told = self._update()
        self._graph.replay()
        return self._told

    def _warm_up(self) -> Tensor:
        """One update on a stream of its own, as a capture asks for."""
        with on_the_side():
            told = self._update()
        told.record_stream(torch.cuda.current_stream())
        return told


def prepare(optimiser: Optimizer) -> None:
    """Have Adam take a step in one go, and let a GPU's graph hold it; again is harmless."""
    if not isinstance(optimiser, Adam):
        return
    for group in optimiser.param_groups:
        device = group["params"][0].device
        group.update(fused=True, foreach=False, capturable=device.type == "cuda")
        if group["capturable"] and not isinstance(group["lr"], Tensor):
            group["lr"] = torch.tensor(float(group["lr"]), device=device)
    for parameter, state in optimiser.state.items():
        state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=parameter.device)


def set_rate(optimiser: Optimizer, rate: float) -> None:
    """Set the learning rate, where a graph may hold it as a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def plain(saved: dict) -> dict:
    """The state of an optimiser as any other, on any device, can take it over."""
    usual = {"fused": None, "foreach": None, "capturable": False}
    groups = [group | usual | {"lr": float(group["lr"])} for group in saved["param_groups"]]
    return saved | {"param_groups": groups}


def descend(optimiser: Optimizer, loss: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """One step down; returns the gradient's length, and 1 where that was over the limit (0: none).

    Gradients are worked out for the optimiser's own parameters and no others.
    """
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    optimiser.zero_grad(set_to_none=True)
    loss.backward(inputs=parameters)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    length = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if limit:
        torch._foreach_mul_(gradients, (limit / (length + 1e-6)).clamp(max=1.0))
    optimiser.step()
    return length, (length > (limit or torch.inf)).to(length.dtype)


def follow(slow: list[Tensor], fast: list[Tensor], share: float) -> None:
    """Move a slow copy towards its original by a share of the way."""
    with torch.no_grad():
        torch._foreach_lerp_(slow, fast, share)
