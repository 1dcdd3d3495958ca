"""Several cars over the wire, for whatever takes a batch of our own."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from hotlap.config.bridges import BridgeConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.sensors import CameraConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.bridges.wire_batch import WireBatch, WireTask
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.interface import Interface
from hotlap.wire.client import SimulatorGone
from hotlap.wire.messages import SetPosition

from .conftest import Playing, Serving
from .played import Simulator

CAMERA = CameraConfig(width=32, height=24)
WAVESHARE = DonkeyConfig(tracks=("waveshare",), camera=CAMERA, max_steps=5)


@pytest.fixture
def wired() -> Iterator[Any]:
    """Tasks over the wire, closed with the test."""
    made: list[WireTask] = []

    def make(ports: list[int], config: DonkeyConfig = WAVESHARE, **settings: Any) -> WireTask:
        addresses = tuple(f"127.0.0.1:{port}" for port in ports)
        made.append(WireTask(config, BridgeConfig(addresses, **settings)))
        return made[-1]

    yield make
    for task in made:
        task.close()


def test_two_simulators_are_a_batch_like_our_own(serving: Serving, wired: Any) -> None:
    there = WireBatch(wired([serving().port, serving().port]), 2)
    here = BatchEnv(DonkeyTask(WAVESHARE), 2)
    assert torch.equal(there.reset(), here.reset())
    for number in range(1, 8):
        command = torch.tensor([[0.2, 0.4], [-0.3, 0.5]]) * number / 7
        told, expected = there.step(command), here.step(command)
        # The sixth step is the first of the next episode, seen from the start again.
        assert torch.equal(told.observation, expected.observation), number
        assert torch.equal(told.truncated, expected.truncated)
        assert torch.equal(told.episode_length, expected.episode_length)
        assert told.episode_return == pytest.approx(expected.episode_return, abs=1e-5)
        for name in ("cte", "speed", "forward_vel", "pos", "vel", "gyro", "laps"):
            assert torch.allclose(
                told.metrics[name].float(), expected.metrics[name].float(), atol=1e-4
            ), name
        if told.done.any():
            which = torch.tensor([1])
            last = there.final_observation(which)
            assert torch.equal(last, here.final_observation(which))
            assert not torch.equal(last, told.observation[which])


def test_a_learner_meets_it_through_the_same_interface(serving: Serving, wired: Any) -> None:
    port = serving().port
    shape = InterfaceConfig(actions="discrete", stack=2)
    there = SB3VecEnv(Interface(WireBatch(wired([port, port]), 2), shape))
    here = SB3VecEnv(Interface(BatchEnv(DonkeyTask(WAVESHARE), 2), shape))
    assert there.observation_space == here.observation_space
    assert there.action_space == here.action_space
    assert np.array_equal(there.reset(), here.reset())
    for number in range(6):
        actions = np.array([number, 14 - number])
        seen, earned, done, infos = there.step(actions)
        expected, paid, over, told = here.step(actions)
        assert np.array_equal(seen, expected)
        assert earned == pytest.approx(paid, abs=1e-5)
        assert np.array_equal(done, over)
        for ours, theirs in zip(infos, told, strict=True):
            assert ours.get("TimeLimit.truncated") == theirs.get("TimeLimit.truncated")
            if "terminal_observation" in theirs:
                assert np.array_equal(ours["terminal_observation"], theirs["terminal_observation"])
    there.close()


def test_all_are_sent_their_commands_before_any_is_waited_for(playing: Playing, wired: Any) -> None:
    slow = [playing(Simulator(delay=0.2)) for _ in range(3)]
    task = wired(slow, timeout=2.0)
    batch = WireBatch(task, 3)
    batch.reset()
    began = time.monotonic()
    for _ in range(3):
        batch.step(torch.zeros(3, 2))
    took = time.monotonic() - began
    assert 0.6 <= took < 1.6, "one after another it would be 1.8 s"
    assert len(task.waits) == 9
    assert 0.15 < np.median(task.waits) < 0.6


def test_one_of_them_gone_ends_the_step(playing: Playing, wired: Any) -> None:
    simulators = [Simulator(), Simulator()]
    batch = WireBatch(wired([playing(s) for s in simulators], timeout=0.5, patience=0.3), 2)
    batch.reset()
    simulators[1].mute = True
    time.sleep(0.05)
    began = time.monotonic()
    with pytest.raises(SimulatorGone, match=r"within 0\.5 s"):
        batch.step(torch.zeros(2, 2))
    assert time.monotonic() - began < 2


def test_cars_drive_in_the_scenes_of_their_identities(serving: Serving, wired: Any) -> None:
    config = DonkeyConfig(tracks=("waveshare", "warehouse"), camera=CAMERA)
    task = wired([serving().port], config)
    alone = {
        track: BatchEnv(DonkeyTask(DonkeyConfig(tracks=(track,), camera=CAMERA)), 1).reset()
        for track in config.tracks
    }
    for identity in (0, 1, 0):
        there = WireBatch(task, 1, who=torch.tensor([identity])).reset()
        assert torch.equal(there, alone[config.tracks[identity]])


def test_cars_begin_anywhere_where_the_server_is_ours(serving: Serving, wired: Any) -> None:
    config = DonkeyConfig(tracks=("waveshare",), camera=CAMERA, start="random", max_steps=1)
    task = wired([serving().port] * 2, config)

    def places(seed: int) -> torch.Tensor:
        batch = WireBatch(task, 2, seed)
        batch.reset()
        steps = [batch.step(torch.zeros(2, 2)) for _ in range(3)]
        assert all(bool((step.metrics["speed"] < 0.1).all()) for step in steps)
        assert all(bool((step.metrics["cte"].abs() < 0.5).all()) for step in steps)
        return torch.stack([step.metrics["pos"] for step in steps])

    first = places(1)
    assert torch.equal(first, places(1))
    assert len(torch.unique(first.flatten(0, 1), dim=0)) == 6, "three episodes of two cars"
    assert not torch.equal(first, places(2))


def test_elsewhere_they_begin_at_the_start(playing: Playing, wired: Any) -> None:
    simulator = Simulator()
    config = DonkeyConfig(tracks=("waveshare",), camera=CAMERA, start="random")
    WireBatch(wired([playing(simulator)], config), 1).reset()
    assert not any(isinstance(command, SetPosition) for command in simulator.heard)


def test_more_environments_than_addresses_are_refused(wired: Any) -> None:
    with pytest.raises(ValueError, match="2 environments need as many addresses, got 1"):
        WireBatch(wired([9091]), 2)
