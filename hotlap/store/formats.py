"""Tensors as safetensors, exactly; reading them cannot run code."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hotlap.store.plain import damaged


def pack_tensors(tensors: dict[str, Tensor]) -> bytes:
    """Tensors, wherever and however they lie in memory, as a safetensors file."""
    packed: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        # safetensors refuses tensors that share memory; the others need no copy.
        packed[name] = tensor.clone() if memory in taken else tensor
        taken.add(memory)
    return bytes(save(packed))


def unpack_tensors(data: bytes, path: Path) -> dict[str, Tensor]:
    """Undo `pack_tensors`; the path is for the error.

    From bytes and not from the file: tensors mapped from a file change when the file does.
    """
    try:
        return dict(load(data))
    except (SafetensorError, AssertionError, KeyError, ValueError, RuntimeError) as error:
        raise damaged(path, "a safetensors file", f"{type(error).__name__}: {error}") from error
