"""The unmodified gym-donkeycar client against our server; skipped where it is not installed."""

import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from .conftest import Serving

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("gym_donkeycar")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Making = Callable[..., gymnasium.Env[Any, Any]]


@pytest.fixture
def making() -> Iterator[Making]:
    """Environments of gym-donkeycar, closed with the test."""
    made: list[gymnasium.Env[Any, Any]] = []

    def make(name: str, port: int, **conf: object) -> gymnasium.Env[Any, Any]:
        settings = {"host": "127.0.0.1", "port": port, "log_level": logging.WARNING, **conf}
        made.append(gymnasium.make(name, conf=settings))
        return made[-1]

    yield make
    for env in made:
        env.close()


def drive(env: gymnasium.Env[Any, Any], steps: int, laps: int, pace: float = 1.2) -> dict[str, Any]:
    """Follow the path by its error alone; the last info."""
    _, info = env.reset()
    before = info["cte"]
    for _ in range(steps):
        cte, speed = info["cte"], info["speed"]
        steering = np.clip(-0.3 * cte - 1.6 * (cte - before), -1, 1)
        throttle = np.clip(0.5 * (pace - speed) + 0.12, 0, 0.6)
        before = cte
        _, _, terminated, _, info = env.step(np.array([steering, throttle], dtype=np.float32))
        assert not terminated, info
        if info["lap_count"] >= laps:
            break
    return info


def test_it_makes_resets_steps_and_laps(serving: Serving, making: Making) -> None:
    env = making("donkey-generated-track-v0", serving(speed=3.0).port)
    observation, info = env.reset()
    assert observation.shape == (120, 160, 3)
    assert (info["speed"], info["hit"], info["lap_count"]) == (0.0, "none", 0)
    info = drive(env, 3000, laps=1)
    assert info["lap_count"] == 1
    assert 15 < info["last_lap_time"] < 40
    assert info["forward_vel"] > 0.5


def test_after_its_reset_the_car_is_at_its_start(serving: Serving, making: Making) -> None:
    env = making("donkey-waveshare-v0", serving().port)
    _, first = env.reset()
    for _ in range(20):
        _, _, _, _, far = env.step(np.array([0.2, 0.5], dtype=np.float32))
    assert far["speed"] > 0.3
    _, again = env.reset()
    assert again["pos"] == pytest.approx(first["pos"], abs=1e-4)
    assert (again["speed"], again["cte"]) == (0.0, pytest.approx(first["cte"], abs=1e-4))


def test_its_cameras_and_lidar_are_configured(serving: Serving, making: Making) -> None:
    env = making(
        "donkey-warehouse-v0",
        serving().port,
        cam_resolution=(48, 64, 3),
        cam_config={"img_w": 64, "img_h": 48, "img_enc": "PNG", "fov": 80},
        cam_config_b={"img_w": 32, "img_h": 24},
        lidar_config={"deg_per_sweep_inc": 2.0, "max_range": 50.0},
        car_config={
            "body_style": "donkey", "body_rgb": (1, 2, 3), "car_name": "me", "font_size": 50,
        },
    )  # fmt: skip
    observation, _ = env.reset()
    observation, _, _, _, info = env.step(np.array([0.0, 0.1], dtype=np.float32))
    assert observation.shape == (48, 64, 3)
    assert info["image_b"].shape == (24, 32, 3)
    assert info["lidar"].shape == (180,)
    assert info["lidar"].max() > 3


def test_every_environment_can_be_made(serving: Serving, making: Making) -> None:
    port = serving().port
    for name in [name for name in gymnasium.registry if name.startswith("donkey-")]:
        env = making(name, port)
        _, info = env.reset()
        assert abs(info["cte"]) < 1, name


def test_several_drive_at_once(serving: Serving, making: Making) -> None:
    port = serving(speed=2.0).port
    names = ["donkey-generated-track-v0", "donkey-warren-track-v0", "donkey-generated-track-v0"]
    envs = [making(name, port) for name in names]
    infos: dict[int, dict[str, Any]] = {}
    threads = [
        threading.Thread(target=lambda i=i: infos.update({i: drive(envs[i], 150, laps=9)}))
        for i in range(3)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(infos) == [0, 1, 2]
    assert all(info["speed"] > 0.8 for info in infos.values())
    assert time.monotonic() - began < 30
