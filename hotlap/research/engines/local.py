"""Trials as processes of this machine, of which nothing survives.

Each command has a warden (warden.py) between itself and this process, which watches its limits and
ends everything it started: at the trial's end, when asked to, and when this process dies. Should
the warden be killed too, the trial's processes are found by identity and token, from process.json,
when the next engine takes the folder or somebody sweeps it. Nothing is ever found by name.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hotlap.research.engines import processes
from hotlap.research.engines.job import STACKS_READY, Job, Outcome, Status, examine_result
from hotlap.research.engines.queue import QueuedEngine
from hotlap.research.engines.warden import command_line

RECORD = "process.json"
VISIBLE = "CUDA_VISIBLE_DEVICES"
SLACK = 10.0
"""Seconds that a warden may be late before its trial is ended without it."""
LINES = 20
"""How many of the last lines a reason quotes."""


class LocalEngine(QueuedEngine["_Trial"]):
    """Runs up to `capacity` trials at once; used from one thread. See `Engine`."""

    def __init__(
        self,
        capacity: int = 1,
        *,
        gpus: tuple[int, ...] = (),
        grace: float = 2.0,
        output_limit: int = 10_000_000,
    ) -> None:
        """Take over this machine's part.

        Args:
            capacity: How many trials run at the same time.
            gpus: The devices to hand out, by number. A trial gets the one with most left of it and
                waits while none has its share; one that asks for no GPU sees none. Without any,
                trials see what this process sees.
            grace: Seconds between asking a trial to end and killing it.
            output_limit: Bytes of output kept of each trial, at most.
        """
        super().__init__(capacity)
        if output_limit < 1:
            raise ValueError(f"output_limit must be at least 1, got {output_limit}")
        self._gpus, self._grace, self._output_limit = gpus, grace, output_limit
        self._controller = _own_identity()
        processes.keep_exit_codes()

    @property
    def has_gpus(self) -> bool:
        """Whether there are GPUs to hand out."""
        return bool(self._gpus)

    def poll(self, timeout: float) -> list[Outcome]:
        """What ended since the last call; waits for something to end if anything runs."""
        deadline = time.monotonic() + timeout
        while True:
            self._start_waiting()
            if self._ended or not self._running:
                break
            self._wait(min(deadline - time.monotonic(), 1.0))
            if not self._ended and time.monotonic() >= deadline:
                break
        return self._take_ended()

    def close(self) -> None:
        """End everything; raises RuntimeError if a process survives all of it."""
        self._waiting.clear()
        trials = list(self._running.values())
        for trial in trials:
            self._end(trial)
        while self._running:
            self._wait(1.0)
        self._ended.clear()
        left = [pid for trial in trials for pid, _ in processes.bearers(trial.token)]
        if left:
            raise RuntimeError(
                f"processes {left} of trials could not be ended; the system holds them, "
                "look at what they wait for (ps -o pid,stat,wchan,cmd)"
            )

    def _who(self, running: "_Trial") -> dict[str, Any]:
        return running.record

    def _end(self, running: "_Trial") -> None:
        running.ask_to_end(self._grace + SLACK)

    def _free_gpu(self, share: float) -> int | None:
        """The device with most left of it, if that is enough."""
        taken = {gpu: 0.0 for gpu in self._gpus}
        for trial in self._running.values():
            if trial.gpu is not None:
                taken[trial.gpu] += trial.job.gpu
        gpu = min(taken, key=lambda each: taken[each])
        return gpu if taken[gpu] + share <= 1 + 1e-9 else None

    def _start(self, job: Job) -> "_Trial | None":
        gpu = self._free_gpu(job.gpu) if job.gpu and self._gpus else None
        if job.gpu and self._gpus and gpu is None:
            return None
        folder = job.folder
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder / RECORD)
        (folder / STACKS_READY).unlink(missing_ok=True)  # the word of an earlier attempt
        token = secrets.token_hex(16)
        first = job.first_heartbeat_limit or 5 * job.heartbeat_limit
        process = subprocess.Popen(
            command_line(
                job.command,
                str(folder),
                job.time_limit,
                job.memory_limit,
                first,
                job.heartbeat_limit,
                self._grace,
                self._output_limit,
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment(job, gpu) | {processes.TOKEN: token},
            start_new_session=True,
        )
        trial = _Trial(job, process, token, gpu, self._grace)
        trial.write_record(folder / RECORD, self._controller)
        return trial

    def _environment(self, job: Job, gpu: int | None) -> dict[str, str]:
        env = {"OMP_NUM_THREADS": "1"} | os.environ
        env |= {"PYTHONUNBUFFERED": "1"}
        if self._gpus:
            env[VISIBLE] = "" if gpu is None else _gpu_name(gpu)
        return env | dict(job.env)

    def _wait(self, seconds: float) -> None:
        """Until a trial ends or the time is over."""
        by_handle = {trial.handle: trial for trial in self._running.values()}
        poll = select.poll()
        for handle in by_handle:
            poll.register(handle, select.POLLIN)
        over = {by_handle[handle] for handle, _ in poll.poll(max(seconds, 0.0) * 1000)}
        now = time.monotonic()
        for trial in by_handle.values():
            if (trial in over and trial.has_reported()) or now > trial.deadline:
                self._ended.append(trial.outcome())
                del self._running[trial.job.trial]


class _Trial:
    """A job that runs."""

    def __init__(
        self, job: Job, process: subprocess.Popen[bytes], token: str, gpu: int | None, grace: float
    ) -> None:
        assert process.stdout is not None
        self.job, self.token, self.gpu = job, token, gpu
        self.record: dict[str, Any] = {}
        self.handle = process.stdout.fileno()
        os.set_blocking(self.handle, False)
        self._process = process
        self._began = time.monotonic()
        self._cancelled = False
        self._said = b""
        self._problems: list[str] = []
        self.deadline = float("inf")
        """When it is ended from here, should its warden not have done it."""
        if job.time_limit:
            self.deadline = self._began + job.time_limit + grace + SLACK

    def write_record(self, path: Path, controller: processes.Identity) -> None:
        """Say who runs the trial, for those who come after us."""
        warden = processes.look(self._process.pid)  # a child that was not waited for: it is there
        started = warden.started if warden else 0
        self.record = {"pid": self._process.pid, "started": started, "host": processes.machine()}
        record = self.record | {"controller": controller, "token": self.token}
        part = path.with_name(f".{path.name}.part")
        try:
            # Not flushed to the disk: after a power cut there are no processes either.
            part.write_text(json.dumps(record), encoding="utf-8")
            os.replace(part, path)
        except OSError as error:
            self._problems.append(f"{RECORD} could not be written: {error.strerror}")

    def ask_to_end(self, within: float) -> None:
        """Have the warden end it; `deadline` does otherwise."""
        if not self._cancelled:
            self._cancelled = True
            self.deadline = min(self.deadline, time.monotonic() + within)
            self._process.terminate()

    def has_reported(self) -> bool:
        """Read what the warden says; whether it has said everything."""
        while True:
            try:
                data = os.read(self.handle, 65536)
            except BlockingIOError:
                return False
            if not data:
                return True
            self._said += data

    def outcome(self) -> Outcome:
        """How it ended; nothing of it is left afterwards."""
        report = self._report()
        left = report.get("left", [])
        if not report or left:
            left = self._kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # if the system holds it for ever
            self._process.wait(timeout=5)
        if not left:
            with contextlib.suppress(OSError):
                (self.job.folder / RECORD).unlink(missing_ok=True)
        elapsed = report.get("elapsed", time.monotonic() - self._began)
        status, reason = self._verdict(report)
        problems = [*self._problems, report.get("problem", "")]
        if left:
            problems.append(f"processes {left} could not be ended")
        return Outcome(
            self.job.trial,
            status,
            report.get("exit_code"),
            elapsed,
            report.get("peak_memory", 0),
            "; ".join(filter(None, [*problems, reason])),
        )

    def _report(self) -> dict[str, Any]:
        """What the warden said at its end; empty if it was killed or crashed before it could."""
        try:
            report = json.loads(self._said)
        except ValueError:
            return {}
        return report if isinstance(report, dict) else {}

    def _verdict(self, report: dict[str, Any]) -> tuple[Status, str]:
        """The result decides; the rest says why there is none."""
        status, reason = self._cause(report)
        table, missing = examine_result(self.job.folder)
        if table is not None:
            return "done", "" if report.get("exit_code") == 0 else f"it left its result; {reason}"
        if report.get("end") == "exit" and report["exit_code"] == 0:
            reason = f"it exited with code 0, but {missing}"
        elif "damaged" in missing:
            reason = f"{reason}; {missing}"
        return status, reason + _quote(report.get("tail", ""))

    def _cause(self, report: dict[str, Any]) -> tuple[Status, str]:
        """What ended it."""
        code, job = report.get("exit_code"), self.job
        late = not report and time.monotonic() > self.deadline
        if self._cancelled and not report:
            return "killed", "it was cancelled"
        match report.get("end", "time" if late else "warden"):
            case "cancel":
                return "killed", "it was cancelled"
            case "time":
                return "timeout", f"it took longer than {job.time_limit:g} s"
            case "heartbeat":
                return "timeout", f"it hung: no progress for {report['quiet']:.1f} s"
            case "memory":
                return "killed", f"it took more memory than {job.memory_limit / 1e6:.0f} MB"
            case "warden":
                said = _quote(self._said.decode(errors="replace"))
                return "killed", f"its warden ended with {_name(self._process.returncode)}{said}"
        if code is not None and code < 0:
            hint = ", perhaps by the system for want of memory" if code == -signal.SIGKILL else ""
            return "killed", f"it was ended by {_name(code)}{hint}"
        return "failed", f"it exited with {_name(code)}"

    def _kill(self) -> list[int]:
        """End all of it from here; the pids of those that cannot be ended."""
        # The warden's pid is its own until we have waited for it.
        left = processes.kill_all(lambda: _members(self.token, self._process.pid))
        return [pid for pid, _ in left]


def sweep(folder: Path) -> list[str]:
    """End what an earlier controller left running in a study; what was done, in sentences.

    A trial that another living controller runs is left alone.
    """
    sentences = []
    for path in _records(folder):
        try:
            sentences.append(_sweep(path))
        except RuntimeError as error:
            sentences.append(str(error))
    return [sentence for sentence in sentences if sentence]


def wait_until_free(folder: Path, within: float) -> None:
    """Wait for another living controller to leave a trial's folder, and end what it left there."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            _sweep(folder / RECORD)
        except RuntimeError:
            time.sleep(0.1)
        else:
            return


def _records(folder: Path) -> Iterator[Path]:
    """Of a trial's folder, or of the trials in a folder, or of the study with a folder of them."""
    for pattern in (RECORD, f"*/{RECORD}", f"*/*/{RECORD}"):
        yield from sorted(folder.glob(pattern))


def _sweep(path: Path) -> str:
    """End what is left of the trial that a record tells of, and remove the record."""
    try:
        record = json.loads(path.read_bytes())
        warden = int(record["pid"]), record["started"]
        controller = int(record["controller"][0]), record["controller"][1]
        token, host = str(record["token"]), record["host"]
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        return f"{path} cannot be read ({type(error).__name__}): look for leftovers by hand"
    if host != processes.machine():
        return (
            f"{path.parent} was left by {str(host).split(' ')[0]}, which cannot be seen from here"
        )
    if controller != _own_identity() and processes.is_alive(controller):
        raise RuntimeError(
            f"{path.parent} is being run by process {controller[0]}: wait or stop it"
        )

    seen: set[processes.Identity] = set()

    def find() -> list[processes.Identity]:
        pid = warden[0] if processes.is_alive(warden) else None
        found = _members(token, pid)
        seen.update(found)
        return found

    left = processes.kill_all(find)
    if left:
        raise RuntimeError(f"{path.parent} is held by processes {left} that cannot be ended")
    path.unlink(missing_ok=True)
    return f"{path.parent}: ended {len(seen)} processes of an earlier controller" if seen else ""


def _members(token: str, warden: int | None) -> list[processes.Identity]:
    """The processes of a trial: its warden, those with its token, and all who descend from them."""
    known = processes.table()
    pids = {pid for pid, _ in processes.bearers(token)} | ({warden} if warden else set())
    family = [known[pid] for pid in pids if pid in known]
    for pid in pids:
        family += processes.descendants(pid, known)
    return list({process.identity for process in family if process.running})


def _own_identity() -> processes.Identity:
    process = processes.look(os.getpid())
    assert process is not None
    return process.identity


def _gpu_name(number: int) -> str:
    """What the system calls the GPU that this process sees under a number; not all may be ours."""
    visible = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    return visible[number] if number < len(visible) else str(number)


def _name(code: int | None) -> str:
    """An exit code in words."""
    if code is None or code >= 0:
        return f"code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _quote(text: str) -> str:
    """The last lines of what was printed, for the end of a sentence."""
    lines = text.strip().splitlines()[-LINES:]
    return "; it printed last:\n" + "\n".join(lines) if lines else ""
