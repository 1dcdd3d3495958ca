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
turn instead, counted in the same way; or, after `draw_tracks`, those that the twin would draw with
the same seed, identity and episode.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotlap.config.carracing import FRAMES_PER_SECOND, CarRacingConfig
from hotlap.sim.carracing.catalogue import find_tile_tracks
from hotlap.sim.carracing.tile_track import STEP, TileTrack
from hotlap.tasks.bridges.carracing_frames import driver_spaces
from hotlap.tasks.bridges.carracing_park import TIMEOUT, CarPark
from hotlap.tasks.bridges.outside_batch import OutsideBatch, OutsideTask
from hotlap.tasks.carracing import five_actions
from hotlap.tasks.task import Outcome, State, episode_key, map_tree
from hotlap.tasks.track_choice import TrackChoice

SEED_BITS = 0xFFFFFFFF
TERMS = ("tiles", "time", "left")


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
        """Driven in turn or drawn; none where every episode has its seed's."""
        self.choice: TrackChoice | None = None
        """What tracks are drawn from; none where they are driven in turn."""
        self.cars = CarPark(config, num_envs, self.tracks, workers, timeout)
        self.version_line = self.cars.version_line
        """Versions of what is driven in, to be printed with every score."""

    def draw_tracks(self) -> None:
        """Draw every episode's track from now on, evenly.

        In turn, a segment of a training, which begins anew, would see the first of many alone.
        """
        if not self.tracks:
            raise ValueError("tracks are drawn from those that the settings name; there are none")
        self.choice = TrackChoice(len(self.tracks), self.device)

    def begin(self, seed: int | Tensor, who: Tensor, episode: Tensor) -> State:
        """The first `len(who)` cars at their starts."""
        return self.begin_some(range(len(who)), seed, who, episode)

    def begin_some(
        self, places: Sequence[int], seed: int | Tensor, who: Tensor, episode: Tensor
    ) -> State:
        """Some cars (K,) at their starts; identity and episode (K,) say with which seeds."""
        numbers = (who + self.cars.num_envs * episode).tolist()
        seeds = [(int(seed) + number) & SEED_BITS for number in numbers]
        tracks: list[int] | list[None] = [None] * len(numbers)
        if self.choice is not None:
            tracks = self.choice.draw(episode_key(seed, who, episode)).tolist()
        elif self.tracks:
            tracks = [number % len(self.tracks) for number in numbers]
        return self._state(self.cars.begin(list(zip(places, seeds, tracks, strict=True))))

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
