"""One car over the wire: the same task as in this process, and no call that waits for ever."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from hotlap.config.sensors import CameraConfig
from hotlap.tasks.adapters.gym_env import GymEnv
from hotlap.tasks.bridges.aliases import BRIDGE_ID, register_aliases
from hotlap.tasks.bridges.donkey import DonkeyBridge
from hotlap.tasks.bridges.pictures import WrongSimulator
from hotlap.wire.client import SimulatorGone
from hotlap.wire.messages import CamConfig, Control, StartLine, StepMode

from .conftest import Playing, Serving
from .played import Simulator, silent

SMALL = CameraConfig(width=32, height=24, colour=False)
QUICK: dict[str, Any] = {"timeout": 0.5, "patience": 0.3, "camera": SMALL}


def action(steering: float = 0.0, throttle: float = 0.2) -> np.ndarray:
    return np.array([steering, throttle], dtype=np.float32)


@pytest.fixture
def bridges() -> Iterator[Any]:
    """Environments, closed with the test."""
    with ExitStack() as closing:

        def make(port: int, track: str = "waveshare", **settings: Any) -> DonkeyBridge:
            env = DonkeyBridge(track, port=port, **settings)
            closing.callback(env.close)
            return env

        yield make


# --- the same task -----------------------------------------------------------------------------


@pytest.mark.parametrize(("colour", "apart"), [(True, 0), (False, 1)])
def test_it_is_the_task_of_this_process(
    serving: Serving, bridges: Any, colour: bool, apart: int
) -> None:
    settings: dict[str, Any] = {
        "camera": CameraConfig(width=40, height=30, colour=colour, pitch=0.0, up=0.2, fov=70.0),
        "max_cte": 4.0,
    }
    here = GymEnv("donkey", tracks=("waveshare",), **settings)
    there = bridges(serving().port, **settings)
    assert there.observation_space == here.observation_space
    assert there.action_space == here.action_space
    seen, _ = there.reset()
    expected, _ = here.reset(seed=0)
    terminated = False
    for step in range(200):
        # Gray is rounded once here, and there after its colours were.
        assert np.abs(seen.astype(int) - expected.astype(int)).max() <= apart, step
        if terminated:
            break
        command = action(0.8 * np.sin(step / 4), 0.3)
        seen, reward, terminated, _, info = there.step(command)
        expected, *rest = here.step(command)
        assert (reward, terminated) == (pytest.approx(rest[0], abs=1e-5), rest[1]), step
        for name in ("cte", "speed", "forward_vel"):
            assert info[name] == pytest.approx(rest[3][name], abs=1e-4), (step, name)
    assert terminated


def test_it_is_cut_off_after_its_steps(serving: Serving, bridges: Any) -> None:
    env = bridges(serving().port, camera=SMALL, max_steps=3)
    env.reset()
    ends = [env.step(action(throttle=0.0))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(action())


def test_gymnasiums_checker_passes(serving: Serving) -> None:
    register_aliases()
    settings = {"track": "waveshare", "port": serving().port, "camera": SMALL}
    env = gym.make(BRIDGE_ID, render_mode="rgb_array", **settings)
    gymnasium_check(env.unwrapped)
    env.close()


def test_a_hit_ends_the_episode_even_where_another_frame_followed(
    playing: Playing, bridges: Any
) -> None:
    # The first frame after a control tells of the hit, once; the car is looked at later.
    env = bridges(playing(Simulator(lambda n: {"hit": "cone"} if n == 1 else {})), **QUICK)
    env.reset()
    env.car.send(0.0, 0.1)
    time.sleep(0.2)
    assert env.car.receive().telemetry.hit == "cone"


def test_what_came_before_the_command_is_not_its_answer(playing: Playing, bridges: Any) -> None:
    env = bridges(playing(Simulator(lambda n: {"active_node": n}, delay=0.1)), **QUICK)
    env.reset()
    time.sleep(0.25)  # frames that nobody has read
    env.car.send(0.0, 0.1)
    assert env.car.receive().telemetry.active_node == 1, "the first since the command"


def test_laps_are_counted_by_the_line(playing: Playing, bridges: Any) -> None:
    simulator = Simulator()
    env = bridges(playing(simulator), **QUICK)
    env.reset()
    told = []
    for index, when in ((0, 1.0), (1, 4.0), (0, 21.5), (0, 40.0)):
        simulator.lines.append(StartLine(index, when))
        deadline = time.monotonic() + 5
        while simulator.lines and time.monotonic() < deadline:
            *_, info = env.step(action())
        told.append((info["lap_count"], info["last_lap_time"]))
    assert told == [(0, 0.0), (0, 0.0), (1, 20.5), (2, 18.5)]
    _, info = env.reset()
    assert (info["lap_count"], info["last_lap_time"]) == (0, 0.0)


def test_the_simulator_is_told_how_the_camera_is_mounted(playing: Playing, bridges: Any) -> None:
    simulator = Simulator()
    env = bridges(playing(simulator), **QUICK, encoding="JPG", steer_limit=0.5)
    seen, _ = env.reset()
    env.step(action(0.9, 2.0))
    told = [command for command in simulator.heard if isinstance(command, CamConfig)]
    assert told == [
        CamConfig(
            fov=90.0, img_w=32, img_h=24, img_d=3, img_enc="JPG", offset_y=1.12, offset_z=0.552,
            rot_x=15.0,
        )
    ]  # fmt: skip
    assert Control(0.5, 1.0) in simulator.heard, "held to the bounds"
    assert not any(isinstance(command, StepMode) for command in simulator.heard), "it would stop"
    assert (seen.shape, seen.min(), seen.max()) == ((24, 32, 1), 124, 124)


def test_gray_pictures_of_one_channel_are_taken_as_they_are(playing: Playing, bridges: Any) -> None:
    env = bridges(playing(Simulator(mode="L")), **QUICK)
    seen, _ = env.reset()
    assert (seen.shape, seen.min(), seen.max()) == ((24, 32, 1), 124, 124)


def test_an_action_is_held_for_several_frames(serving: Serving, bridges: Any) -> None:
    port = serving().port
    env, single = bridges(port, camera=SMALL, frame_skip=3), bridges(port, camera=SMALL)
    env.reset(), single.reset()
    *_, info = env.step(action())
    for _ in range(3):
        *_, expected = single.step(action())
    assert info["pos"] == expected["pos"]


def test_an_open_road_runs_out(playing: Playing, bridges: Any) -> None:
    from hotlap.tasks.bridges.verdicts import has_run_out
    from hotlap.wire.messages import Telemetry

    for scene, node, over in (
        ("generated_road", 996, False), ("generated_road", 997, True), ("waveshare", 999, False),
    ):  # fmt: skip
        report = Telemetry(0.0, 0.0, "", active_node=node, total_nodes=1000)
        assert has_run_out(scene, report) is over


# --- what cannot be driven ---------------------------------------------------------------------


@pytest.mark.parametrize("reward", ["v3", "v4", "v6", "racing"])
def test_rewards_that_telemetry_is_not_enough_for_are_refused(reward: str) -> None:
    with pytest.raises(ValueError, match="default, v1, v2, v5"):
        DonkeyBridge(reward=reward)


@pytest.mark.parametrize("reward", ["default", "v1", "v2", "v5"])
def test_the_others_are_paid(playing: Playing, bridges: Any, reward: str) -> None:
    env = bridges(playing(Simulator(lambda _: {"cte": 4.0})), **QUICK, reward=reward)
    env.reset()
    _, paid, *_, info = env.step(action())
    # Halfway to max_cte at 1 m/s: closeness 0.5.
    expected = {"default": 0.5, "v1": 0.5, "v2": 0.55, "v5": 0.05}
    assert paid == pytest.approx(expected[reward])
    assert paid == pytest.approx(sum(v for k, v in info.items() if k.startswith("reward/")))


def test_other_sensors_are_refused() -> None:
    with pytest.raises(ValueError, match="camera"):
        DonkeyBridge(sensor="lidar")


def test_ending_with_the_road_is_refused() -> None:
    with pytest.raises(ValueError, match=r'does not tell where the road.*end = "cte"'):
        DonkeyBridge(end="road")


def test_pictures_that_simulators_do_not_draw_are_refused() -> None:
    with pytest.raises(ValueError, match="16 to 512"):
        DonkeyBridge(camera=CameraConfig(width=600, height=400))


def test_an_unknown_scene_lists_those_there_are(serving: Serving, bridges: Any) -> None:
    with pytest.raises(KeyError, match=r"did you mean 'mini_monaco'.*warehouse"):
        bridges(serving().port, "minimonaco", **QUICK).reset()


def test_lockstep_is_refused_where_there_is_none(playing: Playing, bridges: Any) -> None:
    with pytest.raises(ValueError, match="only hotlap serve can"):
        bridges(playing(Simulator()), **QUICK, lockstep="on").reset()


@pytest.mark.parametrize(
    ("simulator", "camera", "message"),
    [
        (Simulator(size=(16, 12)), SMALL, "expected pictures of 32x24x1, got 16x12x3.*img_w = 32"),
        (Simulator(mode="L"), CameraConfig(32, 24), "expected pictures of 32x24x3, got 32x24x1"),
    ],
)
def test_another_picture_is_an_error(
    playing: Playing, bridges: Any, simulator: Simulator, camera: CameraConfig, message: str
) -> None:
    env = bridges(playing(simulator), **(QUICK | {"camera": camera}))
    with pytest.raises(WrongSimulator, match=message):
        env.reset()


def test_without_cte_there_is_no_reward(playing: Playing, bridges: Any) -> None:
    env = bridges(playing(Simulator(lambda _: {"cte": None})), **QUICK)
    env.reset()
    with pytest.raises(WrongSimulator, match="extended telemetry"):
        env.step(action())


# --- simulators that go away -------------------------------------------------------------------


def gone_within(seconds: float, call: Any) -> str:
    """What it says, once it is sure that nobody answers."""
    began = time.monotonic()
    with pytest.raises(SimulatorGone) as caught:
        call()
    assert time.monotonic() - began < seconds
    return str(caught.value)


def test_a_server_that_dies_in_the_middle_of_a_step(serving: Serving, bridges: Any) -> None:
    running = serving()
    env = bridges(running.port, camera=SMALL)
    env.reset()
    timer = threading.Timer(0.2, running.stop)
    timer.start()

    def drive() -> None:
        while True:
            if any(env.step(action(throttle=0.0))[2:4]):
                env.reset()

    assert f"127.0.0.1:{running.port}" in gone_within(5.0, drive)
    timer.join()
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(action())


def test_a_simulator_that_falls_silent(playing: Playing, bridges: Any) -> None:
    simulator = Simulator()
    env = bridges(playing(simulator), **QUICK)
    env.reset()
    simulator.mute = True
    time.sleep(0.05)
    assert "did not send telemetry within 0.5 s" in gone_within(2.0, lambda: env.step(action()))


def test_a_server_that_comes_back_is_found_again(serving: Serving, bridges: Any) -> None:
    first = serving()
    env = bridges(first.port, camera=SMALL, patience=20.0)
    seen, _ = env.reset()
    env.step(action())
    first.stop()
    first.said("left")
    timer = threading.Timer(0.5, lambda: serving(port=first.port))
    timer.start()
    try:
        again, info = env.reset()
    finally:
        timer.join()
    assert np.array_equal(seen, again)
    assert info["speed"] == 0.0
    env.step(action())


def test_one_that_accepts_and_says_nothing(playing: Playing, bridges: Any) -> None:
    env = bridges(playing(silent), **QUICK)
    assert "did not greet within 0.5 s" in gone_within(3.0, env.reset)


def test_one_that_hangs_up_at_once(playing: Playing, bridges: Any) -> None:
    env = bridges(playing(lambda sock: None), **QUICK)
    assert "closed the connection" in gone_within(3.0, env.reset)


def test_nobody_there(bridges: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    said = gone_within(3.0, bridges(port, **QUICK).reset)
    assert f"start one by: hotlap serve --port {port}" in said


def test_an_address_that_swallows_everything(bridges: Any) -> None:
    with ExitStack() as closing:
        listener = closing.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):  # its queue is full: further handshakes are left unanswered
            filler = closing.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        env = bridges(listener.getsockname()[1], **QUICK)
        assert "no simulator at" in gone_within(3.0, env.reset)
