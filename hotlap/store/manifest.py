"""A folder's seal: the size and sha256 of every file in it, and some facts, in `manifest.json`.

The manifest ends with its own sha256, so that a changed fact is found like any other damage. It
finds accidents; against someone who can rewrite the manifest too it proves nothing. Hidden files
are left out: file managers and network file systems drop them wherever they like.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from hotlap.store.atomic import write_file
from hotlap.store.plain import DamagedFile, damaged, pack_json, unpack_json

__all__ = ["DamagedFile", "check", "fingerprint", "seal", "verify"]

NAME = "manifest.json"
FORMAT = 1
LARGEST = 1_000_000
"""Bytes; a longer manifest is not read."""


def seal(folder: Path, facts: dict[str, Any]) -> None:
    """Write down what is in a folder."""
    data = _render(facts, {name: fingerprint(path) for name, path in sorted(_files(folder))})
    if len(data) > LARGEST:
        raise ValueError(
            f"the manifest of {folder} would take {len(data)} bytes, at most {LARGEST} are read; "
            "keep fewer files or facts in one folder"
        )
    write_file(folder / NAME, data)


def check(folder: Path) -> dict[str, Any]:
    """Compare every file in a folder with its manifest; the facts, if nothing differs."""
    facts, files = _read(folder / NAME)
    present = dict(_files(folder))
    for name in sorted(files.keys() | present.keys()):
        if name not in present:
            raise damaged(folder / name, f"{files[name]['size']} bytes", "no such file")
        if name not in files:
            raise damaged(present[name], "only files that the manifest names", "one more")
        verify(present[name], files[name])
    return facts


def fingerprint(path: Path) -> dict[str, Any]:
    """The size and sha256 of a file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"size": file.tell(), "sha256": digest}


def verify(path: Path, expected: dict[str, Any]) -> None:
    """Raise DamagedFile unless a file has this fingerprint."""
    if not path.is_file():
        raise damaged(path, f"{expected['size']} bytes", "no such file")
    size = path.stat().st_size
    if size != expected["size"]:
        raise damaged(path, f"{expected['size']} bytes", f"{size}")
    digest = fingerprint(path)["sha256"]
    if digest != expected["sha256"]:
        raise damaged(path, f"sha256 {expected['sha256']:.12}...", f"{digest:.12}...")


def _render(facts: dict[str, Any], files: dict[str, dict[str, Any]]) -> bytes:
    body = {"format": FORMAT, "facts": facts, "files": files}
    own = hashlib.sha256(pack_json(body)).hexdigest()
    return pack_json(body | {"sha256": own}, indent=2)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The facts and the fingerprints, if not a byte of the manifest has changed."""
    if path.is_symlink() or not path.is_file():
        raise damaged(path, "a manifest", "a link" if path.is_symlink() else "no such file")
    size = path.stat().st_size
    if size > LARGEST:
        raise damaged(path, f"at most {LARGEST} bytes", f"{size}")
    data = path.read_bytes()
    content = unpack_json(data, path)
    if content.get("format") != FORMAT:
        raise damaged(path, f"format {FORMAT}", f"{content.get('format')!r:.50}")
    facts, files = content.get("facts"), content.get("files")
    if not isinstance(facts, dict) or not isinstance(files, dict) or not _same(data, facts, files):
        raise damaged(path, "the bytes its own sha256 stands for", "others")
    for name, entry in files.items():
        _refuse_strange(path, name, entry)
    return facts, files


def _same(data: bytes, facts: dict[str, Any], files: dict[str, Any]) -> bool:
    try:
        return _render(facts, files) == data
    except ValueError:  # such as 1e999, which reads as infinity
        return False


def _refuse_strange(path: Path, name: str, entry: Any) -> None:
    """A manifest may have been written by anyone."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise damaged(path, "names inside the folder", f"{name!r}")
    kinds = {key: type(value) for key, value in entry.items()} if isinstance(entry, dict) else {}
    if kinds != {"size": int, "sha256": str}:
        raise damaged(path, f"a size and a sha256 for {name!r}", f"{entry!r:.100}")


def _files(folder: Path, prefix: str = "") -> Iterator[tuple[str, Path]]:
    """The files in a folder and below, by the names they have in the manifest."""
    for path in folder.iterdir():
        name = prefix + path.name
        if path.name.startswith(".") or name == NAME:
            continue
        if path.is_symlink():
            raise damaged(path, "a file", "a symbolic link")
        if path.is_dir():
            yield from _files(path, name + "/")
        elif path.is_file():
            yield name, path
        else:
            raise damaged(path, "a file", "a device or pipe")
