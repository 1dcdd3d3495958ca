"""The night: what trials, disks, clocks and kills can do to it, and that the study stays the same.

Most of it with an engine that only pretends, and a clock that is set by hand.
"""

import errno
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.config.study import RaceConfig, StopConfig, StudyConfig
from hotlap.research import night as night_module
from hotlap.research.book import MemoryBook
from hotlap.research.engines.job import Job, Outcome, read_result, write_result
from hotlap.research.night import (
    ATTEMPTS,
    LONGEST_PAUSE,
    LOSSES,
    PATIENCE,
    Night,
    PatientBook,
    read_finish,
)
from hotlap.research.space import Params, make_space
from hotlap.research.study import Study
from hotlap.store.ledger import Ledger, read_ledger

SPACE = make_space({"x": {"low": 0.0, "high": 1.0}, "kind": {"choices": ["a", "b"]}})
SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(night_module, "time", clock)
    return clock


def score(params: Params, seed: int) -> float:
    luck = random.Random(f"{params} {seed}").gauss(0, 0.05)
    return (params["kind"] == "b") - (params["x"] - 0.3) ** 2 + luck


def succeed(job: Job, table: dict[str, Any]) -> Outcome:
    write_result(job.folder, {"mean_reward": score(table["params"], table["seed"])})
    return Outcome(job.trial, "done")


class PretendedEngine:
    """Runs jobs in no time, or in `seconds`; which of those under way ends next is left to luck."""

    def __init__(
        self,
        capacity: int,
        clock: Clock,
        run: Callable[[Job, dict[str, Any]], Outcome] = succeed,
        seconds: float = 0.0,
        luck: random.Random | None = None,
    ) -> None:
        self.capacity, self.clock, self.seconds, self.luck = capacity, clock, seconds, luck
        self._run = run
        self.jobs: list[Job] = []
        self.began: list[float] = []
        self.ended: list[float] = []

    def submit(self, job: Job) -> dict[str, Any]:
        self.jobs.append(job)
        self.began.append(self.clock.now)
        return {}

    def poll(self, timeout: float) -> list[Outcome]:
        if not self.jobs:
            return []
        self.clock.now += max(timeout, 0.001)
        if self.clock.now < self.began[-1] + self.seconds:
            return []
        job = self.jobs.pop(0 if self.luck is None else self.luck.randrange(len(self.jobs)))
        self.ended.append(self.clock.now)
        if read_result(job.folder) is not None:
            return [Outcome(job.trial, "done")]
        return [self._run(job, json.loads((job.folder / "trial.json").read_text()))]

    def cancel(self, trial: int) -> None:
        self.jobs = [job for job in self.jobs if job.trial != trial]

    def close(self) -> None:
        self.jobs.clear()


def configure(trials: int = 12, workers: int = 1, **settings: Any) -> StudyConfig:
    common: dict[str, Any] = {"stop": StopConfig(converge=False), "test_runs": 1, "ordered": True}
    return StudyConfig(trials=trials, workers=workers, **(common | settings))


def make_night(
    folder: Path, config: StudyConfig, engine: PretendedEngine, book: Any = None, **settings: Any
) -> Night:
    folder.mkdir(exist_ok=True)
    study = Study(SPACE, config, MemoryBook() if book is None else book)
    study.go_on()
    return Night(study, folder, engine, ("true",), {}, {}, lambda text: None, **settings)


def lead(night: Night) -> list[dict[str, Any]]:
    """To the end; what is in the book then, without times."""
    night.run()
    night.test()
    night.study.certify()
    return without_times(night.study.book.records())


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    times = ("timestamp", "elapsed_sec")
    return [{name: r[name] for name in r if name not in times} for r in records]


def trials_of(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in records if record["kind"] == "trial"]


# --- trials ------------------------------------------------------------------------------------


def test_a_lost_trial_runs_again(tmp_path: Path, clock: Clock) -> None:
    def run(job: Job, table: dict[str, Any]) -> Outcome:
        tries[job.trial] = tries.get(job.trial, 0) + 1
        if tries[job.trial] < 3:
            return Outcome(job.trial, "lost", reason="the machine went away")
        assert table["attempt"] == 1  # what was lost does not count
        return succeed(job, table)

    tries: dict[int, int] = {}
    records = lead(make_night(tmp_path / "a", configure(3), PretendedEngine(1, clock, run)))
    usual = lead(make_night(tmp_path / "b", configure(3), PretendedEngine(1, clock)))
    assert records == usual


def test_a_trial_that_is_always_lost_is_given_up(tmp_path: Path, clock: Clock) -> None:
    begun = []

    def run(job: Job, table: dict[str, Any]) -> Outcome:
        begun.append(job.trial)
        if job.trial == 2:
            return Outcome(job.trial, "lost", reason="the machine went away")
        return succeed(job, table)

    engine = PretendedEngine(2, clock, run)
    records = trials_of(lead(make_night(tmp_path, configure(4, workers=2), engine)))
    assert begun.count(2) == LOSSES
    assert clock.now > 1000 + LONGEST_PAUSE * (LOSSES - 8)  # with ever longer pauses
    assert [r["run_status"] for r in records[:4]] == ["ok", "killed", "ok", "ok"]
    assert "given up" in records[1]["reason"] and "the machine went" in records[1]["reason"]


def test_a_result_counts_however_often_it_was_begun(tmp_path: Path, clock: Clock) -> None:
    book = MemoryBook()
    night = make_night(tmp_path, configure(3), PretendedEngine(1, clock), book)
    plan = night.study.next()
    assert plan is not None
    folder = night.trial_folder(plan.trial)
    night._prepare(plan, folder)
    asked = json.loads((folder / "trial.json").read_text())
    (folder / "trial.json").write_text(json.dumps(asked | {"attempt": ATTEMPTS}))
    write_result(folder, {"mean_reward": 0.5})
    again = make_night(tmp_path, configure(3), PretendedEngine(1, clock), book)
    assert trials_of(lead(again))[0]["mean_reward"] == 0.5


@pytest.mark.parametrize("kind", ["{", "5", '{"attempt": "x"}', "folder"])
def test_a_trial_may_ruin_its_own_files(tmp_path: Path, clock: Clock, kind: str) -> None:
    def run(job: Job, table: dict[str, Any]) -> Outcome:
        if table["attempt"] == 1 and not (job.folder / "ruined").exists():
            (job.folder / "ruined").touch()
            (job.folder / "trial.json").unlink()
            if kind == "folder":
                (job.folder / "trial.json" / "inside").mkdir(parents=True)
            else:
                (job.folder / "trial.json").write_text(kind)
            return Outcome(job.trial, "lost")
        return succeed(job, table)

    records = trials_of(lead(make_night(tmp_path, configure(3), PretendedEngine(1, clock, run))))
    assert {record["run_status"] for record in records} == {"ok"}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({}, "mean_reward, got None"),
        ({"mean_reward": "high"}, "mean_reward, got 'high'"),
        ({"mean_reward": True}, "mean_reward, got True"),
        ({"mean_reward": 10**400}, "mean_reward, got 1000"),
        ({"mean_reward": 1.0, "std_reward": "x"}, "std_reward, got 'x'"),
        ({"mean_reward": 1.0, "seconds": []}, "seconds, got []"),
        ({"mean_reward": 1.0, "lap_rate": "all"}, "lap_rate, got 'all'"),
        ({"mean_reward": 1.0, "timesteps": "many", "pruned": True}, "timesteps, got 'many'"),
    ],
)
def test_a_result_of_wrong_types_is_a_failure(
    tmp_path: Path, result: dict[str, Any], words: str
) -> None:
    write_result(tmp_path, result)
    finish = read_finish(tmp_path, Outcome(1, "done", elapsed=3.0))
    assert finish.status == "failed" and finish.score is None and finish.elapsed == 3.0
    assert words in str(finish.reason)


def test_a_result_tells_all_it_may(tmp_path: Path) -> None:
    folder = tmp_path / "0007"
    folder.mkdir()
    more = {"lap_rate": 0.5, "rewards": [1, 3], "timesteps": 400}
    write_result(folder, more | {"mean_reward": 2, "seconds": 9, "model": "run/m", "pruned": True})
    finish = read_finish(folder, Outcome(7, "done"))
    assert (finish.status, finish.score, finish.std, finish.elapsed) == ("pruned", 2.0, None, 9.0)
    assert finish.model == "trials/0007/run/m" and finish.more == more


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e200])
def test_a_score_that_is_no_number_is_a_failure(
    tmp_path: Path, clock: Clock, number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = make_night(tmp_path, configure(2), PretendedEngine(1, clock))
    real = night_module.read_finish

    def spoil(folder: Path, outcome: Outcome) -> Any:
        finish = real(folder, outcome)
        return finish if outcome.trial > 1 else type(finish)("ok", number)

    monkeypatch.setattr(night_module, "read_finish", spoil)
    first = trials_of(lead(night))[0]
    assert first["run_status"] == "failed" and first["mean_reward"] is None
    assert str(number) in first["reason"]


# --- full disks --------------------------------------------------------------------------------


class FullNow:
    """Refuses so many times, for want of room."""

    def __init__(self, times: int, error: Callable[[], OSError]) -> None:
        self.times, self.error = times, error

    def __call__(self) -> None:
        self.times -= 1
        if self.times >= 0:
            raise self.error()


def no_space() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", "file")


def test_the_book_waits_for_room(tmp_path: Path, clock: Clock) -> None:
    ledger = Ledger.create(tmp_path / "ledger.jsonl", {})
    full = FullNow(3, no_space)
    real = ledger._write

    def write(line: bytes) -> None:
        full()
        real(line)

    ledger._write = write  # type: ignore[method-assign]
    before = clock.now
    PatientBook(ledger).append("note", text="it was worth the wait")
    ledger.close()
    assert clock.now - before == 6.0
    assert len(read_ledger(ledger.path).records("note")) == 1


def test_waiting_for_room_has_an_end(tmp_path: Path, clock: Clock) -> None:
    before = clock.now
    with pytest.raises(OSError, match="No space"):
        night_module.patiently(FullNow(10_000, no_space))
    assert PATIENCE < clock.now - before < PATIENCE + 5


def test_other_errors_are_not_waited_for(clock: Clock) -> None:
    with pytest.raises(PermissionError):
        night_module.patiently(FullNow(1, lambda: PermissionError(errno.EPERM, "no")))
    assert clock.now == 1000.0


def test_copying_a_champion_waits_for_room(tmp_path: Path, clock: Clock) -> None:
    """A copied folder's error has no number, only the words of those within."""
    refused = [("a", "b", "[Errno 28] No space left on device: 'b'")]
    full = FullNow(2, lambda: shutil.Error(refused))
    night = make_night(tmp_path, configure(2), PretendedEngine(1, clock))
    night.on_finish = lambda plan, record: full()
    assert len(trials_of(lead(night))) == 2 + 2  # and the last test of both
    assert full.times < 0


def test_no_run_begins_on_a_full_disk(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=10**12 if clock.now > 1100 else 10**6)

    monkeypatch.setattr(night_module.shutil, "disk_usage", usage)
    engine = PretendedEngine(1, clock)
    lead(make_night(tmp_path, configure(2), engine))
    assert engine.began[0] > 1100


def test_a_trial_that_found_the_disk_full_runs_again(tmp_path: Path, clock: Clock) -> None:
    def run(job: Job, table: dict[str, Any]) -> Outcome:
        assert not (job.folder / "replay").exists()  # what filled the disk is gone
        if table["attempt"] == 1:
            (job.folder / "replay").mkdir()
            (job.folder / "replay" / "huge").touch()
            text = "it exited with code 1; it printed last:\nOSError: No space left on device"
            return Outcome(job.trial, "failed", 1, reason=text)
        return succeed(job, table)

    records = trials_of(lead(make_night(tmp_path, configure(3), PretendedEngine(1, clock, run))))
    assert {record["run_status"] for record in records} == {"ok"}


# --- clocks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_simulator_cools_down_between_runs(tmp_path: Path, clock: Clock, workers: int) -> None:
    engine = PretendedEngine(workers, clock, seconds=5.0)
    config = configure(6, workers=workers, test_runs=2)
    records = lead(make_night(tmp_path / "cool", config, engine, cooldown=2.0))
    for end in engine.ended:
        assert not any(end <= begin < end + 2.0 for begin in engine.began)
    hasty = lead(make_night(tmp_path / "hasty", config, PretendedEngine(workers, clock)))
    assert records == hasty
    assert sum(record["role"] == "test" for record in trials_of(records)) == 6


def test_most_of_the_hours_explore_and_the_rest_confirms(tmp_path: Path, clock: Clock) -> None:
    engine = PretendedEngine(1, clock, seconds=60.0)
    config = configure(0, race=RaceConfig(share=0.3, closing=0.2))
    began = clock.now
    records = lead(make_night(tmp_path, config, engine, hours=1.0))
    kinds = [record["kind"] for record in records]
    closing = kinds.index("closing")
    stop = records[kinds.index("stop")]
    assert stop["reason"].startswith("time: 1 hours")
    late = [r["role"] for r in records[closing:] if r["kind"] == "proposal"]
    assert late and "explore" not in late
    begun = [r for r in records[: kinds.index("stop")] if r["kind"] == "proposal"]
    assert 55 <= len(begun) <= 60
    assert 3600 <= engine.ended[len(begun) - 1] - began < 3600 + 62


# --- the same study, whatever happens ----------------------------------------------------------


def spoil_some(job: Job, table: dict[str, Any]) -> Outcome:
    if job.trial % 5 == 3:
        return Outcome(job.trial, "timeout", reason="it took too long")
    return succeed(job, table)


def test_ordered_decisions_do_not_hang_on_who_ends_first(tmp_path: Path, clock: Clock) -> None:
    studies = []
    for luck in range(4):
        engine = PretendedEngine(3, clock, spoil_some, luck=random.Random(luck))
        studies.append(lead(make_night(tmp_path / str(luck), configure(14, 3), engine)))
    assert studies[0] == studies[1] == studies[2] == studies[3]
    assert len(trials_of(studies[0])) == 14 + 3


class Killed(BaseException):
    """As SIGKILL would have it: nothing is done after it."""


class ShortLived:
    """A book whose controller is killed at every record: before it is written, or after."""

    def __init__(self, ledger: Ledger, after: bool) -> None:
        self.ledger, self.after, self.written = ledger, after, 0

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        return self.ledger.records(kind)

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        if self.written == 1:
            raise Killed
        record = self.ledger.append(kind, **fields)
        self.written += 1
        if self.after:
            raise Killed
        return record


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_every_record_it_is_the_same_study(
    tmp_path: Path, clock: Clock, workers: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(night_module, "ATTEMPTS", 10_000)
    config = configure(14, workers, race=RaceConfig(share=0.5, closing=0.4, runs=1))
    usual = lead(make_night(tmp_path / "u", config, PretendedEngine(workers, clock, spoil_some)))
    path = tmp_path / "k" / "ledger.jsonl"
    Ledger.create(path, {}).close()
    lives = 0
    while True:
        lives += 1
        with Ledger.open(path) as ledger:
            engine = PretendedEngine(workers, clock, spoil_some, luck=random.Random(lives))
            try:
                book = ShortLived(ledger, after)
                records = lead(make_night(path.parent, config, engine, book))
                break
            except Killed:
                assert book.written == 1  # each life gets one record further
    assert records[1:] == usual
    assert lives >= len(usual)
    assert {r["kind"] for r in usual} >= {"proposal", "trial", "title", "standing", "stop"}


def test_who_was_killed_in_the_last_test_finishes_it(tmp_path: Path, clock: Clock) -> None:
    config = configure(6, test_runs=2)
    usual = lead(make_night(tmp_path / "u", config, PretendedEngine(1, clock)))
    book = MemoryBook()
    night = make_night(tmp_path / "k", config, PretendedEngine(1, clock), book)
    night.run()
    assert night.study.next_test() is not None
    again = make_night(tmp_path / "k", config, PretendedEngine(1, clock), book)
    assert lead(again) == usual


# --- publishing --------------------------------------------------------------------------------


def test_a_push_that_fails_is_a_record_and_nothing_else(tmp_path: Path, clock: Clock) -> None:
    class Publisher:
        def __init__(self) -> None:
            self.told: list[int] = []

        def trial_finished(self, finished: int) -> None:
            self.told.append(finished)

        def collect(self) -> list[dict[str, Any]]:
            return [{"ok": False, "reason": "the remote refused"}] if len(self.told) == 2 else []

    publisher = Publisher()
    night = make_night(
        tmp_path / "a",
        configure(3),
        PretendedEngine(1, clock),
        publisher=publisher,
    )
    said: list[str] = []
    night.say = said.append
    records = lead(night)
    usual = lead(make_night(tmp_path / "b", configure(3), PretendedEngine(1, clock)))
    assert [r for r in records if r["kind"] != "push"] == usual
    assert {"kind": "push", "ok": False, "reason": "the remote refused"} in records
    assert "push failed: the remote refused" in said
    assert publisher.told == [1, 2, 3, 4, 5]


# --- the real thing ----------------------------------------------------------------------------


def soak(*words: str) -> dict[str, Any]:
    command = [sys.executable, str(SOAK), "--json", *words]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.stdout, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    assert answer["problems"] == [] and ended.returncode == 0
    return answer


@pytest.mark.slow
def test_a_short_night_with_everything_going_wrong(tmp_path: Path) -> None:
    answer = soak("--trials", "80", "--kills", "8", "--folder", str(tmp_path / "soak"))
    assert answer["trials"] == 86 and answer["kills"] == 8
    assert answer["statuses"] == {"ok": 76, "failed": 7, "killed": 2, "timeout": 1}
    assert len(answer["faults"]) == 11


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    try:
        subprocess.run(["unshare", "--map-root-user", "--mount", "true"], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a disk of its own: user namespaces, on Linux")
    answer = soak("--trials", "20", "--fill", "3", "--folder", str(tmp_path / "soak"))
    assert answer["moments"] == {"full": 3}


def test_a_folder_that_another_study_left_is_cleared(tmp_path: Path, clock: Clock) -> None:
    first = make_night(tmp_path, configure(1), PretendedEngine(1, clock), MemoryBook())
    folder = first.trial_folder(1)
    folder.mkdir(parents=True)
    (folder / "trial.json").write_text(json.dumps({"params": {"x": 0.1}, "attempt": 1}))
    write_result(folder, {"mean_reward": 12345.0})
    assert trials_of(lead(first))[0]["mean_reward"] != 12345.0
