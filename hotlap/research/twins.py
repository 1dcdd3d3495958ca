"""Tensors that a policy has under several names, such as an encoder that actor and critic share.

A file needs each once: the others share its memory, which the policy itself knows.
"""

from torch import Tensor

Tensors = dict[str, Tensor]


def without_twins(tensors: Tensors) -> Tensors:
    """The tensors that share their memory with none before them."""
    firsts = _firsts(tensors)
    return {name: tensor for name, tensor in tensors.items() if firsts[name] == name}


def with_twins(tensors: Tensors, own: Tensors) -> Tensors:
    """The same with the names that were left out, as a policy with the tensors `own` needs them."""
    firsts = _firsts(own)
    missing = {name: first for name, first in firsts.items() if name not in tensors}
    return tensors | {name: tensors[one] for name, one in missing.items() if one in tensors}


def _firsts(tensors: Tensors) -> dict[str, str]:
    """From each name to the first whose tensor is the very same memory."""
    seen: dict[tuple[int, tuple[int, ...]], str] = {}
    firsts = {}
    for name, tensor in tensors.items():
        place = (tensor.data_ptr(), tuple(tensor.shape))
        firsts[name] = seen.setdefault(place, name) if tensor.numel() else name
    return firsts
