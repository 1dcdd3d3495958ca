import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.store import manifest
from hotlap.store.manifest import DamagedFile, check, seal

FACTS = {"kind": "test", "score": 0.1 + 0.2, "seeds": [1, 2]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sealed"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"abc")
    (folder / "inner" / "b.bin").write_bytes(b"")
    seal(folder, FACTS)
    return folder


def rewrite(folder: Path, **changes: object) -> None:
    """A manifest with the right checksum, as an attacker would write it."""
    content = json.loads((folder / "manifest.json").read_text()) | changes
    (folder / "manifest.json").write_bytes(manifest._render(content["facts"], content["files"]))


def test_a_whole_folder_gives_its_facts(folder: Path) -> None:
    assert check(folder) == FACTS
    files = json.loads((folder / "manifest.json").read_text())["files"]
    assert files["a.bin"]["size"] == 3
    # echo -n abc | sha256sum
    assert files["a.bin"]["sha256"].startswith("ba7816bf8f01cfea414140de5dae2223b00361a3")
    assert set(files) == {"a.bin", "inner/b.bin"}


def test_sealing_again_takes_in_what_changed(folder: Path) -> None:
    (folder / "a.bin").write_bytes(b"abcd")
    seal(folder, {})
    assert check(folder) == {}


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda f: (f / "a.bin").unlink(), r"a.bin is damaged: expected 3 bytes, found no such"),
        (lambda f: (f / "a.bin").write_bytes(b"abcd"), r"a.bin .* expected 3 bytes, found 4"),
        (lambda f: (f / "a.bin").write_bytes(b"abd"), r"a.bin .* sha256 ba7816.*found a52d"),
        (lambda f: (f / "c.bin").write_bytes(b""), r"c.bin .* that the manifest names, found one"),
        (lambda f: (f / "manifest.json").unlink(), r"expected a manifest, found no such file"),
        (lambda f: (f / "link").symlink_to(f / "a.bin"), r"link .* found a symbolic link"),
        (lambda f: (f / "link").symlink_to("/"), r"link .* found a symbolic link"),
        (lambda f: os.mkfifo(f / "pipe"), r"pipe .* found a device or pipe"),
    ],
)
def test_every_difference_is_named(
    harm: Callable[[Path], None], message: str, folder: Path
) -> None:
    harm(folder)
    with pytest.raises(DamagedFile, match=message + r".*restore it from a copy, or make it again"):
        check(folder)


def test_flipping_any_bit_of_a_manifest_is_found(folder: Path) -> None:
    path = folder / "manifest.json"
    data = path.read_bytes()
    for index in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[index] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(DamagedFile):
                check(folder)


def test_a_manifest_cut_anywhere_is_found(folder: Path) -> None:
    path = folder / "manifest.json"
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(DamagedFile):
            check(folder)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "inner/../../x", "..\\x"])
def test_a_manifest_cannot_name_files_outside(name: str, folder: Path) -> None:
    rewrite(folder, files={name: {"size": 3, "sha256": "0"}})
    with pytest.raises(DamagedFile, match="names inside the folder"):
        check(folder)


@pytest.mark.parametrize("entry", [None, {}, {"size": "3", "sha256": "0"}, {"size": 3}])
def test_a_manifest_of_strange_shape_is_refused(entry: object, folder: Path) -> None:
    rewrite(folder, files={"a.bin": entry})
    with pytest.raises(DamagedFile, match="a size and a sha256"):
        check(folder)


def test_a_huge_manifest_is_neither_read_nor_written(folder: Path) -> None:
    with pytest.raises(ValueError, match="at most 1000000 are read"):
        seal(folder, {"text": "x" * 1_000_000})
    assert check(folder) == FACTS
    with open(folder / "manifest.json", "ab") as file:
        file.truncate(10**12)  # takes no space: the file has a hole
    with pytest.raises(DamagedFile, match="expected at most 1000000 bytes, found 1000000000000"):
        check(folder)


def test_a_linked_manifest_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "manifest.json", tmp_path / "elsewhere.json")
    (folder / "manifest.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(DamagedFile, match="expected a manifest, found a link"):
        check(folder)


def test_hidden_files_of_file_managers_do_no_harm(folder: Path) -> None:
    (folder / ".DS_Store").write_bytes(b"x")
    assert check(folder) == FACTS
