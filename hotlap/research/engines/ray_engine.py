"""Trials as tasks of a Ray cluster.

A task starts the same local engine on its node, so limits and endings are the same there, and the
command dies with the task's worker. Ray never repeats a task: what a lost node was running is
reported as lost, and whoever submitted it decides. What decides whether a trial is done is its
result, as everywhere.

hotlap must be installed on every node. The trials' folders may lie on a file system that all nodes
share, under the same path. A node where they do not makes the folder under the same path, gets the
files that are in it here, and sends back what the trial left, smaller files first, up to
`files_limit` bytes.

Whoever reaches the ports of a cluster can run programs on it: keep them inside a trusted network
and have the cluster demand a token (RAY_AUTH_MODE=token).
"""

import importlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from hotlap.research.engines.job import Job, Outcome, Status, examine_result
from hotlap.research.engines.local import RECORD, LocalEngine, sweep, wait_until_free
from hotlap.research.engines.processes import keep_exit_codes
from hotlap.research.engines.queue import QueuedEngine
from hotlap.store.atomic import make_folder, write_file

OBJECT_STORE = 100_000_000
"""Bytes for a cluster of our own: enough for the files of a trial, little on a small machine."""
FREE_WITHIN = 30.0
"""Seconds that a task waits for one before it to leave the folder: a worker notices within a few
seconds that its node is gone, while the trial may be submitted again at once."""


class RayEngine(QueuedEngine["_Task"]):
    """Runs up to `capacity` trials at once on a cluster; used from one thread. See `Engine`."""

    def __init__(
        self,
        address: str = "local",
        capacity: int | None = None,
        resources: Mapping[str, float] | None = None,
        *,
        grace: float = 2.0,
        output_limit: int = 10_000_000,
        files_limit: int = 64_000_000,
    ) -> None:
        """Join a cluster.

        Args:
            address: Where the cluster is: host:port, "auto" for the one that this machine belongs
                to, or "local" for one of our own on this machine, which ends with us.
            capacity: How many trials run at the same time; by default one per processor.
            resources: What Ray calls the things that each trial takes beside its share of a GPU
                and a processor, as in {"fast_disk": 1}; "CPU" says how many processors.
            grace: Seconds between asking a trial to end and killing it.
            output_limit: Bytes of output kept of each trial, at most.
            files_limit: Bytes of files that go to and come back from a node without our disk.
        """
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._ray = _import_ray()
        self._owner = not self._ray.is_initialized()
        if self._owner:
            _join(self._ray, address, capacity)
        super().__init__(capacity or max(1, int(self._ray.cluster_resources().get("CPU", 1))))
        taken = {"CPU": 1.0} | dict(resources or {})
        self._cpus = taken.pop("CPU")
        options = {"num_cpus": self._cpus, "resources": taken, "max_retries": 0}
        self._remote = self._ray.remote(**options)(_run)
        self._settings = _Settings(grace, output_limit, files_limit)

    @property
    def has_gpus(self) -> bool:
        """Whether the cluster has GPUs now."""
        return bool(self._ray.cluster_resources().get("GPU"))

    def poll(self, timeout: float) -> list[Outcome]:
        """What ended since the last call; waits for something to end if anything runs."""
        self._start_waiting()
        if self._running and not self._ended:
            self._collect(timeout)
        return self._take_ended()

    def close(self) -> None:
        """End everything, and the cluster if it is ours."""
        self._waiting.clear()
        tasks = list(self._running.values())
        for task in tasks:
            self._end(task)
        deadline = time.monotonic() + 5.0
        while self._running and time.monotonic() < deadline:
            self._collect(deadline - time.monotonic())
        self._running.clear()
        self._ended.clear()
        if self._owner:
            self._ray.shutdown()
        for task in tasks:  # what ran on this machine can be seen to be gone
            while (task.job.folder / RECORD).exists() and time.monotonic() < deadline + 5.0:
                if not sweep(task.job.folder):
                    break
                time.sleep(0.1)

    def _who(self, running: "_Task") -> dict[str, Any]:
        return {"task": running.ref.hex()}

    def _end(self, running: "_Task") -> None:
        running.cancelled = True
        # The worker ends at once; the warden of the trial sees it and ends the trial.
        self._ray.cancel(running.ref, force=True)

    def _start(self, job: Job) -> "_Task":
        there = self._ray.cluster_resources()
        if there.get("CPU", 0) < self._cpus or there.get("GPU", 0) < job.gpu:
            raise RuntimeError(
                f"no node has what it takes: {self._cpus:g} processors and {job.gpu:g} GPUs"
            )
        token = secrets.token_hex(8)
        make_folder(job.folder)
        (job.folder / _mark(token)).touch()
        files, _ = _pack(job.folder, self._settings.files_limit)
        task = self._remote.options(num_gpus=job.gpu, name=f"trial {job.trial}")
        return _Task(job, token, task.remote(job, token, files, self._settings), time.monotonic())

    def _collect(self, timeout: float) -> None:
        """Take what ended; wait for the first if nothing has."""
        tasks = {task.ref: task for task in self._running.values()}
        ready, rest = self._ray.wait(list(tasks), timeout=max(timeout, 0.0))
        if ready and rest:
            ready += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        for ref in ready:
            task = tasks[ref]
            self._ended.append(self._outcome(task))
            del self._running[task.job.trial]

    def _outcome(self, task: "_Task") -> Outcome:
        folder = task.job.folder
        (folder / _mark(task.token)).unlink(missing_ok=True)
        try:
            returned: _Returned = self._ray.get(task.ref)
        except self._ray.exceptions.RayError as error:
            status, reason = self._cause(error, task.cancelled)
            if examine_result(folder)[0] is not None:
                status, reason = "done", f"it left its result; {reason}"
            elapsed = time.monotonic() - task.began
            return Outcome(task.job.trial, status, elapsed=elapsed, reason=reason)
        return _received(returned, folder)

    def _cause(self, error: Exception, cancelled: bool) -> tuple[Status, str]:
        """Why a task did not come to its end."""
        errors = self._ray.exceptions
        words = f"{type(error).__name__}: {str(error).strip():.2000}"
        if cancelled:
            return "killed", "it was cancelled"
        if isinstance(error, errors.OutOfMemoryError):
            return "killed", f"Ray ended it for want of memory: {words}"
        if isinstance(error, errors.RayTaskError):  # the fault is ours, and it would come again
            return "failed", f"it could not be run on its node: {words}"
        return "lost", f"its worker or node was lost: {words}"


@dataclass(frozen=True)
class _Settings:
    grace: float
    output_limit: int
    files_limit: int


@dataclass
class _Task:
    """A job that the cluster has."""

    job: Job
    token: str
    ref: Any
    began: float
    cancelled: bool = False


@dataclass(frozen=True)
class _Returned:
    """What a task sends back."""

    outcome: Outcome
    files: dict[str, bytes]
    """What the trial left, by path in its folder; nothing where the folder is ours."""
    left_out: tuple[str, ...] = ()
    """The paths of those that were too large together."""


def _run(job: Job, token: str, files: dict[str, bytes], settings: _Settings) -> _Returned:
    """The task: run a trial on this node, in the folder that we share or a new one."""
    try:
        # Asking for the folder to be made has a network file system look at the server.
        job.folder.mkdir(parents=True)
        new = True
    except FileExistsError:
        new = False
    except OSError as error:
        return _Returned(Outcome(job.trial, "lost", reason=f"no folder on its node: {error}"), {})
    shared = (job.folder / _mark(token)).exists()
    if not shared:
        _unpack(files, job.folder)
    wait_until_free(job.folder, FREE_WITHIN)
    engine = LocalEngine(1, grace=settings.grace, output_limit=settings.output_limit)
    with engine:
        engine.submit(job)
        outcomes: list[Outcome] = []
        while not outcomes:
            outcomes = engine.poll(1.0)
    if shared:
        return _Returned(outcomes[0], {})
    made, left_out = _pack(job.folder, settings.files_limit)
    if new:
        shutil.rmtree(job.folder, ignore_errors=True)
    return _Returned(outcomes[0], made, tuple(left_out))


def _received(returned: _Returned, folder: Path) -> Outcome:
    """Write down here what a trial left on its node; the outcome, as it is seen from here."""
    outcome = returned.outcome
    try:
        _unpack(returned.files, folder)
    except OSError as error:
        words = f"its files could not be written here: {error}; {outcome.reason}"
        return replace(outcome, status="lost", reason=words)
    if returned.left_out:
        words = f"{len(returned.left_out)} large files stayed on its node; {outcome.reason}"
        outcome = replace(outcome, reason=words)
    table, missing = examine_result(folder)
    if outcome.status == "done" and table is None:
        return replace(outcome, status="lost", reason=f"its result did not arrive: {missing}")
    return outcome


def _pack(folder: Path, limit: int) -> tuple[dict[str, bytes], list[str]]:
    """The files in a folder by their paths, smaller ones first; and the paths of those left out."""
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    room = limit
    for _, name, path in sorted(_sizes(folder)):
        data = path.read_bytes() if path.stat().st_size <= room else None
        if data is None:
            left_out.append(name)
        else:
            files[name] = data
            room -= len(data)
    return files, left_out


def _sizes(folder: Path) -> Iterable[tuple[int, str, Path]]:
    """Size, name and path of what travels: no hidden files, links, or word of who runs a trial."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not path.is_symlink() and not hidden and name.name != RECORD:
            yield path.stat().st_size, name.as_posix(), path


def _unpack(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder, the result last: with it the trial is done."""
    for name in sorted(files, key=lambda name: name == "result.json"):
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise ValueError(f"a file must stay in the trial's folder, got {name!r}")
        path = folder / parts
        make_folder(path.parent)
        write_file(path, files[name])


def _mark(token: str) -> str:
    """A file by which a node sees that its folder is ours."""
    return f".shared-{token}"


def _import_ray() -> ModuleType:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ImportError("the ray engine needs Ray: pip install 'hotlap[ray]'") from error


def _join(ray: ModuleType, address: str, capacity: int | None) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        os.environ.setdefault("RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper", "1")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options |= {"num_cpus": capacity, "include_dashboard": False}
        options |= {"object_store_memory": OBJECT_STORE}
    # Ray keeps a GPU from tasks that ask for none; saying so now silences its warning about it.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    try:
        with _private_files():
            ray.init(address=address, **options)
            keep_exit_codes()  # which Ray's start throws away
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"no Ray cluster at {address!r}: {error}; start one (ray start --head), give the token "
            "that it demands (RAY_AUTH_MODE, RAY_AUTH_TOKEN), or use --address local"
        ) from error


@contextmanager
def _private_files() -> Iterator[None]:
    """Others shall not read what is made meanwhile: Ray writes its token for all to see."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
