"""What all engines do alike: jobs wait for room, run, and end once."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Generic, TypeVar

from hotlap.research.engines.job import Job, Outcome, examine_result
from hotlap.store.closing import Closing

Running = TypeVar("Running")


class QueuedEngine(Closing, Generic[Running]):
    """Holds the jobs of an engine. See `Engine`."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self._waiting: list[Job] = []
        self._running: dict[int, Running] = {}
        self._ended: list[Outcome] = []

    @abstractmethod
    def _start(self, job: Job) -> Running | None:
        """Start a job; None if there is no room for it yet.

        Raises:
            OSError, RuntimeError: It could not be started now.
            ValueError: It can never be.
        """

    @abstractmethod
    def _who(self, running: Running) -> dict[str, Any]:
        """Who runs a job."""

    @abstractmethod
    def _end(self, running: Running) -> None:
        """Begin to end a job; its outcome comes with a later poll."""

    def submit(self, job: Job) -> dict[str, Any]:
        """Start a job, or have it wait for room; who runs it, if it is running."""
        if job.trial in self._running or any(job.trial == other.trial for other in self._waiting):
            raise ValueError(f"trial {job.trial} is submitted already")
        job = replace(job, folder=job.folder.absolute())
        if examine_result(job.folder)[0] is not None:
            self._ended.append(Outcome(job.trial, "done", reason="it had its result already"))
            return {}
        self._waiting.append(job)
        self._start_waiting()
        running = self._running.get(job.trial)
        return {} if running is None else self._who(running)

    def cancel(self, trial: int) -> None:
        """End a trial, or forget it if it is still waiting."""
        for job in self._waiting:
            if job.trial == trial:
                self._waiting.remove(job)
                self._ended.append(Outcome(trial, "killed", reason="it was cancelled"))
                return
        if trial in self._running:
            self._end(self._running[trial])

    def _take_ended(self) -> list[Outcome]:
        """What ended since the last call, after what waits has had the room."""
        self._start_waiting()  # whoever takes the outcomes may be busy with them for a while
        outcomes, self._ended = self._ended, []
        return outcomes

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self.capacity:
            job = self._waiting[0]
            try:
                running = self._start(job)
                if running is None:
                    return
                self._running[job.trial] = running
            except (OSError, RuntimeError) as error:
                reason = f"it could not be started: {error}"
                self._ended.append(Outcome(job.trial, "lost", reason=reason))
            except ValueError as error:
                reason = f"it could not be started: {error}"
                self._ended.append(Outcome(job.trial, "failed", reason=reason))
            self._waiting.pop(0)
