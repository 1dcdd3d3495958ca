"""Letting a driver drive, and seeing how it went."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.config.commands import WatchConfig
from hotlap.config.naming import nearest
from hotlap.config.presets import load_preset
from hotlap.config.tasks import DonkeyConfig
from hotlap.evaluation.film import Film
from hotlap.sim.lap_records import lap_limit
from hotlap.tasks.batch import BatchEnv, Step
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.drivers import Driver, make_driver

FASTEST = 4.5
"""Speed shown in the warmest colour, m/s."""


def watch(config: WatchConfig) -> dict[str, Any]:
    """Drive until the laps are done, the car crashes or time is up; say how it went."""
    task = _task(config)
    driver = _driver(config.model, task)
    env = BatchEnv(task, 1, seed=config.seed)
    picture = env.reset()
    limit = lap_limit(config.track)
    drive = _Drive(config, None if limit is None else limit.time, task.control_dt)
    track = task.roads.tracks[0]
    with ExitStack() as closing:
        film = None
        if config.video is not None:
            film = closing.enter_context(Film(config.video, track, 1 / task.control_dt, FASTEST))
        for _ in range(task.max_steps):
            step = env.step(driver(env.world))
            drive.note(step)
            if film is not None:
                x, y, _ = step.metrics["pos"][0].tolist()
                film.add(picture[0].numpy(), x, y, float(step.metrics["speed"]), drive.caption())
            picture = step.observation
            if drive.over:
                break
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

    def __init__(self, config: WatchConfig, limit: float | None, dt: float) -> None:
        self.config = config
        self.limit = limit
        self.dt = dt
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
        elif bool(step.truncated) and self.time < self.config.seconds - 0.1:
            self.end = "road driven to its end"
        else:
            return
        self.over = True

    def caption(self) -> list[str]:
        """Lines of text for a frame of the film."""
        last = f"last lap {self.laps[-1]:.2f} s" if self.laps else ""
        return [
            f"{self.config.track}   {self.config.model.partition(':')[2]}",
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
