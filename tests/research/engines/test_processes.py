"""Who a process is, whom it started, and ending exactly those."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from hotlap.research.engines import processes

PYTHON = (sys.executable, "-S", "-c")
SLEEP = "import time; time.sleep(60)"
FAMILY = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", {SLEEP!r}], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


@contextlib.contextmanager
def started(code: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        (*PYTHON, code), env=os.environ | env, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def identity(pid: int) -> processes.Identity:
    process = processes.look(pid)
    assert process is not None
    return process.identity


def test_a_process_is_known_by_pid_and_start() -> None:
    own = processes.look(os.getpid())
    assert own is not None and own.running
    assert (own.pid, own.parent, own.group) == (os.getpid(), os.getppid(), os.getpgrp())
    assert own.memory == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert processes.is_alive(own.identity)
    assert not processes.is_alive((own.pid, own.started - 1))


def test_one_that_has_ended_is_not_alive_though_its_zombie_is_there() -> None:
    with started("pass") as process:
        known = identity(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        zombie = processes.look(process.pid)
        assert zombie is not None and not zombie.running
        assert not processes.is_alive(known)


def test_a_name_with_brackets_and_spaces_does_not_mislead() -> None:
    name = ") S 1 1 (("
    with started(f"open('/proc/self/comm', 'w').write({name!r}); print(); {SLEEP}") as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = processes.look(process.pid)
        assert found is not None and found.parent == os.getpid()


def test_descendants_are_children_and_theirs() -> None:
    with started(FAMILY) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        family = {found.pid for found in processes.descendants(os.getpid(), processes.table())}
        assert {process.pid, grandchild} <= family
        assert os.getpid() not in family
        os.kill(grandchild, signal.SIGKILL)


def test_the_token_finds_those_who_left_their_family() -> None:
    token = secrets.token_hex(16)
    with started(FAMILY, **{processes.TOKEN: token}) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        process.kill()
        process.wait()
        # Its parent knows of it a moment before its environment can be read: it is still beginning.
        late = time.monotonic() + 5
        while not (found := processes.bearers(token)) and time.monotonic() < late:
            time.sleep(0.01)
        assert [pid for pid, _ in found] == [grandchild]
        assert processes.kill_all(lambda: processes.bearers(token)) == []
        assert not psutil.pid_exists(grandchild) or not processes.look(grandchild).running


def test_a_signal_never_reaches_another_with_the_same_pid() -> None:
    with started(SLEEP) as process:
        pid, began = identity(process.pid)
        processes.send((pid, began - 1), signal.SIGKILL)
        time.sleep(0.05)
        assert process.poll() is None
        processes.send((pid, began), signal.SIGKILL)
        assert process.wait(timeout=5) == -signal.SIGKILL


def test_shared_pages_count_once_when_it_matters() -> None:
    code = "import os, time; x = bytearray(50_000_000); os.fork(); print(flush=True); " + SLEEP
    with started(code) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        known = processes.table()
        both = [known[process.pid], *processes.descendants(process.pid, known)]
        assert processes.memory_of(both, limit=0) > 100_000_000
        assert processes.memory_of(both, limit=90_000_000) < 90_000_000
        for found in both:
            processes.send(found.identity, signal.SIGKILL)


def test_psutil_tells_the_same_where_there_is_no_proc() -> None:
    token = secrets.token_hex(16)
    with started(SLEEP, **{processes.TOKEN: token}) as process:
        here, there = processes.look(process.pid), processes._psutil_table()[process.pid]
        assert here is not None
        for name in ("pid", "parent", "group", "running"):
            assert getattr(here, name) == getattr(there, name)
        assert f"{processes.TOKEN}={token}".encode() in processes._psutil_environment(process.pid)


def test_exit_codes_are_kept_where_a_parent_ignored_its_children() -> None:
    asks = (
        "import subprocess as s; from hotlap.research.engines.processes import keep_exit_codes;"
        "before = s.run(['false']).returncode; keep_exit_codes();"
        "print(before, s.run(['false']).returncode)"
    )
    ignoring = ["sh", "-c", 'trap "" CHLD; exec "$0" "$@"', sys.executable, "-c", asks]
    said = subprocess.run(ignoring, capture_output=True, text=True, check=True).stdout
    assert said.split()[-1] == "1"
