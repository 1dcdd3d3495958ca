"""Tensors that a file need not hold, because a policy has them twice.

Twins are names of the very same tensor, such as an encoder that actor and critic share. Slow copies
are nets that follow another one while it learns, and whose place that one can take.
"""

from torch import Tensor

Tensors = dict[str, Tensor]

FOLLOWED = {"q_net_target": "q_net", "critic_target": "critic"}
"""Nets that follow another one slowly, and that one."""


def without_twins(tensors: Tensors) -> Tensors:
    """The tensors that share their memory with none before them."""
    firsts = _firsts(tensors)
    return {name: tensor for name, tensor in tensors.items() if firsts[name] == name}


def with_twins(tensors: Tensors, own: Tensors) -> Tensors:
    """The same with the names that were left out, as a policy with the tensors `own` needs them."""
    firsts = _firsts(own)
    missing = {name: first for name, first in firsts.items() if name not in tensors}
    return tensors | {name: tensors[one] for name, one in missing.items() if one in tensors}


def without_slow_copies(tensors: Tensors) -> Tensors:
    """The tensors without those of nets that only follow another one."""
    return {name: tensor for name, tensor in tensors.items() if _fast(name) is None}


def with_slow_copies(tensors: Tensors, own: Tensors) -> Tensors:
    """The same with slow copies that have caught up, where a policy with `own` has such."""
    fast = {name: _fast(name) for name in own if name not in tensors}
    return tensors | {slow: tensors[one] for slow, one in fast.items() if one in tensors}


def _fast(name: str) -> str | None:
    """The tensor that a slow copy follows; None if it is none."""
    net, dot, rest = name.partition(".")
    return FOLLOWED[net] + dot + rest if net in FOLLOWED else None


def _firsts(tensors: Tensors) -> dict[str, str]:
    """From each name to the first whose tensor is the very same memory."""
    seen: dict[tuple[int, tuple[int, ...]], str] = {}
    firsts = {}
    for name, tensor in tensors.items():
        place = (tensor.data_ptr(), tuple(tensor.shape))
        firsts[name] = seen.setdefault(place, name) if tensor.numel() else name
    return firsts
