from pathlib import Path

import pytest

from hotlap.store.plain import DamagedFile
from hotlap.store.run_folder import RunFolder

ROWS = [{"segment": 0, "return": 0.1 + 0.2}, {"segment": 1, "note": "a\nb"}, {"segment": 2}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with RunFolder.create(tmp_path / "run", {}) as run:
        for row in ROWS:
            run.append("episodes", row)
    return tmp_path / "run"


def test_rows_come_back_in_order_and_exactly(path: Path) -> None:
    assert RunFolder(path).rows("episodes") == ROWS
    assert RunFolder(path).rows("never_written") == []


def test_a_line_torn_at_any_byte_is_skipped_and_then_healed(path: Path) -> None:
    file = path / "episodes.jsonl"
    data = file.read_bytes()
    for length in range(len(data) + 1):
        file.write_bytes(data[:length])
        whole = data[:length].count(b"\n")
        assert RunFolder(path).rows("episodes") == ROWS[:whole]
        assert file.stat().st_size == length  # reading changes nothing
        with RunFolder.open(path) as run:
            run.append("episodes", {"segment": 9})
            assert run.rows("episodes") == [*ROWS[:whole], {"segment": 9}]


def test_damage_in_the_middle_is_an_error_that_names_the_line(path: Path) -> None:
    file = path / "episodes.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"note"', b'"note'))
    with pytest.raises(DamagedFile, match=r"episodes.jsonl, line 2, is damaged"):
        RunFolder(path).rows("episodes")


def test_rows_of_later_segments_are_forgotten_and_the_others_untouched(path: Path) -> None:
    with RunFolder.open(path) as run:
        run.append("episodes", {"kind": "has no segment"})
        before = (path / "episodes.jsonl").read_bytes().splitlines(keepends=True)
        run.forget_after("episodes", 5)
        assert (path / "episodes.jsonl").read_bytes() == b"".join(before)
        run.forget_after("episodes", 0)
        assert (path / "episodes.jsonl").read_bytes() == before[0] + before[3]
        run.forget_after("episodes", -1)
        assert run.rows("episodes") == [{"kind": "has no segment"}]
        run.forget_after("never_written", 0)


@pytest.mark.parametrize("name", ["", "../episodes", "a/b", "/a", ".hidden", ".."])
def test_a_table_lies_in_the_run_folder(name: str, path: Path) -> None:
    with pytest.raises(ValueError, match="one plain word"):
        RunFolder(path).rows(name)


def test_a_row_that_is_no_number_is_refused_and_leaves_no_trace(path: Path) -> None:
    with RunFolder.open(path) as run, pytest.raises(ValueError, match="None where there is none"):
        run.append("episodes", {"return": float("nan")})
    assert RunFolder(path).rows("episodes") == ROWS
