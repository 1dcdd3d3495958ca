"""The process between an engine and a trial's command: it starts the command and ends all of it.

What the command's family leaves behind it adopts, so that whoever descends from it is part of the
trial. It goes last: right after the engine if that is killed, and the command dies with it. It also
watches the limits, so they hold while the engine's process is busy with other things.

An engine starts it by the path of this folder alone, as loading the package around it would take
longer than many a trial. So it needs the standard library only, and what can wait is imported once
the command is running.
"""

import ctypes
import os
import resource
import signal
import sys
import time

from hotlap.research.engines.prctl import adopt_orphans, die_with_parent

_LAUNCH = """import sys
engines = "hotlap.research.engines"
for name in ("hotlap", "hotlap.research", engines):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = []
sys.modules[engines].__path__ = [sys.argv.pop(1)]
from hotlap.research.engines.warden import main
main(sys.argv[1:])"""
"""With empty packages around this folder, so that theirs are not loaded."""

_SIGPIPE, _SIGXFSZ = 13, 25  # which Python ignores; importing `signal` for the names takes 8 ms
_NOT_STARTED = 127  # the exit code that shells give


def command_line(
    command: tuple[str, ...],
    folder: str,
    time_limit: float,
    memory_limit: int,
    first_heartbeat_limit: float,
    heartbeat_limit: float,
    grace: float,
    output_limit: int,
) -> list[str]:
    """How to start a warden from this process; it ends when this process does."""
    numbers = (
        time_limit,
        memory_limit,
        first_heartbeat_limit,
        heartbeat_limit,
        grace,
        output_limit,
    )
    here = os.path.dirname(os.path.abspath(__file__))
    start = [sys.executable, "-I", "-S", "-c", _LAUNCH, here, str(os.getpid())]
    return [*start, folder, *map(str, numbers), *command]


def main(arguments: list[str]) -> None:
    """Run a command to its end; says on the standard output how it ended, as a line of JSON."""
    engine, folder, numbers, command = (
        int(arguments[0]),
        arguments[1],
        arguments[2:8],
        arguments[8:],
    )
    # Where it is ignored, as some parents leave it, exit codes are thrown away.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    adopt_orphans()
    handle = _handle(engine)
    if os.getppid() != engine:  # it was gone before the handle was there to tell
        return
    output, inner = os.pipe()
    warden, began = os.getpid(), time.monotonic()
    pid = os.fork()
    if pid == 0:
        _become(command, warden, inner)
    os.close(inner)

    import contextlib

    from hotlap.research.engines.watch import Limits, Watch

    limits = Limits(*map(float, numbers))
    report = Watch(pid, began, folder, output, (engine, handle), limits).run()
    with contextlib.suppress(BrokenPipeError):  # nobody is left to hear it
        os.write(1, report)
    os._exit(0)  # there is nothing to tidy up, and the engine waits


def _become(command: list[str], warden: int, output: int) -> None:
    """In the forked child: turn into the command, or say why not and exit."""
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != warden:
            return
        os.dup2(output, 1)
        os.dup2(output, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _first_to_go()
        for number in (_SIGPIPE, _SIGXFSZ):
            ctypes.CDLL(None).signal(number, None)
        os.execvp(command[0], command)
    except Exception as error:
        os.write(2, f"{command[0]} could not be started: {error}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


def _first_to_go() -> None:
    """When the machine runs out of memory, the system shall end trials before anything else."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("500")
    except OSError:
        pass


def _handle(pid: int) -> int:
    """A descriptor that can be read once the process has ended; -1 where there are none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
