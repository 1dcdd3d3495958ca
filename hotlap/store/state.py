"""One saved state of training: tensors and plain numbers in a sealed folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from hotlap.store.atomic import replace_folder
from hotlap.store.formats import pack_tensors, unpack_tensors
from hotlap.store.manifest import check, seal
from hotlap.store.plain import pack_json, unpack_json

TENSORS, NUMBERS = "state.safetensors", "state.json"
FACTS = {"kind": "state"}


@dataclass(frozen=True, eq=False)
class State:
    """Tensors and numbers, exactly as they were saved."""

    tensors: dict[str, Tensor]
    numbers: dict[str, Any]


def write_state(folder: Path, tensors: dict[str, Tensor], table: dict[str, Any]) -> None:
    """Put a state in place, or replace it, whole."""
    files = {TENSORS: pack_tensors(tensors), NUMBERS: pack_json(table, indent=2)}

    def fill(new: Path) -> None:
        for name, data in files.items():
            (new / name).write_bytes(data)
        seal(new, FACTS)

    replace_folder(folder, fill)


def read_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a state once all of it is known to be what was written."""
    check(folder)
    return unpack_tensors((folder / TENSORS).read_bytes(), folder / TENSORS), read_table(folder)


def read_table(folder: Path) -> dict[str, Any]:
    """Read the numbers alone, unchecked."""
    return unpack_json((folder / NUMBERS).read_bytes(), folder / NUMBERS)
