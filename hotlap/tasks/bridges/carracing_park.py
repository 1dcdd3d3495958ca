"""Real CarRacing cars in processes of their own, several in each.

    B cars.
    place  which of them

All processes are told before any is waited for. One that fails or does not answer in time ends the
step with `CarsGone` and all the others with it.
"""

import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from hotlap.config.carracing import CarRacingConfig
from hotlap.sim.carracing.tile_track import TileTrack
from hotlap.sim.threads import usable_cores

FIRST_WAIT = 120.0
"""Seconds until a process must have begun."""
TIMEOUT = 60.0
"""Seconds until it must have answered: with 32 cars, a step takes 0.2 and a beginning one."""
GOODBYE = 1.0
"""Seconds that it has to end by itself."""

Errand = tuple[int, int, int | None]
"""Place where an episode begins, its seed, and which of the given tracks, if not that seed's."""


class CarsGone(RuntimeError):
    """A process full of cars failed, or does not answer."""


class CarPark:
    """Cars in processes of their own.

    Args:
        config: How they are driven and seen.
        num_envs: How many cars.
        tracks: What they may drive on beside the tracks of their seeds.
        workers: How many processes; as many as cores unless told.
        timeout: Seconds until an answer must have come.
    """

    def __init__(
        self,
        config: CarRacingConfig,
        num_envs: int,
        tracks: Sequence[TileTrack] = (),
        workers: int | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        # Here: it imports Box2D and pygame, which nobody needs who does not drive in them.
        from hotlap.tasks.bridges import carracing_backends, carracing_worker

        if num_envs < 1 or (workers is not None and workers < 1):
            raise ValueError(f"num_envs and workers begin at 1, got {num_envs} and {workers}")
        self.version_line = carracing_backends.version_line(config.backend)
        self.num_envs, self.timeout = num_envs, timeout
        count = min(workers or usable_cores(), num_envs)
        self.shares = [places.tolist() for places in np.array_split(np.arange(num_envs), count)]
        """Places of each process."""
        spawn = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._workers: list[Any] = []
        try:
            for number, places in enumerate(self.shares):
                here, there = spawn.Pipe()
                worker = spawn.Process(
                    target=carracing_worker.serve,
                    args=(there, config, len(places)),
                    name=f"carracing-{number}",
                    daemon=True,  # ended at exit, whoever forgot to close
                )
                self._pipes.append(here)
                self._workers.append(worker)
                with _uninterrupted():
                    worker.start()
                there.close()  # or its end would not be noticed here
            # Not among the arguments: `start` would wait for ever for a process that dies before it
            # has read them.
            for what in (tuple(tracks), None):
                for number in range(count):
                    self._answer(number, FIRST_WAIT)
                    if what is not None:
                        self._tell(number, what)
        except BaseException:
            self.close()
            raise

    def begin(self, errands: Sequence[Errand]) -> list[Any]:
        """Begin episodes; their pictures in the order of the errands."""
        owner = {place: worker for worker, own in enumerate(self.shares) for place in own}
        asked: dict[int, list[Errand]] = {}
        for place, seed, track in errands:
            worker = owner[place]
            asked.setdefault(worker, []).append((place - self.shares[worker][0], seed, track))
        pictures = {
            self.shares[worker][0] + own[0]: picture
            for worker, seen in self._ask(asked).items()
            for own, picture in zip(asked[worker], seen, strict=True)
        }
        return [pictures[place] for place, _, _ in errands]

    def drive(self, actions: np.ndarray) -> list[Any]:
        """Drive all cars under actions (B, A); their steps, as Gymnasium has them."""
        told = {worker: actions[places] for worker, places in enumerate(self.shares)}
        return [step for steps in self._ask(told).values() for step in steps]

    def _ask(self, told: dict[int, Any]) -> dict[int, Any]:
        """What processes answer to what they are told, by number."""
        if not self._pipes:
            raise CarsGone("the cars are gone; make them anew")
        try:
            for worker, what in told.items():
                self._tell(worker, what)
            return {worker: self._answer(worker, self.timeout) for worker in told}
        except BaseException:
            # An answer that nobody waited for would be taken for the next one.
            self.close()
            raise

    def _tell(self, worker: int, what: Any) -> None:
        try:
            self._pipes[worker].send(what)
        except OSError:
            raise self._gone(worker) from None

    def _answer(self, worker: int, timeout: float) -> Any:
        pipe = self._pipes[worker]
        try:
            if not pipe.poll(timeout):
                raise CarsGone(
                    f"process {worker} of CarRacing did not answer within {timeout:g} s; is the "
                    "machine out of memory, or stopped?"
                )
            answer = pipe.recv()
        except (EOFError, OSError):
            raise self._gone(worker) from None
        if isinstance(answer, str):
            raise CarsGone(f"process {worker} of CarRacing failed:\n{answer}")
        return answer

    def _gone(self, worker: int) -> CarsGone:
        """What to say of a process that ended without a word."""
        process = self._workers[worker]
        process.join(GOODBYE)
        return CarsGone(
            f"process {worker} of CarRacing ended with code {process.exitcode}; below zero is a "
            "signal, -9 mostly the machine out of memory. If its traceback above speaks of "
            'bootstrapping, put the script\'s own calls under `if __name__ == "__main__":`'
        )

    def close(self) -> None:
        """End all processes."""
        for pipe in self._pipes:
            pipe.close()
        end = time.monotonic() + GOODBYE
        for worker in self._workers:
            if worker.pid is None:
                continue
            worker.join(max(end - time.monotonic(), 0))
            if worker.is_alive():
                worker.kill()
                worker.join()
        self._pipes, self._workers = [], []


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Whoever is started within does not hear a user's Ctrl-C, not even before it can say so."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
