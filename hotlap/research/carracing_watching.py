"""Watching a CarRacing policy, in the twin or in the real environment.

A film of an evaluation shows its first episode: seed, track and look are the same.
"""

from contextlib import ExitStack
from contextlib import closing as closed_after
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from hotlap.config.carracing import CarRacingConfig
from hotlap.config.runs import RunConfig
from hotlap.evaluation.carracing_film import (
    CarRacingFilm,
    Episode,
    Screen,
    Shot,
    TwinShow,
    drive_episode,
)
from hotlap.evaluation.first_episodes import Policy
from hotlap.evaluation.judge import HELD_OUT
from hotlap.sim.carracing.catalogue import find_tile_tracks
from hotlap.tasks.adapters.arrays import to_array
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.bridges.carracing import SEED_BITS, CarRacingBatch, CarRacingBridge
from hotlap.tasks.bridges.carracing_env import CarRacingEnv
from hotlap.tasks.carracing import CarRacingTask
from hotlap.tasks.interface import Interface


class RealShow:
    """A drive in Gymnasium's environment, or in EnvPool's.

    Args:
        settings: The driver's own.
        seed: Of the episode.
    """

    def __init__(self, settings: CarRacingConfig, seed: int) -> None:
        self.settings, self.seed = settings, seed
        self.car = CarRacingEnv(replace(settings, view="full", colour=True, repeat=1))
        self._score, self._frames = 0.0, 0

    def begin(self) -> Shot:
        """The first frame."""
        self._score, self._frames = 0.0, 0
        envpool = self.settings.backend == "envpool"
        track = None if envpool else find_tile_tracks(self.settings.tracks)[0]
        frame, _ = self.car.reset(seed=self.seed, options={"track": track})
        return Shot(frame, 0.0, 0.0, 0)

    def drive(self, action: Tensor) -> list[Shot]:
        """All frames of a decision."""
        shots: list[Shot] = []
        for _ in range(self.settings.repeat):
            frame, reward, terminated, truncated, told = self.car.step(to_array(action[0]))
            self._score += reward
            self._frames += 1
            shots.append(Shot(frame, self._score, told["share"], self._frames))
            if terminated or truncated:
                break
        return shots

    def close(self) -> None:
        """Let go of what was drawn on."""
        self.car.close()


def watch_carracing(
    name: str, act: Policy, run: RunConfig, seed: int, video: Path | None
) -> dict[str, Any]:
    """Let a policy drive one episode, say how it went, and film it.

    Args:
        name: Of the model.
        act: Who drives.
        run: What it was trained with, but for settings that name one track to drive.
        seed: Of the episode.
        video: Where the film goes, if there is to be one.
    """
    settings = run.settings
    assert isinstance(settings, CarRacingConfig)
    track = f"seed {seed}" if settings.backend == "envpool" else settings.tracks[0]
    told = {"model": name, "track": track, "backend": settings.backend, "look": settings.look}
    with ExitStack() as closing:
        env, line = _make_env(run, settings, seed)
        closing.callback(env.task.close)
        if line is not None:
            told["environment"] = line
        if video is None:
            episode = drive_episode(env, act)
        else:
            show = _make_show(env, settings, seed, closing)
            driven = f"{settings.backend}, {settings.look}"
            title = ["/".join(Path(name).parts[-2:]), track, driven]
            film = closing.enter_context(CarRacingFilm(video, title))
            episode = drive_episode(env, act, show, film)
            film.close_with(episode.lines())
    print(f"{name} on {track}: {', '.join(episode.lines())}", flush=True)
    if video is not None:
        print(f"film: {video}", flush=True)
    return told | {
        "end": episode.end,
        "seconds": round(episode.seconds, 2),
        "return": round(episode.score, 3),
        "tiles": round(episode.tiles, 4),
        "video": None if video is None else str(video),
    }


def show_episode(act: Policy, run: RunConfig, seed: int, screen: Screen) -> Episode:
    """Let a policy drive one episode on a screen.

    Args:
        act: Who drives.
        run: As for `watch_carracing`.
        seed: Of the episode.
        screen: Where every frame goes.
    """
    settings = run.settings
    assert isinstance(settings, CarRacingConfig)
    with ExitStack() as closing:
        env, _ = _make_env(run, settings, seed)
        closing.callback(env.task.close)
        return drive_episode(env, act, _make_show(env, settings, seed, closing), screen)


def _make_show(
    env: Interface, settings: CarRacingConfig, seed: int, closing: ExitStack
) -> TwinShow | RealShow:
    """The drive of an environment, frame by frame."""
    if settings.backend == "twin":
        return TwinShow(env)
    return closing.enter_context(closed_after(RealShow(settings, seed & SEED_BITS)))


def _make_env(run: RunConfig, settings: CarRacingConfig, seed: int) -> tuple[Interface, str | None]:
    """One car, and the versions of what it drives in where that is not the twin."""
    if settings.backend == "twin":
        batch = BatchEnv(CarRacingTask(settings, run.device), 1, HELD_OUT + seed, captured=False)
        return Interface(batch, run.interface), None
    task = CarRacingBridge(settings, 1, run.device)
    return Interface(CarRacingBatch(task, 1, HELD_OUT + seed), run.interface), task.version_line
