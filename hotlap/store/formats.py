"""Tensors as safetensors, exactly; reading them cannot run code."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hotlap.store.plain import damaged

KINDS = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16",
    torch.int32: "I32", torch.int64: "I64", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float32: "F32", torch.float64: "F64",
}  # fmt: skip
"""What safetensors calls them."""


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


def tensor_parts(tensors: dict[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The same file piece by piece, for tensors too large to be copied: their own memory.

    Args:
        tensors: On a CPU and without gaps, or they are copied after all.
    """
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Wide numbers first, so that each lies where its kind may lie.
    order = sorted(flat, key=lambda name: (-flat[name].element_size(), name))
    header, end = {}, 0
    for name in order:
        begin, end = end, end + flat[name].nbytes
        kind, shape = KINDS[flat[name].dtype], list(flat[name].shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield flat[name].reshape(-1).view(torch.uint8).numpy().data


def unpack_tensors(data: bytes, path: Path) -> dict[str, Tensor]:
    """Undo `pack_tensors`; the path is for the error.

    From bytes and not from the file: tensors mapped from a file change when the file does.
    """
    try:
        return dict(load(data))
    except (SafetensorError, AssertionError, KeyError, ValueError, RuntimeError) as error:
        raise damaged(path, "a safetensors file", f"{type(error).__name__}: {error}") from error
