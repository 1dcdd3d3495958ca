from pathlib import Path

import imageio_ffmpeg
import pytest
import torch

from hotlap.config.commands import WatchConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.sensors import CameraConfig
from hotlap.evaluation.film_camera import FilmCamera
from hotlap.evaluation.watching import watch, watch_policy
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.drivers import make_driver
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

from .scripted import always


def one_env(name: str, stack: int = 1, **settings: object) -> Interface:
    task = make_task(name, tracks=("waveshare",), **settings)
    return Interface(BatchEnv(task, 1, seed=3), InterfaceConfig(stack=stack))


def test_a_scripted_driver_is_watched_for_a_lap() -> None:
    told = watch(WatchConfig("scripted:pure_pursuit", track="waveshare"))
    assert (told["end"], told["laps"], told["crash_s"]) == ("laps done", 1, None)
    assert told["best_over_limit"] == pytest.approx(told["lap_times"][0] / told["lap_limit"], 1e-3)


def test_a_policy_drives_as_the_scripted_driver_that_it_asks() -> None:
    config = WatchConfig("runs/a/model", track="waveshare", seed=3)
    env = one_env("donkey-lidar", max_steps=2400)
    assert isinstance(env.task, DonkeyTask)
    driver = make_driver("pure_pursuit", env.task)
    told = watch_policy(config, env, lambda seen: driver(env.world))
    scripted = watch(WatchConfig("scripted:pure_pursuit", track="waveshare", seed=3))
    assert told == scripted | {"model": "runs/a/model"}


@pytest.mark.parametrize("limits", [{"max_steps": 10}, {"seconds": 0.5}])
def test_time_runs_out_with_the_task_or_with_the_watch(limits: dict[str, float]) -> None:
    env = one_env("donkey-telemetry", max_steps=int(limits.get("max_steps", 1000)))
    config = WatchConfig("zoo:x", track="waveshare", seconds=limits.get("seconds", 120.0))
    told = watch_policy(config, env, always(0.0, 0.0))
    assert (told["end"], told["seconds"]) == ("out of time", 0.5)


def test_a_crash_is_told_with_its_place() -> None:
    told = watch_policy(
        WatchConfig("zoo:x", track="waveshare"), one_env("donkey-telemetry"), always(1.0, 0.6)
    )
    assert told["end"] in ("left the road", "hit a wall")
    assert told["crash_s"] is not None


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("donkey-lidar", {}),
        ("donkey", {"stack": 4, "camera": CameraConfig(40, 40, colour=False)}),
    ],
)
def test_any_policy_is_filmed(name: str, settings: dict, tmp_path: Path) -> None:
    config = WatchConfig("zoo:x", track="waveshare", seconds=0.5, video=tmp_path / "a.mp4")
    told = watch_policy(config, one_env(name, **settings), always(0.0, 0.5))
    frames, _ = imageio_ffmpeg.count_frames_and_secs(told["video"])
    assert frames == 10


def test_the_film_shows_the_last_frame_of_a_stack_whole() -> None:
    env = one_env("donkey", stack=3, camera=CameraConfig(40, 40, colour=False))
    assert isinstance(env.task, DonkeyTask)
    env.reset()
    for _ in range(5):
        seen = env.step(torch.tensor([[1.0, 1.0]])).observation
    picture = FilmCamera(env, env.task).picture(seen)
    assert picture.shape == (40, 53, 1)  # 4:3, as the film
    assert (picture[:, 6:46, 0] == seen[0, ..., -1].numpy()).all()
    assert not picture[:, :6].any() and not picture[:, 46:].any()


def test_a_driver_without_eyes_is_filmed_as_a_camera_would_see_it() -> None:
    blind, seeing = one_env("donkey-lidar"), one_env("donkey", camera=CameraConfig(320, 240))
    assert isinstance(blind.task, DonkeyTask)
    for env in (blind, seeing):
        env.reset()
        seen = env.step(torch.tensor([[0.5, 1.0]])).observation
    assert (FilmCamera(blind, blind.task).picture(seen) == seen[0].numpy()).all()


def test_what_cannot_be_watched_is_refused() -> None:
    with pytest.raises(ValueError, match="one environment can be watched at a time, got 2"):
        watch_policy(WatchConfig("zoo:x"), BatchEnv(make_task("donkey-lidar"), 2), always(0.0, 0.0))
    with pytest.raises(KeyError, match="task to watch"):
        watch_policy(WatchConfig("zoo:x"), BatchEnv(make_task("tag"), 1), always(0.0, 0.0))
    with pytest.raises(ValueError, match="write scripted:NAME"):
        watch(WatchConfig("zoo:x"))
