"""Trials as real processes: how each kind of end is told, and that nothing survives any of them."""

import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotlap.research.engines import local, processes
from hotlap.research.engines.job import Job, Outcome, examine_result, read_result, write_result
from hotlap.research.engines.local import LocalEngine, sweep

PYTHON = (sys.executable, "-S", "-c")
FULL_PYTHON = (sys.executable, "-c")
RESULT = {"mean_reward": 0.1 + 0.2, "steps": 1000, "name": "µ"}
DONE = f"""
import sys
from pathlib import Path
from hotlap.research.engines.job import write_result
write_result(Path(sys.argv[1]), {RESULT!r})
"""
GRANDCHILDREN = """
import os, signal, subprocess, sys, time
sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(120)"]
stubborn = [sys.executable, "-S", "-c",
            "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(120)"]
orphan = '''
import subprocess, sys
print(subprocess.Popen({!r}, start_new_session=True, stdout=subprocess.DEVNULL).pid)
'''.format(sleeper)
pids = [os.getpid(), subprocess.Popen(sleeper).pid]
pids.append(subprocess.Popen(sleeper, start_new_session=True).pid)
pids.append(subprocess.Popen(stubborn, start_new_session=True).pid)
pids.append(int(subprocess.check_output([sys.executable, "-S", "-c", orphan])))
time.sleep(0.2)
with open(sys.argv[1] + "/pids.part", "w") as file:
    file.write(" ".join(map(str, pids)))
os.rename(sys.argv[1] + "/pids.part", sys.argv[1] + "/pids")
"""


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2, grace=0.5) as engine:
        yield engine


class Bench:
    """Makes jobs in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def job(
        self, code: str, trial: int = 0, python: tuple[str, ...] = PYTHON, **settings: object
    ) -> Job:
        folder = self.folder / f"{trial:04d}"
        return Job(trial, folder, (*python, code, str(folder)), **settings)  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def outcome_of(engine: LocalEngine, job: Job) -> Outcome:
    engine.submit(job)
    (outcome,) = engine.poll(30)
    assert not (job.folder / local.RECORD).exists()
    return outcome


def eventually(fact: Callable[[], object], within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def running(pids: list[int]) -> list[int]:
    """Those that run; a zombie does not."""
    found = (processes.look(pid) for pid in pids)
    return [process.pid for process in found if process is not None and process.running]


def pids_in(folder: Path) -> list[int]:
    assert eventually((folder / "pids").exists)
    pids = [int(word) for word in (folder / "pids").read_text().split()]
    assert len(pids) == 5
    return pids


# --- how a trial ends -----------------------------------------------------------------------------


def test_done_is_a_whole_result(engine: LocalEngine, bench: Bench) -> None:
    job = bench.job(DONE, trial=7, python=FULL_PYTHON)
    outcome = outcome_of(engine, job)
    assert (outcome.trial, outcome.status, outcome.exit_code) == (7, "done", 0)
    assert outcome.reason == ""
    assert outcome.elapsed > 0.01 and outcome.peak_memory > 5_000_000
    assert read_result(job.folder) == RESULT


def test_a_failure_quotes_the_last_lines(engine: LocalEngine, bench: Bench) -> None:
    outcome = outcome_of(engine, bench.job("print('begun'); 1 / 0"))
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert "exited with code 1" in outcome.reason
    assert "begun" in outcome.reason and "ZeroDivisionError" in outcome.reason
    assert "ZeroDivisionError" in (bench.folder / "0000" / "output.txt").read_text()


def test_exit_0_without_a_result_is_a_failure(engine: LocalEngine, bench: Bench) -> None:
    outcome = outcome_of(engine, bench.job("pass"))
    assert (outcome.status, outcome.exit_code) == ("failed", 0)
    assert "there is no" in outcome.reason and "result.json" in outcome.reason


def test_a_result_counts_whatever_the_exit_code(engine: LocalEngine, bench: Bench) -> None:
    outcome = outcome_of(engine, bench.job(DONE + "sys.exit(3)", python=FULL_PYTHON))
    assert (outcome.status, outcome.exit_code) == ("done", 3)
    assert "code 3" in outcome.reason


def test_a_result_counts_though_the_end_hangs(engine: LocalEngine, bench: Bench) -> None:
    code = DONE + "import time; time.sleep(60)"
    outcome = outcome_of(engine, bench.job(code, python=FULL_PYTHON, time_limit=1.0))
    assert outcome.status == "done"
    assert "longer than 1 s" in outcome.reason


def test_a_damaged_result_is_none(engine: LocalEngine, bench: Bench) -> None:
    code = DONE + "path = Path(sys.argv[1]) / 'result.json'; data = path.read_bytes()\n"
    outcome = outcome_of(engine, bench.job(code + "path.write_bytes(data[:-30])", 0, FULL_PYTHON))
    assert outcome.status == "failed" and "damaged" in outcome.reason
    code += "path.write_bytes(data.replace(b'1000', b'1001'))"
    outcome = outcome_of(engine, bench.job(code, 1, FULL_PYTHON))
    assert outcome.status == "failed" and "checksum" in outcome.reason


def test_one_that_has_its_result_is_not_run_again(engine: LocalEngine, bench: Bench) -> None:
    job = bench.job("open(__import__('sys').argv[1] + '/ran', 'w')")
    job.folder.mkdir()
    write_result(job.folder, RESULT)
    outcome = outcome_of(engine, job)
    assert outcome.status == "done"
    assert not (job.folder / "ran").exists()


def test_a_signal_is_named(engine: LocalEngine, bench: Bench) -> None:
    outcome = outcome_of(engine, bench.job("import os; os.kill(os.getpid(), 11)"))
    assert (outcome.status, outcome.exit_code) == ("killed", -signal.SIGSEGV)
    assert "SIGSEGV" in outcome.reason


def test_a_program_that_is_not_there(engine: LocalEngine, bench: Bench) -> None:
    outcome = outcome_of(engine, Job(0, bench.folder / "0000", ("/no/such/program",)))
    assert outcome.status == "failed"
    assert "/no/such/program could not be started" in outcome.reason


def test_a_command_that_no_system_takes(engine: LocalEngine, bench: Bench) -> None:
    outcome = outcome_of(engine, Job(0, bench.folder / "0000", ("echo", "\0")))
    assert outcome.status == "failed" and "could not be started" in outcome.reason


def test_impossible_jobs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="command"):
        Job(0, tmp_path, ())
    with pytest.raises(ValueError, match="time_limit"):
        Job(0, tmp_path, ("true",), time_limit=-1)
    with pytest.raises(ValueError, match="memory_limit"):
        Job(0, tmp_path, ("true",), memory_limit=float("nan"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gpu"):
        Job(0, tmp_path, ("true",), gpu=1.5)
    with pytest.raises(ValueError, match="JSON"):
        write_result(tmp_path, {"mean_reward": float("nan")})
    with pytest.raises(ValueError, match="unchanged"):
        write_result(tmp_path, {"pair": (1, 2)})


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b'{"format": 2, "result": {}}', b"\xff", b"[" * 100_000]
)
def test_whatever_is_no_result_has_a_sentence(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(data)
    table, reason = examine_result(tmp_path)
    assert table is None and str(tmp_path) in reason


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hang_ends_with_all_that_it_started(engine: LocalEngine, bench: Bench) -> None:
    job = bench.job(GRANDCHILDREN + "time.sleep(120)", time_limit=2.0)
    outcome = outcome_of(engine, job)
    assert outcome.status == "timeout" and "longer than 2 s" in outcome.reason
    assert 2.0 <= outcome.elapsed < 10.0
    assert running(pids_in(job.folder)) == []


def test_what_a_finished_trial_leaves_running_ends_too(engine: LocalEngine, bench: Bench) -> None:
    job = bench.job(GRANDCHILDREN + "os._exit(0)")
    outcome = outcome_of(engine, job)
    assert outcome.exit_code == 0
    assert running(pids_in(job.folder)) == []


def test_a_memory_hog_is_killed_and_others_go_on(engine: LocalEngine, bench: Bench) -> None:
    hog = "import subprocess, sys\nsubprocess.run([sys.executable, '-S', '-c', {!r}])"
    hog = hog.format("x = []\nwhile True: x.append(bytearray(5_000_000))")
    engine.submit(bench.job(hog, 0, memory_limit=150_000_000))
    engine.submit(bench.job("import time; time.sleep(1.5)\n" + DONE, 1, FULL_PYTHON))
    first = engine.poll(30) + engine.poll(30)
    assert [outcome.status for outcome in first] == ["killed", "done"]
    assert "more memory than 150 MB" in first[0].reason
    assert first[0].peak_memory > 150_000_000


def test_without_progress_it_hangs(engine: LocalEngine, bench: Bench) -> None:
    beats = """
import os, sys, time
for step in range(4):
    time.sleep(0.3)
    open(sys.argv[1] + "/heartbeat", "w").write(str(step))
while True:
    time.sleep(0.1)
    open(sys.argv[1] + "/heartbeat", "w").write("3")  # a thread that beats is no progress
"""
    job = bench.job(beats, heartbeat_limit=0.8, first_heartbeat_limit=10)
    outcome = outcome_of(engine, job)
    assert outcome.status == "timeout" and "hung" in outcome.reason
    assert 2.0 <= outcome.elapsed < 10.0


@pytest.mark.slow
def test_growing_tables_are_progress(engine: LocalEngine, bench: Bench) -> None:
    rows = """
import os, sys, time
os.mkdir(sys.argv[1] + "/run")
for step in range(6):
    time.sleep(0.4)
    open(sys.argv[1] + "/run/train.jsonl", "a").write("{}")
"""
    outcome = outcome_of(engine, bench.job(rows, heartbeat_limit=1.0))
    assert outcome.status == "failed" and outcome.exit_code == 0


def test_the_first_sign_of_progress_has_its_own_limit(engine: LocalEngine, bench: Bench) -> None:
    job = bench.job("import time; time.sleep(60)", heartbeat_limit=30, first_heartbeat_limit=0.3)
    outcome = outcome_of(engine, job)
    assert outcome.status == "timeout" and "no progress" in outcome.reason
    assert outcome.elapsed < 10


def test_stacks_are_printed_by_those_who_promised(engine: LocalEngine, bench: Bench) -> None:
    code = """
import sys, time
from pathlib import Path
from hotlap.research.engines.job import promise_stacks
def stuck_here():
    time.sleep(60)
promise_stacks(Path(sys.argv[1]))
stuck_here()
"""
    outcome = outcome_of(engine, bench.job(code, python=FULL_PYTHON, time_limit=1.0))
    assert outcome.status == "timeout" and "stuck_here" in outcome.reason


def test_others_get_no_signal_they_do_not_expect(engine: LocalEngine, bench: Bench) -> None:
    code = "import signal, time; signal.signal(15, lambda *_: print('asked to end')); "
    job = bench.job(code + "time.sleep(1); time.sleep(60)", time_limit=0.5)
    job.folder.mkdir()
    (job.folder / "stacks-ready").touch()  # by an earlier attempt
    outcome = outcome_of(engine, job)
    assert "asked to end" in outcome.reason
    assert outcome.exit_code == -signal.SIGKILL


def test_a_trial_that_ends_well_when_asked_was_still_too_slow(
    engine: LocalEngine, bench: Bench
) -> None:
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); time.sleep(60)"
    outcome = outcome_of(engine, bench.job(code, 0, time_limit=0.5))
    assert (outcome.status, outcome.exit_code) == ("timeout", 0)
    assert "longer than 0.5 s" in outcome.reason
    engine.submit(bench.job(code, 1))
    time.sleep(0.5)
    engine.cancel(1)
    (outcome,) = engine.poll(10)
    assert (outcome.status, outcome.exit_code, outcome.reason) == ("killed", 0, "it was cancelled")


def test_a_stopped_trial_ends_as_well(engine: LocalEngine, bench: Bench) -> None:
    outcome = outcome_of(engine, bench.job("import os; os.kill(os.getpid(), 19)", time_limit=0.3))
    assert (outcome.status, outcome.exit_code) == ("timeout", -signal.SIGTERM)


def test_a_clock_that_jumps_changes_nothing(
    engine: LocalEngine, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.submit(bench.job("import time; time.sleep(0.5)\n" + DONE, 0, FULL_PYTHON, time_limit=20))
    monkeypatch.setattr(time, "time", lambda: 1e12)
    monkeypatch.setattr(time, "time_ns", lambda: 10**21)
    (outcome,) = engine.poll(30)
    assert outcome.status == "done" and outcome.elapsed < 10
    for module in ("local", "watch", "warden", "processes"):
        source = Path(local.__file__).with_name(f"{module}.py").read_text()
        assert "time.time" not in source and "datetime" not in source


@pytest.mark.slow
def test_progress_is_measured_against_what_was(bench: Bench, engine: LocalEngine) -> None:
    code = """
import os, sys, time
path = sys.argv[1] + "/heartbeat"
for step in range(5):
    open(path, "w").write(str(step))
    os.utime(path, (step * 1e9, step * 1e9))  # the clock jumps by years
    time.sleep(0.4)
"""
    outcome = outcome_of(engine, bench.job(code, heartbeat_limit=1.5))
    assert outcome.status == "failed" and outcome.exit_code == 0


# --- output and surroundings ----------------------------------------------------------------------


def test_output_is_bounded_and_the_newest_is_kept(bench: Bench) -> None:
    code = "print('first'); [print('x' * 999) for _ in range(3000)]; print('last words')"
    with LocalEngine(1, output_limit=1_000_000) as engine:
        outcome = outcome_of(engine, bench.job(code))
    kept = [path for path in (bench.folder / "0000").iterdir() if "output" in path.name]
    assert sum(path.stat().st_size for path in kept) <= 1_000_000 + 2 * 65536
    assert "last words" in outcome.reason
    assert len(outcome.reason) < 6000


def test_a_flood_is_held_back(bench: Bench) -> None:
    code = "import os\nwhile True: os.write(1, b'x' * 65536)"
    with LocalEngine(1, output_limit=100_000, grace=0.5) as engine:
        engine.submit(bench.job(code, time_limit=1.0))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        (outcome,) = engine.poll(30)
    assert outcome.status == "timeout"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 0.5


def test_the_surroundings_of_a_command(
    engine: LocalEngine, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    code = """
import json, os, resource, signal, sys
print(json.dumps({
    "threads": os.environ["OMP_NUM_THREADS"], "unbuffered": os.environ["PYTHONUNBUFFERED"],
    "own": os.environ["OWN"], "input": os.read(0, 10).decode(),
    "core": resource.getrlimit(resource.RLIMIT_CORE)[0], "leads": os.getsid(0) == os.getpid(),
    "handles": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
}))
"""
    outcome = outcome_of(engine, bench.job(code, env={"OWN": "yes"}))
    facts = json.loads(outcome.reason.splitlines()[-1])
    assert facts == {
        "threads": "1",
        "unbuffered": "1",
        "own": "yes",
        "input": "",
        "core": 0,
        "leads": True,
        "handles": [0, 1, 2],
    }


SEES = "import os, time; time.sleep(0.3); print('sees', os.environ.get('CUDA_VISIBLE_DEVICES'))"


def seen_by(engine: LocalEngine) -> dict[int, str]:
    """What each trial that printed SEES saw."""
    outcomes: list[Outcome] = []
    while found := engine.poll(30):
        outcomes += found
    return {outcome.trial: outcome.reason.rpartition("sees")[2].strip() for outcome in outcomes}


def test_gpus_are_shared_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with LocalEngine(8, gpus=(2, 5)) as engine:
        shares = [0.5, 0.5, 0.5, 0.5, 0.0, 1.0]
        records = [engine.submit(bench.job(SEES, n, gpu=gpu)) for n, gpu in enumerate(shares)]
        assert records[5] == {}  # it waits until a whole one is free
        seen = seen_by(engine)
    assert sorted(seen[trial] for trial in range(4)) == ["2", "2", "5", "5"]
    assert seen[4] == "" and seen[5] in ("2", "5")


def test_gpus_of_others_are_left_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-abc")
    with LocalEngine(2, gpus=(0, 1)) as engine:
        for number in range(2):
            engine.submit(bench.job(SEES, number, gpu=1.0))
        assert seen_by(engine) == {0: "2", 1: "GPU-abc"}


def test_a_full_disk_is_reported_and_survived(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = bench.job("print('words')")
    job.folder.mkdir()
    (job.folder / "output.txt").symlink_to("/dev/full")

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with LocalEngine(1) as engine:
        outcome = outcome_of(engine, job)
    assert outcome.status == "failed" and "words" in outcome.reason
    assert "process.json could not be written: No space left on device" in outcome.reason
    assert "some output could not be written: No space left on device" in outcome.reason


def test_a_folder_that_cannot_be_made_is_no_fault_of_the_trial(bench: Bench) -> None:
    (bench.folder / "0000").write_text("a file")
    with LocalEngine(1) as engine:
        engine.submit(bench.job("pass"))
        (outcome,) = engine.poll(1)
    assert outcome.status == "lost" and "could not be started" in outcome.reason


# --- many -----------------------------------------------------------------------------------------


def test_more_than_there_is_room_for_wait_their_turn(engine: LocalEngine, bench: Bench) -> None:
    began = time.monotonic()
    for trial in range(5):
        engine.submit(bench.job("import time; time.sleep(0.2)", trial))
    with pytest.raises(ValueError, match="submitted already"):
        engine.submit(bench.job("pass", 4))
    trials: list[int] = []
    while found := engine.poll(30):
        trials += [outcome.trial for outcome in found]
    assert sorted(trials) == list(range(5))
    assert time.monotonic() - began > 0.6


def test_polling_nothing_returns_at_once(engine: LocalEngine) -> None:
    began = time.monotonic()
    assert engine.poll(10) == []
    assert time.monotonic() - began < 0.1


def test_waiting_costs_next_to_nothing(engine: LocalEngine, bench: Bench) -> None:
    engine.submit(bench.job("import time; time.sleep(60)"))
    before = time.process_time()
    assert engine.poll(1.0) == []
    assert time.process_time() - before < 0.05


@pytest.mark.slow
def test_overhead_of_fifty_trials(bench: Bench) -> None:
    with LocalEngine(1) as engine:
        seconds, bare = [], []
        for trial in range(50):
            began = time.monotonic()
            engine.submit(bench.job("pass", trial))
            assert len(engine.poll(30)) == 1
            seconds.append(time.monotonic() - began)
            began = time.monotonic()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            bare.append(time.monotonic() - began)
    # 0.06 s. A bare interpreter takes 0.04 s here; a machine that takes longer for that alone
    # is busy, and may take as much longer for the rest.
    assert sorted(seconds)[25] < 0.1 * max(1.0, sorted(bare)[25] / 0.04)


# --- being ended ----------------------------------------------------------------------------------


def test_cancelling(engine: LocalEngine, bench: Bench) -> None:
    for trial in range(3):
        engine.submit(bench.job(GRANDCHILDREN + "time.sleep(60)", trial))
    pids = pids_in(bench.folder / "0000")
    engine.cancel(0)
    engine.cancel(2)  # it still waits
    engine.cancel(99)  # nobody
    outcomes = engine.poll(10)
    while len(outcomes) < 2:
        outcomes += engine.poll(10)
    assert {outcome.trial for outcome in outcomes} == {0, 2}
    assert all(outcome.status == "killed" for outcome in outcomes)
    assert all("cancelled" in outcome.reason for outcome in outcomes)
    assert running(pids) == []
    assert not (bench.folder / "0002").exists()


def test_cancelling_right_after_the_start(engine: LocalEngine, bench: Bench) -> None:
    for trial, pause in enumerate((0.0, 0.005, 0.01, 0.02, 0.03, 0.05)):
        engine.submit(bench.job("import time; time.sleep(60)", trial))
        time.sleep(pause)
        engine.cancel(trial)
        (outcome,) = engine.poll(10)
        assert outcome.status == "killed" and "cancelled" in outcome.reason


def test_closing_leaves_nobody(bench: Bench) -> None:
    engine = LocalEngine(2, grace=0.3)
    for trial in range(3):
        engine.submit(bench.job(GRANDCHILDREN + "time.sleep(60)", trial))
    pids = pids_in(bench.folder / "0000") + pids_in(bench.folder / "0001")
    engine.close()
    assert running(pids) == []
    assert engine.poll(1) == []


def test_a_killed_warden_is_noticed_and_its_trial_ended(engine: LocalEngine, bench: Bench) -> None:
    record = engine.submit(bench.job(GRANDCHILDREN + "time.sleep(60)"))
    pids = pids_in(bench.folder / "0000")
    os.kill(record["pid"], signal.SIGKILL)
    (outcome,) = engine.poll(10)
    assert outcome.status == "killed" and "SIGKILL" in outcome.reason
    assert running(pids) == []


@pytest.mark.slow
def test_a_frozen_warden_does_not_stop_the_night(
    engine: LocalEngine, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "SLACK", 0.5)
    record = engine.submit(bench.job(GRANDCHILDREN + "time.sleep(60)", time_limit=1.5))
    pids = pids_in(bench.folder / "0000")
    os.kill(record["pid"], signal.SIGSTOP)
    (outcome,) = engine.poll(10)
    assert outcome.status == "timeout"
    assert eventually(lambda: running([record["pid"], *pids]) == [])  # a kill takes its time


CONTROLLER = """
import sys, time
from pathlib import Path
from hotlap.research.engines.job import Job
from hotlap.research.engines.local import LocalEngine
engine = LocalEngine(1)
folder = Path(sys.argv[1])
engine.submit(Job(0, folder, (sys.executable, "-S", "-c", sys.argv[2], str(folder))))
print("submitted", flush=True)
engine.poll(120)
"""


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another controller, with a trial that runs in `trial`."""
    process = subprocess.Popen(
        [*FULL_PYTHON, CONTROLLER, str(tmp_path / "trial"), GRANDCHILDREN + "time.sleep(120)"],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_nothing_survives_a_killed_controller(
    controller: subprocess.Popen[str], tmp_path: Path
) -> None:
    pids = pids_in(tmp_path / "trial")
    warden = json.loads((tmp_path / "trial" / local.RECORD).read_text())["pid"]
    assert running(pids) == pids
    controller.kill()
    assert eventually(lambda: running([warden, *pids]) == [], within=3.0)


@pytest.mark.slow
def test_a_controller_killed_at_any_moment_of_the_start(tmp_path: Path) -> None:
    for pause in (0.0, 0.005, 0.01, 0.02, 0.04):
        folder = tmp_path / str(pause)
        process = subprocess.Popen(
            [*FULL_PYTHON, CONTROLLER, str(folder), "import time; time.sleep(120)"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        token = json.loads((folder / local.RECORD).read_text())["token"]
        time.sleep(pause)
        process.kill()
        process.communicate()
        assert eventually(lambda token=token: processes.bearers(token) == [], within=3.0)


def test_leftovers_are_swept_when_warden_and_controller_are_killed(
    controller: subprocess.Popen[str], tmp_path: Path
) -> None:
    pids = pids_in(tmp_path / "trial")
    with LocalEngine(1) as engine:  # while the other lives, the trial is its own
        (sentence,) = sweep(tmp_path)
        assert f"is being run by process {controller.pid}" in sentence
        engine.submit(Job(0, tmp_path / "trial", ("true",)))
        (outcome,) = engine.poll(5)
        assert outcome.status == "lost" and str(controller.pid) in outcome.reason
    assert running(pids) == pids

    warden = json.loads((tmp_path / "trial" / local.RECORD).read_text())["pid"]
    controller.send_signal(signal.SIGSTOP)
    os.kill(warden, signal.SIGKILL)
    controller.kill()
    controller.wait()
    assert eventually(lambda: running([warden, pids[0]]) == [])  # the command dies with its warden
    left = running(pids)
    assert len(left) >= 2  # in sessions of their own
    (sentence,) = sweep(tmp_path)
    assert f"ended {len(left)} processes" in sentence
    assert running(pids) == []
    assert sweep(tmp_path) == []


def test_somebody_else_with_an_old_pid_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([*PYTHON, "import time; time.sleep(60)"]) as bystander:
        found = processes.look(bystander.pid)
        assert found is not None
        record = {
            "pid": found.pid,
            "started": found.started - 5,
            "host": processes.machine(),
            "controller": [found.pid, found.started - 9],
            "token": secrets.token_hex(16),
        }
        for name, change in {
            "reused": {},
            "elsewhere": {"host": "other"},
            "odd": {"pid": []},
        }.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / local.RECORD).write_text(json.dumps(record | change))
        sentences = sweep(tmp_path)
        assert len(sentences) == 2
        assert "left by other" in sentences[0] and "cannot be read" in sentences[1]
        assert bystander.poll() is None
        bystander.kill()


def test_an_interrupted_trial_runs_again_in_its_folder(
    controller: subprocess.Popen[str], tmp_path: Path
) -> None:
    pids = pids_in(tmp_path / "trial")
    controller.kill()
    controller.wait()
    with LocalEngine(1) as engine:
        engine.submit(Job(0, tmp_path / "trial", (*FULL_PYTHON, DONE, str(tmp_path / "trial"))))
        assert running(pids) == []  # before the new one began
        (outcome,) = engine.poll(30)
    assert outcome.status == "done"
