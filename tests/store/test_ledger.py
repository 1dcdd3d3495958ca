"""The ledger against everything that can happen to a file."""

import errno
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hotlap.store.ledger import DamagedLedger, Ledger, read_ledger, repair_ledger

from .small_disk import run_on_small_disk

GOLDEN = Path(__file__).parent / "golden"
WRITER = Path(__file__).with_name("ledger_writer.py")
HEADER = {"seed": 3, "note": "ü\n"}
FIRST = {"kind": "study", "format": 1, **HEADER}
TRIALS = [
    {"kind": "trial", "trial": 1, "mean_reward": 0.1 + 0.2},
    {"kind": "trial", "trial": 2, "mean_reward": None, "reason": 'line\n"quote" \u2028'},
    {"kind": "trial", "trial": 3, "mean_reward": -1e-300},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "study" / "ledger.jsonl"
    with Ledger.create(path, HEADER) as ledger:
        for record in TRIALS:
            ledger.append(**record)
    return path


def appended(path: Path, **fields: Any) -> list[dict[str, Any]]:
    """What a fresh reader finds after a writer has come back and added a note."""
    with Ledger.open(path) as ledger:
        ledger.append("note", **fields)
        assert ledger.records() == read_ledger(path).records()
    return read_ledger(path).records()


# --- What is written comes back ---


def test_records_come_back_in_order_and_exactly(path: Path) -> None:
    for holder in (read_ledger(path), Ledger.open(path)):
        assert holder.records() == [FIRST, *TRIALS]
        assert holder.records("trial") == TRIALS
        assert holder.records("title") == []
        if isinstance(holder, Ledger):
            assert holder.contents.header == FIRST
            holder.close()


def test_any_tool_can_read_and_check_a_line(path: Path) -> None:
    for line in path.read_text(encoding="ascii").splitlines():
        members = list(json.loads(line))
        assert (members[0], members[-1]) == ("kind", "crc")
        text = line[:-20] + "}"
        assert f"{zlib.crc32(text.encode()):08x}" == json.loads(line)["crc"]
    # Worked out with gzip, whose trailer holds the same checksum.
    assert zlib.crc32(b'{"kind": "trial", "trial": 7, "mean_reward": 0.5}') == 0xAF1B6F0B


def test_what_is_kept_is_what_was_written_and_not_what_the_caller_does_later(path: Path) -> None:
    params = {"rate": 0.5}
    with Ledger.open(path) as ledger:
        record = ledger.append("proposal", trial=9, params=params)
        params["rate"] = 7.0
        assert record == ledger.records()[-1] == read_ledger(path).records()[-1]
        assert record["params"] == {"rate": 0.5}


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("note", {"x": float("nan")}, "None where there is none"),
        ("note", {"x": [float("inf")]}, "None where there is none"),
        ("note", {"x": (1, 2)}, "lists for tuples"),
        ("note", {"x": {1: 2}}, "use text as keys"),
        ("note", {"x": object()}, "cannot be written as JSON"),
        ("note", {"crc": "0"}, "no member `crc`"),
        ("", {}, "its kind, a word"),
        ("trial", {}, "the number of its trial"),
        ("proposal", {"trial": "7"}, "the number of its trial"),
        ("study", {}, "has a study record already"),
        ("trial", {"trial": 2}, "has a trial record of trial 2 already"),
    ],
)
def test_a_strange_record_is_refused_and_leaves_no_trace(
    kind: str, fields: dict[str, Any], words: str, path: Path
) -> None:
    before = path.read_bytes()
    with Ledger.open(path) as ledger:
        with pytest.raises(ValueError, match=words):
            ledger.append(kind, **fields)
        assert ledger.records() == [FIRST, *TRIALS]
    assert path.read_bytes() == before


def test_a_trial_has_one_proposal_and_one_result_but_may_start_often(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.append("proposal", trial=1)
        ledger.append("start", trial=1, attempt=1)
        ledger.append("start", trial=1, attempt=2)
        with pytest.raises(ValueError, match="proposal record of trial 1 already"):
            ledger.append("proposal", trial=1)


def test_a_clock_that_jumps_back_changes_no_order(path: Path) -> None:
    times = ["2026-11-01T03:00", "2026-11-01T02:00", "1970-01-01T00:00", "2026-11-01T02:00"]
    with Ledger.open(path) as ledger:
        for timestamp in times:
            ledger.append("note", timestamp=timestamp)
    with Ledger.open(path) as ledger:
        assert [record["timestamp"] for record in ledger.records("note")] == times


def test_a_ledger_is_begun_once_and_must_be_there_to_go_on(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is there already; go on with it"):
        Ledger.create(path, HEADER)
    for opening in (Ledger.open, read_ledger, repair_ledger):
        with pytest.raises(ValueError, match=r"no ledger .* begin the study first"):
            opening(tmp_path / "nothing" / "ledger.jsonl")
    with pytest.raises(ValueError, match="format is set by the ledger itself"):
        Ledger.create(tmp_path / "new" / "ledger.jsonl", {"format": 7})
    Ledger.open(path).close()  # the refusals kept no lock


def test_opening_clears_away_what_was_left_half_done(path: Path) -> None:
    part = path.with_name(".ledger.jsonl.1234.hotlap-part")
    part.write_text("half")
    Ledger.open(path).close()
    assert not part.exists()


# --- Formats, old and new ---


def test_a_ledger_of_format_1_opens_for_ever(tmp_path: Path) -> None:
    path = Path(shutil.copy(GOLDEN / "ledger-v1.jsonl", tmp_path / "ledger.jsonl"))
    golden = read_ledger(path)
    assert golden.notes == []
    assert golden.header["study"] == "golden"
    assert [record["mean_reward"] for record in golden.records("trial")] == [
        0.25,
        0.1 + 0.2,
        None,
        -1.5,
    ]
    assert [record["kind"] for record in golden.records()][-5:] == [
        "title",
        "convergence",
        "push",
        "note",
        "stop",
    ]
    with Ledger.open(path) as ledger:
        ledger.append("trial", trial=5)
    assert path.read_bytes().startswith((GOLDEN / "ledger-v1.jsonl").read_bytes())


def test_what_is_no_ledger_of_ours_is_refused_with_a_word(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    cases = {
        b'{"kind": "study", "format": 2, "sum": "x"}\n': "of format 2, written by a later hotlap",
        (GOLDEN / "results-v0.jsonl").read_bytes(): "plain results, no ledger",
        b"": "does not begin with a whole study record",
        b'{"kind": "stu': "does not begin with a whole study record",
        b"[1]\n": "line 1: it does not end in a checksum",
        b"\xff\xfe\x00\n" * 3: "line 1, and 2 more: ",
    }
    for data, words in cases.items():
        path.write_bytes(data)
        for opening in (read_ledger, Ledger.open):
            with pytest.raises(ValueError, match=words):
                opening(path)
        assert path.read_bytes() == data


# --- Torn and damaged ---


def test_a_cut_at_any_byte_of_the_last_two_records_heals(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the disk is not what is tested
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    begin = len(data) - len(lines[-1]) - len(lines[-2])
    for length in range(begin, len(data) + 1):
        path.write_bytes(data[:length])
        torn_file = path.with_name("ledger.jsonl.torn")
        torn_file.unlink(missing_ok=True)
        # A record that lacks only the end of its line is whole.
        whole = (data[:length] + b"\n").count(b'"}\n') - 1
        torn = data[len(b"".join(lines[: whole + 1])) : length]
        found = read_ledger(path)
        assert found.records() == [FIRST, *TRIALS[:whole]]
        assert len(found.notes) == bool(torn)
        assert path.read_bytes() == data[:length]  # reading changes nothing
        assert appended(path, n=0) == [FIRST, *TRIALS[:whole], {"kind": "note", "n": 0}]
        assert appended(path, n=1)[-2:] == [{"kind": "note", "n": 0}, {"kind": "note", "n": 1}]
        assert torn_file.exists() == bool(torn)
        if torn:
            assert torn_file.read_bytes() == torn + b"\n"


def test_no_changed_byte_changes_what_a_record_says(path: Path) -> None:
    data = path.read_bytes()
    for place in range(len(data)):
        for flipped in (data[place] ^ 0x20, data[place] ^ 1, ord("\n")):
            if flipped == data[place]:
                continue
            path.write_bytes(data[:place] + bytes([flipped]) + data[place + 1 :])
            try:
                found = read_ledger(path)
            except ValueError:
                continue
            # Only the end of the last line is left: its record counts no more, and that is said.
            assert place == len(data) - 1
            assert found.records() == [FIRST, *TRIALS[:-1]]
            assert "the last line is torn" in found.notes[0]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda line: line.replace(b"0.3", b"0.9"), "its checksum does not hold"),
        (lambda line: b"", "it does not end in a checksum"),
        (lambda line: b"WARNING: disk", "it does not end in a checksum"),
        (lambda line: line[:-30], "it does not end in a checksum"),
        (lambda line: b'{"trial": 1, "crc": "6df27d8a"}', "its checksum does not hold"),
        (lambda line: line.upper(), "it does not end in a checksum"),
        (lambda line: line + b"\r", "it does not end in a checksum"),
    ],
)
def test_damage_in_the_middle_is_told_and_repaired_when_asked(
    damage: Any, words: str, path: Path
) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[1] = damage(lines[1])
    path.write_bytes(b"\n".join(lines))
    before = path.read_bytes()
    for opening in (read_ledger, Ledger.open):
        with pytest.raises(DamagedLedger, match=rf"ledger.jsonl, line 2: {words}.*--repair"):
            opening(path)
    assert path.read_bytes() == before
    (dropped,) = repair_ledger(path)
    assert (dropped.number, dropped.data, dropped.problem) == (2, lines[1], words)
    assert path.with_name("ledger.jsonl.damaged").read_bytes() == before
    assert appended(path, n=0)[:-1] == [FIRST, *TRIALS[1:]]


def test_repairing_what_is_whole_or_only_torn_changes_nothing(path: Path) -> None:
    for tail in (b"", b'{"kind": "tri'):
        data = path.read_bytes() + tail
        path.write_bytes(data)
        assert repair_ledger(path) == []
        assert path.read_bytes() == data
    assert not path.with_name("ledger.jsonl.damaged").exists()


def test_every_repair_keeps_a_copy_and_the_first_record_cannot_be_mended(path: Path) -> None:
    for _ in range(3):
        path.write_bytes(path.read_bytes() + b"foreign\nmore\n")
        assert [line.data for line in repair_ledger(path)] == [b"foreign", b"more"]
    copies = sorted(p.name for p in path.parent.glob("*.damaged*"))
    assert copies == [f"ledger.jsonl.damaged{ending}" for ending in ("", "-2", "-3")]
    path.write_bytes(b"x" + path.read_bytes())
    with pytest.raises(DamagedLedger, match="as its earlier results"):
        repair_ledger(path)


def test_of_two_records_of_one_trial_the_first_counts_and_it_is_said(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    with Ledger.create(path.parent / "other" / "ledger.jsonl", {}) as other:
        other.append("trial", trial=1, mean_reward=99.0)
    twice = other.path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[2], *twice]))
    for _ in range(2):
        found = read_ledger(path)
        assert found.records("trial") == TRIALS
        assert found.notes == [
            "line 5: a second trial record of trial 2; the first one counts",
            "line 6: a second study record; the first one counts",
            "line 7: a second trial record of trial 1; the first one counts",
        ]
        appended(path, n=0)


# --- A full disk ---


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """The system stops writing in the middle of a file, as it does where the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_record_that_does_not_fit_leaves_the_ledger_as_it_was(path: Path) -> None:
    before = path.read_bytes()
    with Ledger.open(path) as ledger:
        with no_file_longer_than(len(before) + 100):
            for number in (7, 8):
                with pytest.raises(OSError, match="only part of a record"):
                    ledger.append("trial", trial=number, text="x" * 200)
                assert path.read_bytes() == before
            ledger.append("note", text="this one fits")
        ledger.append("trial", trial=7)
        assert ledger.records()[4:] == [
            {"kind": "note", "text": "this one fits"},
            {"kind": "trial", "trial": 7},
        ]
        assert read_ledger(path).records() == ledger.records()


@pytest.mark.parametrize("failing", [("fsync",), ("write",), ("write", "ftruncate")])
def test_whatever_fails_the_next_record_is_written(failing: tuple[str, ...], path: Path) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def half(handle: int, data: bytes) -> int:
        return original(handle, data[:-5])

    original = os.write
    with Ledger.open(path) as ledger:
        with pytest.MonkeyPatch.context() as patch:
            for name in failing:
                patch.setattr(os, name, half if name == "write" else fail)
            for _ in range(2):
                with pytest.raises(OSError):
                    ledger.append("trial", trial=4)
        assert read_ledger(path).records() == ledger.records() == [FIRST, *TRIALS]
        ledger.append("trial", trial=4, mean_reward=1.0)
        assert read_ledger(path).records() == ledger.records()
        assert read_ledger(path).notes == []


FILL_UP = """
import pathlib, sys
from hotlap.store.ledger import Ledger, read_ledger

path = pathlib.Path(sys.argv[1]) / "study" / "ledger.jsonl"
filler = path.with_name("filler")
with Ledger.create(path, {}) as ledger:
    filler.write_bytes(bytes(500_000))
    for number in range(100_000):
        try:
            ledger.append("trial", trial=number, text="x" * 1500)
        except OSError as error:
            assert error.errno == 28, error  # ENOSPC
            if not filler.exists():
                break
            assert read_ledger(path).records() == ledger.records()
            filler.unlink()
            ledger.append("trial", trial=number, text="there is space again")
    assert number > 100
    assert read_ledger(path).records() == ledger.records()
    assert read_ledger(path).notes == []
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    run_on_small_disk(FILL_UP, tmp_path, "1m")  # which asserts, and fails if it does


# --- Several processes ---


def test_a_second_writer_is_refused_and_told_who_writes(path: Path) -> None:
    with Ledger.open(path) as ledger:
        words = f"process {os.getpid()} on {socket.gethostname()} .*name another study"
        for opening in (Ledger.open, repair_ledger):
            with pytest.raises(RuntimeError, match=words):
                opening(path)
        with pytest.raises(RuntimeError, match=words):
            Ledger.create(path, HEADER)
        ledger.append("note", n=0)
        assert len(read_ledger(path).records()) == 5  # readers need no lock
    ledger.close()
    with pytest.raises(RuntimeError, match="was closed"):
        ledger.append("note", n=1)
    Ledger.open(path).close()


def test_a_ledger_changed_or_removed_under_its_writer_is_not_written_to(path: Path) -> None:
    with Ledger.open(path) as ledger:
        with open(path, "ab") as other:
            other.write(b"someone else\n")
        with pytest.raises(RuntimeError, match="changed by another program"):
            ledger.append("note", n=0)
    repair_ledger(path)
    with Ledger.open(path) as ledger:
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)  # as editors save
        with pytest.raises(RuntimeError, match="removed, replaced"):
            ledger.append("note", n=0)
    assert appended(path, n=1)[1:] == [*TRIALS, {"kind": "note", "n": 1}]


def test_a_reader_beside_a_writer_finds_whole_records_and_never_fewer(path: Path) -> None:
    with Ledger.open(path) as ledger:
        written = threading.Event()

        def write() -> None:
            for number in range(10, 500):
                ledger.append("trial", trial=number, text="x" * (number * 37 % 3000))
            written.set()

        writer = threading.Thread(target=write)
        writer.start()
        seen = 0
        while not written.is_set():
            records = read_ledger(path).records("trial")
            numbers = [record["trial"] for record in records[3:]]
            assert numbers == list(range(10, 10 + len(numbers)))
            assert len(numbers) >= seen
            seen = len(numbers)
        writer.join()
    assert len(read_ledger(path).records("trial")) == 493


def killed_writer(path: Path, seconds: float) -> list[int]:
    """The numbers a writer acknowledged before it was killed."""
    command = [sys.executable, str(WRITER), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        return [int(number) for number in (first + child.stdout.read()).split()]


def kill_writers(path: Path, rounds: int) -> None:
    draw = random.Random(0)
    acknowledged: list[int] = []
    for kills in range(1, rounds + 1):
        acknowledged += killed_writer(path, draw.uniform(0, 0.02))
        found = [record["trial"] for record in read_ledger(path).records("trial")]
        assert found == list(range(len(found)))
        assert set(acknowledged) <= set(found)
        assert len(found) - len(set(acknowledged)) <= kills  # one that may be in doubt for each
    assert len(acknowledged) == len(set(acknowledged)) > rounds


def test_what_a_killed_writer_acknowledged_is_there_once(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.jsonl", {}).close()
    kill_writers(tmp_path / "ledger.jsonl", rounds=8)


@pytest.mark.slow
def test_what_many_killed_writers_acknowledged_is_there_once(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.jsonl", {}).close()
    kill_writers(tmp_path / "ledger.jsonl", rounds=50)


# --- Cost ---


def test_ten_thousand_records_open_quickly_and_appending_does_not_slow_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    ends = []
    with Ledger.create(tmp_path / "ledger.jsonl", {}) as ledger:
        for number in range(10_000):
            ledger.append("trial", trial=number, params={"rate": 0.1, "steps": number})
            if number in (0, 2000, 8000, 9999):
                ends.append(time.process_time())
    begin = time.process_time()
    Ledger.open(tmp_path / "ledger.jsonl").close()
    assert time.process_time() - begin < 2.0  # 0.1 s where nothing else runs
    first, last = ends[1] - ends[0], ends[3] - ends[2]
    assert last < 3 * first + 0.1
