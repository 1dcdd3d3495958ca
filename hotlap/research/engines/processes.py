"""Processes of this machine: who they are, who started whom, and how to end all of them.

pid       a number that the system gives to somebody else once its owner is gone
started   when a process began, in the system's own count since boot, so that setting the clock does
          not change it
identity  (pid, started): nobody else ever has both
token     a secret in the environment of a trial, inherited by all that it starts, whatever it does
          to leave its family; the trial's processes are found by it even when their parents died

Standard library only and quick to import, as every trial starts with it; psutil is asked where
there is no /proc.
"""

import contextlib
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable

TOKEN = "HOTLAP_TRIAL_TOKEN"

Identity = tuple[int, float]

_LINUX = sys.platform == "linux"


class Process:
    """One line of the process table."""

    __slots__ = ("group", "memory", "parent", "pid", "running", "started")

    def __init__(
        self,
        pid: int,
        parent: int,
        group: int,
        started: float,
        memory: int,
        running: bool,
    ) -> None:
        self.pid, self.parent, self.group, self.started = pid, parent, group, started
        self.memory = memory
        """Bytes resident."""
        self.running = running
        """False for a zombie: it has ended, and only its parent can clear it away."""

    @property
    def identity(self) -> Identity:
        """What tells it from every other process."""
        return self.pid, self.started


def machine() -> str:
    """Names this machine until it boots; a container has pids of its own, so it counts as one."""
    parts = [os.uname().nodename]
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            parts.append(file.read().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def table() -> dict[int, Process]:
    """All processes, by pid."""
    if not _LINUX:
        return _psutil_table()
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            process = look(int(name))
            if process is not None:
                found[process.pid] = process
    return found


def look(pid: int) -> Process | None:
    """One process, if there is one with this pid."""
    if not _LINUX:
        return _psutil_table().get(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the program's name in parentheses, which may hold anything.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    parent, group = int(fields[1]), int(fields[2])
    memory = int(fields[21]) * _PAGE
    running = fields[0] not in b"ZX"
    return Process(pid, parent, group, int(fields[19]), memory, running)


def is_alive(identity: Identity) -> bool:
    """Whether this very process is still running."""
    process = look(identity[0])
    return process is not None and process.running and process.identity == identity


def descendants(pid: int, known: dict[int, Process]) -> list[Process]:
    """Those that a process started and those that they started; zombies too, itself not."""
    children: dict[int, list[Process]] = {}
    for process in known.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    ahead = [pid]
    while ahead:
        own = children.pop(ahead.pop(), [])
        found += own
        ahead += [process.pid for process in own]
    return found


def bearers(token: str) -> list[Identity]:
    """The running processes that hold a trial's token; only those of the same user can be seen."""
    mark = f"{TOKEN}={token}".encode()
    found = []
    for process in table().values():
        if process.running and mark in _environment(process.pid) and is_alive(process.identity):
            found.append(process.identity)
    return found


def memory_of(processes: Iterable[Process], limit: int) -> int:
    """Bytes that some processes take together.

    Pages that several of them share count once for each, which is quick; only when that comes to
    more than the limit are they shared out, which is exact, and slow for large processes.
    """
    processes = list(processes)
    resident = sum(process.memory for process in processes)
    if limit == 0 or resident <= limit:
        return resident
    return sum(_shared_out(process) for process in processes)


def send(identity: Identity, number: int) -> None:
    """Send a signal to this very process and never to another that has its pid by now."""
    pid = identity[0]
    with contextlib.suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            if is_alive(identity):
                os.kill(pid, number)
            return
        # The handle stays with the process it was opened for, whatever happens to the pid.
        handle = os.pidfd_open(pid)
        try:
            if is_alive(identity):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def keep_exit_codes() -> None:
    """Have the exit codes of children kept, which a process that ignores SIGCHLD throws away.

    Ray's start leaves it ignored, below Python's own knowledge, and so do some parents; every
    failure would then look like success. A handler that somebody has set is left alone.
    """
    ours = signal.getsignal(signal.SIGCHLD)
    if ours in (signal.SIG_DFL, signal.SIG_IGN, None):
        with contextlib.suppress(ValueError):  # only the main thread may
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def kill_all(find: Callable[[], list[Identity]], within: float = 5.0) -> list[Identity]:
    """Kill what `find` finds until it finds nothing, as they may multiply; who is left in the end.

    Somebody left after that time hangs in the system itself (a dead disk or driver).
    """
    deadline = time.monotonic() + within
    while True:
        found = find()
        if not found or time.monotonic() > deadline:
            return found
        for identity in found:
            send(identity, signal.SIGKILL)
        time.sleep(0.002)


def _environment(pid: int) -> bytes:
    if not _LINUX:
        return _psutil_environment(pid)
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _shared_out(process: Process) -> int:
    """Bytes of a process where a page that n processes share counts 1/n."""
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return process.memory


def _psutil_table() -> dict[int, Process]:
    psutil = importlib.import_module("psutil")
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            pid = process.pid
            found[pid] = Process(
                pid,
                process.ppid(),
                os.getpgid(pid),
                process.create_time(),
                process.memory_info().rss,
                process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD),
            )
    return found


def _psutil_environment(pid: int) -> bytes:
    psutil = importlib.import_module("psutil")
    try:
        pairs = psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return b""
    return "\0".join(f"{name}={value}" for name, value in pairs.items()).encode()


_PAGE = os.sysconf("SC_PAGE_SIZE")
