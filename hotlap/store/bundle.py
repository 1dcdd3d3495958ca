"""A trained model on disk: weights, settings and normaliser as plain data, beside the SB3 zip.

`model.zip` is for Stable-Baselines3, which unpickles it; nothing here opens it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from hotlap.store.atomic import read_folder, replace_folder
from hotlap.store.formats import pack_tensors, unpack_tensors
from hotlap.store.manifest import NAME as MANIFEST
from hotlap.store.manifest import check, seal
from hotlap.store.plain import damaged, pack_json, unpack_json

WEIGHTS, CONFIG, NORMALISER = "weights.safetensors", "config.json", "normaliser.json"
EVALUATION, ZIP = "evaluation.json", "model.zip"
NAMES = {WEIGHTS, CONFIG, NORMALISER, EVALUATION, ZIP, MANIFEST}
FACTS = {"kind": "bundle"}


@dataclass(frozen=True, eq=False)
class Bundle:
    """A trained model and what is needed to use it."""

    weights: dict[str, Tensor]
    """The policy's tensors, by name."""
    config: dict[str, Any]
    """The settings it was made with."""
    normaliser: dict[str, Any] | None = None
    """How observations are scaled, where they are."""
    model_zip: bytes | None = None
    """The model as Stable-Baselines3 saves it; read only when asked for."""
    evaluation: dict[str, Any] | None = None
    """What the judge said of it."""


def save_bundle(folder: Path, bundle: Bundle) -> None:
    """Write a bundle, in place of the one that was there; anything else there is refused."""
    _refuse_foreign(folder)
    files = _files(bundle)

    def fill(new: Path) -> None:
        for name, data in files.items():
            (new / name).write_bytes(data)
        seal(new, FACTS)

    replace_folder(folder, fill)


def load_bundle(folder: Path, with_zip: bool = False) -> Bundle:
    """Read a bundle once all of it is known to be what was written."""
    return read_folder(folder, lambda found: _load(found, with_zip))


def is_bundle(path: Path) -> bool:
    """Whether a folder looks like a bundle; its files are not read."""
    needed = (WEIGHTS, MANIFEST)
    return read_folder(path, lambda found: all((found / name).is_file() for name in needed))


def _files(bundle: Bundle) -> dict[str, bytes]:
    files = {WEIGHTS: pack_tensors(bundle.weights), CONFIG: pack_json(bundle.config, indent=2)}
    for name, table in ((NORMALISER, bundle.normaliser), (EVALUATION, bundle.evaluation)):
        if table is not None:
            files[name] = pack_json(table, indent=2)
    if bundle.model_zip is not None:
        files[ZIP] = bundle.model_zip
    return files


def _load(folder: Path, with_zip: bool) -> Bundle:
    if not (folder / MANIFEST).is_file():
        raise FileNotFoundError(
            f"no model bundle in {folder}: expected a folder with {WEIGHTS} and {MANIFEST}"
        )
    facts = check(folder)
    if facts != FACTS:
        raise damaged(folder / MANIFEST, f"the facts {FACTS}", f"{facts!r:.100}")
    for name in (WEIGHTS, CONFIG):
        if not (folder / name).exists():
            raise damaged(folder / name, "a file every bundle has", "no such file")
    return Bundle(
        weights=unpack_tensors((folder / WEIGHTS).read_bytes(), folder / WEIGHTS),
        config=unpack_json((folder / CONFIG).read_bytes(), folder / CONFIG),
        normaliser=_table(folder, NORMALISER),
        model_zip=(folder / ZIP).read_bytes() if with_zip and (folder / ZIP).exists() else None,
        evaluation=_table(folder, EVALUATION),
    )


def _table(folder: Path, name: str) -> dict[str, Any] | None:
    path = folder / name
    return unpack_json(path.read_bytes(), path) if path.exists() else None


def _refuse_foreign(folder: Path) -> None:
    """Replacing a folder removes what was in it, so it must be ours."""
    if folder.is_dir() and (others := _strange(folder)):
        raise ValueError(
            f"{folder} holds {min(others)!r}, which is no part of a model bundle, and saving would "
            "remove it; choose a new folder"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; a model bundle is a folder, choose another name")


def _strange(folder: Path) -> set[str]:
    """Files that are no part of a bundle; hidden ones are some tool's, and nobody's loss."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    return names - NAMES
