"""Gymnasium's CarRacing-v3 behind the interface of our own tasks: what it is in truth.

    B environments, whose cars live in processes of their own, several in each.
    place  which of the B environments

Sees, does, ends: as the `carracing` task. Earns: Gymnasium's own reward and nothing else, in its
parts `tiles`, `time` and `left`. Reports: share of tiles touched, distance, laps and lap time,
frames, speed, place.

Environment `who` begins its first episode with `reset(seed=seed + who)` and the ones that follow
with `seed + who + num_envs * episode`. So episodes 0..99 judged with seed 10000 are Gymnasium's
seeds 10000 to 10099, in batches of any size. Only the lower 32 bits of a sum count: what is added
to seeds to keep judging apart from training is above them, so whoever trains in here keeps to other
seeds than those that are judged. Where the settings name tracks of their own, these are driven in
turn instead, counted in the same way.

All processes are told before any is waited for. One that fails or does not answer in time ends the
step with `CarsGone` and all the others with it.
"""

import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotlap.config.carracing import FRAMES_PER_SECOND, CarRacingConfig
from hotlap.sim.carracing.catalogue import find_tile_tracks
from hotlap.sim.carracing.tile_track import STEP, TileTrack
from hotlap.tasks.bridges.carracing_frames import driver_spaces
from hotlap.tasks.bridges.outside_batch import OutsideBatch, OutsideTask
from hotlap.tasks.carracing import five_actions
from hotlap.tasks.task import Outcome, State, map_tree

FIRST_WAIT = 120.0
"""Seconds until a process must have begun."""
TIMEOUT = 60.0
"""Seconds until it must have answered: with 32 cars, a step takes 0.2 and a beginning one."""
GOODBYE = 1.0
"""Seconds that it has to end by itself."""
SEED_BITS = 0xFFFFFFFF
TERMS = ("tiles", "time", "left")

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
        from hotlap.tasks.bridges import carracing_env

        if num_envs < 1 or (workers is not None and workers < 1):
            raise ValueError(f"num_envs and workers begin at 1, got {num_envs} and {workers}")
        self.version_line = carracing_env.version_line(config.backend)
        self.num_envs, self.timeout = num_envs, timeout
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        count = min(workers or cores or 1, num_envs)
        self.shares = [places.tolist() for places in np.array_split(np.arange(num_envs), count)]
        """Places of each process."""
        spawn = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._workers: list[Any] = []
        try:
            for number, places in enumerate(self.shares):
                here, there = spawn.Pipe()
                worker = spawn.Process(
                    target=carracing_env.serve,
                    args=(there, config, len(places), tuple(tracks)),
                    name=f"carracing-{number}",
                    daemon=True,  # ended at exit, whoever forgot to close
                )
                self._pipes.append(here)
                self._workers.append(worker)
                worker.start()
                there.close()  # or its end would not be noticed here
            for number in range(count):
                self._answer(number, FIRST_WAIT)
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
        for worker in self._workers:
            if worker.pid is None:
                continue
            worker.join(GOODBYE)
            if worker.is_alive():
                worker.kill()
                worker.join()
        self._pipes, self._workers = [], []


class CarRacingBridge(OutsideTask):
    """See the module's first lines.

    Args:
        config: The task's settings, with the backend `gymnasium` or `envpool`.
        num_envs: B, for which cars are made at once.
        device: Where observations and rewards go.
        tracks: Tracks to drive in turn, in place of those that the config names.
        workers: Processes; as many as cores unless told.
        timeout: Seconds until a process that does not answer is gone.
    """

    name = "carracing"

    def __init__(
        self,
        config: CarRacingConfig,
        num_envs: int,
        device: torch.device | str = "cpu",
        tracks: Sequence[TileTrack] | None = None,
        workers: int | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        if config.reward != "default":
            raise ValueError(
                f"Gymnasium's CarRacing pays its own reward only, not {config.reward!r}; "
                'set reward = "default" in its preset'
            )
        self.config = config
        self.device = torch.device(device)
        self.control_dt = config.repeat / FRAMES_PER_SECOND
        self.max_steps = config.max_steps
        self.observation_space, self.action_space = driver_spaces(config)
        self.action_table = five_actions(config)
        self.tracks = _tracks_of(config) if tracks is None else tuple(tracks)
        """Driven in turn; none where every episode has its seed's."""
        self.cars = CarPark(config, num_envs, self.tracks, workers, timeout)
        self.version_line = self.cars.version_line
        """Versions of what is driven in, to be printed with every score."""

    def begin(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> State:
        """The first `len(who)` cars at their starts."""
        return self.begin_some(range(len(who)), seed, who, episode)

    def begin_some(
        self, places: Sequence[int], seed: int | Tensor, who: Tensor, episode: Tensor
    ) -> State:
        """Some cars (K,) at their starts; identity and episode (K,) say with which seeds."""
        numbers = (who + self.cars.num_envs * episode).tolist()
        errands = [
            (
                place,
                (int(seed) + number) & SEED_BITS,
                number % len(self.tracks) if self.tracks else None,
            )
            for place, number in zip(places, numbers, strict=True)
        ]
        return self._state(self.cars.begin(errands))

    def advance(self, state: State, action: Tensor) -> Outcome:
        """Send every car its action, then wait for what they all see."""
        steps = self.cars.drive(action[:, 0].cpu().numpy())
        pictures, _, terminated, truncated, infos = zip(*steps, strict=True)
        terms = {name: [info["terms"][name] for info in infos] for name in TERMS}
        return Outcome(
            state=self._state(pictures),
            terms={name: self._column(paid).unsqueeze(-1) for name, paid in terms.items()},
            terminated=torch.tensor(terminated, device=self.device),
            cut=torch.tensor(truncated, device=self.device),
            metrics=self._metrics(infos),
        )

    def observe(self, state: State) -> Tensor:
        """Pictures (B, 1, H, W, C)."""
        seen: Tensor = state["picture"]
        return seen.unsqueeze(1)

    def close(self) -> None:
        """End the processes."""
        self.cars.close()

    def _metrics(self, infos: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """In the names and units of the `carracing` task; EnvPool tells less."""
        told = {
            "tiles": [info["share"] for info in infos],
            "laps": [info["lap_finished"] for info in infos],
            "lap_time": [info.get("lap_time", 0.0) for info in infos],
            "frames": [info["frames"] for info in infos],
        }
        if "visited" in infos[0]:
            told["progress"] = [info["visited"] * STEP for info in infos]
            told |= {name: [info[name] for info in infos] for name in ("speed", "x", "y")}
        return {name: self._column(values) for name, values in told.items()}

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)

    def _state(self, pictures: Sequence[Any]) -> State:
        return {"picture": torch.from_numpy(np.stack(pictures)).to(self.device)}


class CarRacingBatch(OutsideBatch):
    """A batch of real CarRacing environments, for whatever takes a `BatchEnv`.

    Args:
        task: The cars.
        num_envs: B; all of the task's cars.
        seed: With identity and episode, decides what is driven.
        who: Identities (B,).
    """

    task: CarRacingBridge

    def __init__(
        self, task: CarRacingBridge, num_envs: int, seed: int = 0, who: Tensor | None = None
    ) -> None:
        if num_envs != task.cars.num_envs:
            raise ValueError(f"the task has {task.cars.num_envs} cars, the batch wants {num_envs}")
        super().__init__(task, num_envs, seed, who)

    def reset(self, seed: int | None = None, mask: Tensor | None = None) -> Tensor:
        """Begin anew: everything, or with a mask (B,) only those, at their next episode."""
        if mask is None:
            return super().reset(seed)
        if seed is not None:
            raise ValueError("a masked reset goes on with the same seed; reset all to change it")
        state, which = self._running, mask.to(self.task.device).nonzero().squeeze(-1)
        if len(which):
            fresh = self._next_episodes(state, which)
            self._state = map_tree(lambda old, new: old.index_copy(0, which, new), state, fresh)
        self._ended = None
        return self._seen(self._observe(self._running["world"]))

    def load_state(self, saved: State) -> Tensor:
        """Refused: Box2D cannot be put back."""
        raise RuntimeError("Gymnasium's CarRacing cannot be put back to a saved state")


def _tracks_of(config: CarRacingConfig) -> tuple[TileTrack, ...]:
    """The tracks that a config names; none for EnvPool, which makes its own from seeds."""
    return () if config.backend == "envpool" else tuple(find_tile_tracks(config.tracks))
