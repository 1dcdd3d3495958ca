"""gym_donkeycar's environments by their own names."""

import copy
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hotlap.config.bridges import SCENES
from hotlap.sim.tracks.named import NAMES
from hotlap.tasks.adapters import register_envs
from hotlap.tasks.bridges.conf import read_conf
from hotlap.wire.messages import CarConfig

from .conftest import Playing, Serving
from .played import Simulator

SMALL = {"cam_resolution": (24, 32, 3), "cam_config": {"img_w": 32, "img_h": 24}}
FULL: dict[str, Any] = {
    "exe_path": "remote", "host": "127.0.0.1", "start_delay": 2.0, "max_cte": 4.0, "frame_skip": 2,
    "log_level": 20, "steer_limit": 0.5, "throttle_min": -0.5, "throttle_max": 0.5,
    "body_style": "donkey", "body_rgb": (1, 2, 3), "car_name": "me", "font_size": 50,
    "racer_name": "x", "country": "y", "bio": "z", "guid": "0", "level": "of another time",
    "cam_config_b": {"img_w": 16, "img_h": 16},
    "lidar_config": {"deg_per_sweep_inc": 2.0, "max_range": 50.0, "noise": 0.0}, **SMALL,
}  # fmt: skip
KEYS = {"pos", "cte", "speed", "forward_vel", "hit", "gyro", "accel", "vel", "lidar", "car",
        "last_lap_time", "lap_count"}  # fmt: skip
"""What gym_donkeycar's info holds."""


@pytest.fixture
def made() -> Iterator[Any]:
    register_envs()
    envs: list[gym.Env[Any, Any]] = []

    def make(name: str, **settings: Any) -> gym.Env[Any, Any]:
        envs.append(gym.make(name, **settings))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


def test_every_scene_has_its_name() -> None:
    assert set(SCENES.values()) == set(NAMES)


def test_without_an_address_it_drives_in_this_process(made: Any) -> None:
    env = made("donkey-warehouse-v0", conf=dict(SMALL))
    seen, info = env.reset(seed=0)
    assert seen.shape == (24, 32, 3)
    assert env.action_space == gym.spaces.Box(np.float32([-1, 0]), np.float32([1, 1]))
    assert set(info) >= KEYS
    assert (info["speed"], info["hit"], info["lap_count"]) == (0.0, "none", 0)
    for _ in range(20):
        _, reward, terminated, truncated, info = env.step(np.float32([0, 0.5]))
    assert not (terminated or truncated)
    assert reward == pytest.approx(info["forward_vel"] * (1 - abs(info["cte"]) / 8), abs=1e-4)
    assert info["vel"][2] == info["forward_vel"] > 0.3


def test_the_same_conf_tells_the_same_over_the_wire(serving: Serving, made: Any) -> None:
    here = made("donkey-waveshare-v0", conf=dict(SMALL, max_cte=4.0, frame_skip=2))
    port = serving().port
    there = made("donkey-waveshare-v0", conf=dict(SMALL, max_cte=4.0, frame_skip=2, port=port))
    assert np.array_equal(here.reset(seed=0)[0], there.reset(seed=0)[0])
    for number in range(200):
        command = np.float32([0.5 * np.sin(number / 3), 0.4])
        seen, reward, terminated, _, info = there.step(command)
        expected, paid, over, _, told = here.step(command)
        assert np.array_equal(seen, expected)
        assert (reward, terminated) == (pytest.approx(paid, abs=1e-4), over)
        for name in KEYS - {"accel", "hit", "lidar"}:
            assert info[name] == pytest.approx(told[name], abs=2e-3), (number, name)
        if over:
            break
    assert over


def test_a_full_conf_is_understood_and_left_alone(serving: Serving, made: Any) -> None:
    conf = FULL | {"port": serving().port}
    before = copy.deepcopy(conf)
    env = made("donkey-minimonaco-track-v0", conf=conf)
    assert conf == before
    env.reset()
    seen, *_, info = env.step(np.float32([0, 0.1]))
    assert seen.shape == (24, 32, 3)
    assert env.action_space == gym.spaces.Box(np.float32([-0.5, -0.5]), np.float32([0.5, 0.5]))
    assert info["image_b"].shape == (16, 16, 3)
    assert info["lidar"].shape == (180,)
    assert info["lidar"].max() > 1 > 0 > info["lidar"].min()


def test_how_the_car_looks_is_told(playing: Playing, made: Any) -> None:
    simulator = Simulator()
    conf = FULL | {"port": playing(simulator)}
    made("donkey-waveshare-v0", conf=conf).reset()
    assert CarConfig("donkey", 1.0, 2.0, 3.0, "me", 50) in simulator.heard


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"max_ctee": 3}, "unknown conf key 'max_ctee'; did you mean 'max_cte'"),
        ({"cam_config": {"img_width": 3}}, "unknown key of cam_config 'img_width'"),
        ({"lidar_config": {"degPerSweepInc": 2}}, "did you mean 'deg_per_sweep_inc'"),
        ({"car_config": {"body_stile": "f1"}}, "did you mean 'body_style'"),
        ({"img_w": 64}, "inside cam_config"),
        ({"cam_config": {"img_w": 64, "img_h": 48}, "cam_resolution": (60, 80, 3)}, "the same"),
        ({"cam_resolution": (60, 80, 4)}, "gray.*colour"),
        ({"exe_path": "/opt/donkey_sim"}, "hotlap serve --port 9091"),
        ({"lidar_config": {}}, "over the wire"),
        ({"cam_config": {"rot_y": 10}}, "rot_y of cam_config is for simulators over the wire"),
        ({"frame_skip": 0}, "frame_skip must be at least 1"),
        ({"max_cte": -1}, "max_cte must be positive"),
    ],
)
def test_what_a_conf_cannot_say(made: Any, conf: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made("donkey-waveshare-v0", conf=conf)


def test_a_camera_is_mounted_as_its_conf_says() -> None:
    told = {"img_w": 80, "img_h": 60, "fov": 70, "offset_y": 2.0, "offset_z": 1.0, "rot_x": 30.0}
    camera = read_conf("waveshare", {"cam_config": told}).settings.camera
    assert (camera.width, camera.height, camera.colour) == (80, 60, True)
    assert (camera.fov, camera.up, camera.forward, camera.pitch) == (70, 0.25, 0.125, 30.0)


def test_names_that_are_taken_are_left_alone() -> None:
    register_envs()
    name, theirs = "donkey-warren-track-v0", "gym_donkeycar.envs.donkey_env:WarrenTrackEnv"
    ours = gym.registry.pop(name)
    try:
        gym.register(name, entry_point=theirs)
        register_envs()
        assert gym.registry[name].entry_point == theirs
    finally:
        gym.registry[name] = ours
