"""Letting a driver drive, and seeing how it went."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hotlap.config.commands import WatchConfig
from hotlap.config.naming import nearest
from hotlap.config.presets import load_preset
from hotlap.config.tasks import DonkeyConfig
from hotlap.evaluation.film import Film
from hotlap.evaluation.film_camera import FilmCamera
from hotlap.evaluation.first_episodes import Env, Policy
from hotlap.sim.lap_records import limit_time
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.drivers import Driver, make_driver

USUAL = "generated_track"
"""Where to drive, unless told."""
FASTEST = 4.5
"""Speed shown in the warmest colour, m/s."""


def watch(config: WatchConfig) -> dict[str, Any]:
    """Watch the scripted driver that the config names."""
    config = on_a_road(config)
    task = _task(config)
    driver = _driver(config.model, task)
    env = BatchEnv(task, 1, seed=config.seed)
    return watch_drive(config, env, lambda _: driver(env.world), config.model.partition(":")[2])


def on_a_road(config: WatchConfig) -> WatchConfig:
    """The config with the usual road, unless it names one."""
    return replace(config, track=USUAL) if config.track == "auto" else config


def watch_policy(config: WatchConfig, env: Env, act: Policy) -> dict[str, Any]:
    """Watch a policy, such as a saved model, in the environment that it learned with.

    Args:
        config: How long to watch, and where the film goes.
        env: One environment of a road task, built with the track and seed of the config.
        act: Who drives.
    """
    return watch_drive(config, env, act, "/".join(Path(config.model).parts[-2:]))


def watch_drive(config: WatchConfig, env: Env, act: Policy, name: str) -> dict[str, Any]:
    """Drive until the laps are done, the car crashes or time is up; say how it went.

    Args:
        config: How long to watch, and where the film goes.
        env: One environment of a road task.
        act: Who drives.
        name: What the driver is called in the film.
    """
    task = env.task
    if not isinstance(task, DonkeyTask):
        raise KeyError(nearest(task.name, ["donkey"], "task to watch"))
    if env.num_envs != 1:
        raise ValueError(f"one environment can be watched at a time, got {env.num_envs}")
    if len(task.roads.tracks) != 1:
        raise ValueError(f"{config.track} stands for many tracks; name the one to watch")
    observation = env.reset()
    track = task.roads.tracks[int(env.world["road"])]
    drive = _Drive(config, name, task)
    with ExitStack() as closing:
        closing.enter_context(torch.no_grad())
        film = camera = None
        if config.video is not None:
            film = closing.enter_context(Film(config.video, track, 1 / task.control_dt, FASTEST))
            camera = FilmCamera(env, task)
        while not drive.over:
            picture = None if camera is None else camera.picture(observation)
            step = env.step(act(observation))
            drive.note(step)
            observation = step.observation
            if film is not None and picture is not None:
                x, y, _ = step.metrics["pos"][0].tolist()
                film.add(picture, x, y, float(step.metrics["speed"]), drive.caption())
    return drive.report(config.video)


def _task(config: WatchConfig) -> DonkeyTask:
    """The task to watch, seen through its camera."""
    if config.task != "donkey":
        raise KeyError(nearest(config.task, ["donkey"], "task to watch"))
    settings = load_preset(DonkeyConfig, config.preset)
    if config.model == "scripted:racing_line":
        settings = replace(settings, throttle_min=-1.0)
    steps = max(1, round(config.seconds / settings.car.control_dt))
    return DonkeyTask(replace(settings, tracks=(config.track,), sensor="camera", max_steps=steps))


def _driver(model: str, task: DonkeyTask) -> Driver:
    """Who drives."""
    kind, _, name = model.partition(":")
    if kind != "scripted" or not name:
        raise ValueError(
            f"cannot watch {model!r}; write scripted:NAME, for example scripted:pure_pursuit"
        )
    return make_driver(name, task)


class _Drive:
    """The books of one drive."""

    def __init__(self, config: WatchConfig, name: str, task: DonkeyTask) -> None:
        self.config = config
        self.name = name
        self.limit = limit_time(config.track, task.config.vehicle)
        self.dt = task.control_dt
        self.max_steps = task.max_steps
        self.time = 0.0
        self.laps: list[float] = []
        self.speeds: list[float] = []
        self.errors: list[float] = []
        self.earned = 0.0
        self.end = "out of time"
        self.place = 0.0
        self.over = False

    def note(self, step: Step) -> None:
        """Write down one step."""
        metrics = step.metrics
        self.time += self.dt
        self.speeds.append(float(metrics["speed"]))
        self.errors.append(abs(float(metrics["cte"])))
        self.earned = float(step.episode_return)
        self.place = float(metrics["s"])
        if float(metrics["lap_time"]) > 0:
            self.laps.append(float(metrics["lap_time"]))
            print(f"lap {len(self.laps)}: {self.laps[-1]:.2f} s", flush=True)
        if len(self.laps) >= self.config.laps:
            self.end = "laps done"
        elif bool(step.terminated):
            self.end = "hit a wall" if float(metrics["hit"]) else "left the road"
        elif bool(step.truncated) and int(step.episode_length) < self.max_steps:
            self.end = "road driven to its end"
        elif not bool(step.truncated) and self.time < self.config.seconds - self.dt / 2:
            return
        self.over = True

    def caption(self) -> list[str]:
        """Lines of text for a frame of the film."""
        last = f"last lap {self.laps[-1]:.2f} s" if self.laps else ""
        return [
            f"{self.config.track}   {self.name}",
            f"{self.time:6.2f} s   {self.speeds[-1]:4.2f} m/s   {last}",
        ]

    def report(self, video: Path | None) -> dict[str, Any]:
        """Say how it went, and return the same."""
        best = min(self.laps, default=None)
        ratio = None if best is None or self.limit is None else round(best / self.limit, 4)
        result = {
            "model": self.config.model,
            "track": self.config.track,
            "end": self.end,
            "seconds": round(self.time, 2),
            "laps": len(self.laps),
            "lap_times": [round(lap, 3) for lap in self.laps],
            "lap_limit": self.limit,
            "best_over_limit": ratio,
            "return": round(self.earned, 3),
            "mean_speed": round(sum(self.speeds) / len(self.speeds), 3),
            "mean_abs_cte": round(sum(self.errors) / len(self.errors), 3),
            "crash_s": round(self.place, 2)
            if self.end in ("hit a wall", "left the road")
            else None,
            "video": None if video is None else str(video),
        }
        print(f"{self.config.model} on {self.config.track}: {self.end} after {self.time:.1f} s")
        if best is not None:
            beside = (
                "" if ratio is None else f", {ratio:.2f} x the least possible ({self.limit:.2f} s)"
            )
            print(f"best lap {best:.2f} s{beside}")
        print(f"mean speed {result['mean_speed']} m/s, mean |cte| {result['mean_abs_cte']}, "
              f"return {result['return']}")  # fmt: skip
        if video is not None:
            print(f"film: {video}")
        return result
