"""Watching a trial's command from its warden: output, limits, the end of everything it started.

Clocks are monotonic, so setting the time of day changes nothing; files are compared with what they
were, never with now.
"""

import json
import os
import select
import signal
import sys
import time

from hotlap.research.engines import processes

PERIOD = 0.5
"""Seconds between looks at memory and progress; a look takes about 2 ms."""
NEAR = 0.1
"""Seconds between looks once more than half of the memory allowed is taken."""
STACKS = 0.5
"""Seconds for printing stacks."""
TAIL = 4000
"""Bytes of output that are reported with the end."""
CHUNK = 65536
FLOOD_PAUSE = 0.01
"""Seconds before the next chunk from a trial that fills file after file. It is held back to 6 MB/s,
or a processor and a disk would be busy with output that is thrown away."""

_MAXRSS_UNIT = 1024 if sys.platform == "linux" else 1


class Limits:
    """When a trial is ended; 0 is no limit."""

    def __init__(
        self,
        seconds: float,
        memory: float,
        first_heartbeat: float,
        heartbeat: float,
        grace: float,
        output: float,
    ) -> None:
        self.seconds, self.memory = seconds, int(memory)
        self.first_heartbeat, self.heartbeat = first_heartbeat, heartbeat
        self.grace = grace
        """Seconds between asking a trial to end and making it."""
        self.output = int(output)
        """Bytes of output that are kept."""


class Watch:
    """One command's life, from just after its start."""

    def __init__(
        self,
        command: int,
        began: float,
        folder: str,
        output: int,
        engine: tuple[int, int],
        limits: Limits,
    ) -> None:
        """Take over a command.

        Args:
            command: Its pid; it leads a group and a session of its own.
            began: When it was started, by the monotonic clock.
            folder: The trial's.
            output: The end of a pipe where all that it prints comes out.
            engine: The pid of this process's parent, and a handle that can be read once that ended
                (-1 if there is none).
            limits: When to end it.
        """
        self.command, self.folder, self.limits = command, folder, limits
        self.engine, engine_handle = engine
        self.output = Output(output, os.path.join(folder, "output.txt"), limits.output)
        self.progress = Progress(folder)
        self.exit_code: int | None = None
        self.peak_memory = 0
        self.quiet = 0.0
        """Seconds without progress, when it was last looked at."""
        self.asked_to_end = False
        self._began = began
        self._next_look = self._began + PERIOD
        self._wake, self._poll = _wake_on_signals(), select.poll()
        for handle in (self._wake, output, engine_handle):
            if handle >= 0:
                self._poll.register(handle, select.POLLIN)
        self._clear_away()  # it may have ended before there was a signal to wake by

    def run(self) -> bytes:
        """Wait for the end, or bring it about; how it went, as a line of JSON."""
        end = self._wait()
        if end in ("time", "heartbeat"):
            self._ask_for_stacks()
        left = self._end_all()
        self.output.drain()
        report = {
            "end": end,
            "exit_code": self.exit_code,
            "elapsed": time.monotonic() - self._began,
            "peak_memory": self.peak_memory,
            "tail": self.output.tail.decode(errors="replace"),
            "problem": self.output.problem,
            "quiet": self.quiet,
            "left": [pid for pid, _ in left],
        }
        return json.dumps(report).encode() + b"\n"

    def _wait(self) -> str:
        """Until the trial ends by itself ("exit") or has to; which of them it was."""
        last = self._began + self.limits.seconds if self.limits.seconds else float("inf")
        while True:
            if self.exit_code is not None:
                return "exit"
            if self._abandoned():
                return "engine"
            if self.asked_to_end:
                return "cancel"
            now = time.monotonic()
            if now >= last:
                return "time"
            if now >= self._next_look:
                end = self._look(now)
                if end:
                    return end
            self._attend(min(self._next_look, last) - now)

    def _look(self, now: float) -> str:
        """At memory and progress; the limit that is passed, if any."""
        limit = self.limits.memory
        memory = processes.memory_of(self._family(), limit)
        self.peak_memory = max(self.peak_memory, memory)
        self._next_look = now + (NEAR if limit and memory > limit / 2 else PERIOD)
        if limit and memory > limit:
            return "memory"
        if self.limits.heartbeat:
            self.quiet = self.progress.seconds_without(now)
            first, later = self.limits.first_heartbeat, self.limits.heartbeat
            if self.quiet > (later if self.progress.seen else first):
                return "heartbeat"
        return ""

    def _attend(self, seconds: float) -> None:
        """Wait for output or a signal, and take what there is."""
        flooding = self.output.flooding
        if flooding:
            self._poll.modify(self.output.pipe, 0)
            seconds = min(seconds, FLOOD_PAUSE)
        ready = {handle for handle, _ in self._poll.poll(max(seconds, 0.0) * 1000)}
        if flooding:
            self._poll.modify(self.output.pipe, select.POLLIN)
        if (flooding or self.output.pipe in ready) and not self.output.take():
            self._poll.unregister(self.output.pipe)
        if self._wake in ready:
            self.asked_to_end |= signal.SIGTERM in os.read(self._wake, 512)
        self._clear_away()

    def _clear_away(self) -> None:
        """Have children that ended leave the process table: the command and adopted orphans."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.command:
                self.exit_code = os.waitstatus_to_exitcode(status)
                self.peak_memory = max(self.peak_memory, usage.ru_maxrss * _MAXRSS_UNIT)

    def _family(self) -> list[processes.Process]:
        """Everybody who descends from this process and runs."""
        everybody = processes.descendants(os.getpid(), processes.table())
        return [process for process in everybody if process.running]

    def _abandoned(self) -> bool:
        """Whether the engine is gone; its handle only wakes us to see it."""
        return os.getppid() != self.engine

    def _ask_for_stacks(self) -> None:
        """SIGUSR1 ends whoever does not expect it, so it goes only to one who gave its word."""
        if self.exit_code is None and os.path.exists(os.path.join(self.folder, "stacks-ready")):
            os.kill(self.command, signal.SIGUSR1)
            deadline = time.monotonic() + STACKS
            while self.exit_code is None and (left := deadline - time.monotonic()) > 0:
                self._attend(left)

    def _end_all(self) -> list[processes.Identity]:
        """Ask the command's group to end, then the others, then kill them; who is left even so."""
        deadline = time.monotonic() + self.limits.grace
        asked: set[processes.Identity] = set()
        while (family := self._family()) and time.monotonic() < deadline:
            if self._abandoned():  # the next engine may be waiting for the folder
                break
            group = [process for process in family if process.group == self.command]
            for process in group or family:
                if process.identity not in asked:
                    asked.add(process.identity)
                    processes.send(process.identity, signal.SIGTERM)
                    processes.send(process.identity, signal.SIGCONT)  # or a stopped one stays deaf
            self._attend(0.01)
        left = processes.kill_all(self._find_family)
        self._clear_away()
        return left

    def _find_family(self) -> list[processes.Identity]:
        self._clear_away()
        return [process.identity for process in self._family()]


class Output:
    """What the command prints, kept in a file and the one before it, so that it stays bounded."""

    def __init__(self, pipe: int, path: str, limit: int) -> None:
        self.pipe, self._path, self._limit = pipe, path, limit
        os.set_blocking(pipe, False)
        self.tail = b""
        self.problem = ""
        """Why something could not be written; the trial goes on without."""
        self.flooding = False
        """Whether more waits to be read after a file was filled."""
        self._file = -1
        self._written = 0
        self._filled = False

    def take(self) -> bool:
        """Read a chunk; False at the end."""
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            data = None
        if data:
            self.tail = (self.tail + data)[-TAIL:]
            self._keep(data)
        self.flooding = self._filled and data is not None and len(data) == CHUNK
        return data != b""

    def drain(self) -> None:
        """Read what is left in the pipe."""
        for _ in range(64):  # a pipe holds 64 kB, at most 1 MB; a survivor may go on writing
            if not self.take():
                return

    def _keep(self, data: bytes) -> None:
        try:
            if self._file < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._file = os.open(self._path, flags, 0o666)
                self._written = os.fstat(self._file).st_size
            self._written += os.write(self._file, data)
            if self._written > self._limit // 2:
                os.close(self._file)
                self._file, self._filled = -1, True
                stem, ending = os.path.splitext(self._path)
                os.replace(self._path, f"{stem}.1{ending}")
        except OSError as error:
            self.problem = f"some output could not be written: {error.strerror}"


class Progress:
    """Whether the trial gets on: its heartbeat says something new, or its tables grow."""

    def __init__(self, folder: str) -> None:
        self._heartbeat, self._run = os.path.join(folder, "heartbeat"), os.path.join(folder, "run")
        self._state, self._since = self._read(), time.monotonic()
        self.seen = False

    def seconds_without(self, now: float) -> float:
        """How long nothing has changed."""
        state = self._read()
        if state != self._state:
            self._state, self._since, self.seen = state, now, True
        return now - self._since

    def _read(self) -> tuple[bytes, dict[str, int]]:
        words, sizes = b"", {}
        try:
            with open(self._heartbeat, "rb") as file:
                words = file.read(1000)
        except OSError:
            pass
        try:
            with os.scandir(self._run) as entries:
                tables = [entry for entry in entries if entry.name.endswith(".jsonl")]
            sizes = {entry.name: entry.stat().st_size for entry in tables}
        except OSError:
            pass
        return words, sizes


def _wake_on_signals() -> int:
    """A pipe that can be read once a child ended or somebody asked us to end."""
    wake, signalled = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(signalled, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    return wake
