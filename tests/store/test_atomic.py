import errno
import os
import threading
from pathlib import Path

import pytest

from hotlap.store.atomic import read_folder, recover_folder, replace_folder, tidy, write_file


def fill_with(text: str):
    def fill(folder: Path) -> None:
        (folder / "inner").mkdir()
        for name in ("a", "inner/b"):
            (folder / name).write_text(text)

    return fill


def texts(folder: Path) -> set[str]:
    return {(folder / name).read_text() for name in ("a", "inner/b")}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    for data in (b"first", b"", b"last"):
        write_file(tmp_path / "file", data)
        assert (tmp_path / "file").read_bytes() == data
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_file(tmp_path / "file", b"old")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "file", b"new")
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_folder_is_made_and_replaced_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "above" / "folder"
    replace_folder(path, fill_with("old"))
    (path / "more").write_text("goes with the old folder")
    replace_folder(path, fill_with("new"))
    assert texts(path) == {"new"}
    assert names(path) == ["a", "inner"]
    assert names(path.parent) == ["folder"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_failed_fill_leaves_the_old_folder(error: BaseException, tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise error

    replace_folder(tmp_path / "folder", fill_with("old"))
    with pytest.raises(type(error)):
        replace_folder(tmp_path / "folder", fail)
    assert texts(tmp_path / "folder") == {"old"}
    assert names(tmp_path) == ["folder"]


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    replace_folder(target, fill_with("target"))
    (tmp_path / "link").symlink_to(target)
    replace_folder(tmp_path / "link", fill_with("new"))
    assert texts(tmp_path / "link") == {"new"}
    assert texts(target) == {"target"}


@pytest.mark.parametrize(
    ("left_behind", "found"),
    [
        ({"folder": "old"}, "old"),
        ({"folder": "old", ".folder.hotlap-new": "half"}, "old"),
        ({".folder.hotlap-old": "old", ".folder.hotlap-new": "new"}, "old"),
        ({"folder": "new", ".folder.hotlap-old": "old"}, "new"),
        ({".folder.hotlap-new": "first"}, None),
        ({}, None),
    ],
)
def test_an_interrupted_replacement_is_undone_or_finished(
    left_behind: dict[str, str], found: str | None, tmp_path: Path
) -> None:
    for name, text in left_behind.items():
        (tmp_path / name).mkdir()
        fill_with(text)(tmp_path / name)
    if found:
        assert read_folder(tmp_path / "folder", texts) == {found}  # readers need no recovery
    recover_folder(tmp_path / "folder")
    assert names(tmp_path) == (["folder"] if found else [])
    assert not found or texts(tmp_path / "folder") == {found}


def test_tidying_removes_only_our_own_leftovers(tmp_path: Path) -> None:
    for name in (".file.1234.hotlap-part", ".mine.tmp", ".notes", "a.hotlap-part"):
        (tmp_path / name).write_text("")
    (tmp_path / ".gone.hotlap-old").mkdir()
    tidy(tmp_path)
    assert names(tmp_path) == [".mine.tmp", ".notes", "a.hotlap-part", "gone"]


def test_a_reader_never_mixes_two_folders(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    replace_folder(path, fill_with("0"))
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            replace_folder(path, fill_with(str(number)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        read = [read_folder(path, texts) for _ in range(300)]
    finally:
        stop.set()
        writer.join()
    assert {len(seen) for seen in read} == {1}


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_folder(tmp_path / "folder", texts)
