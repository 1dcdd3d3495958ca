"""A batch equals its members, in any order, eager or compiled."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hotlap.config.vehicles import VEHICLES, find_vehicle
from hotlap.sim.vehicles.model import advance, vehicle_params

from .rollout import drive, random_command, random_state, start

State = dict[str, Tensor]


def roll(name: str, state: State, command: Tensor, steps: int = 20) -> State:
    config = find_vehicle(name)
    return drive(config, state, steps, *command.unbind(-1))


def pick(state: State, index: Tensor) -> State:
    return {key: value[index] for key, value in state.items()}


@pytest.mark.parametrize("name", sorted(VEHICLES))
@pytest.mark.parametrize("batch", [7, 64])
def test_an_environment_in_a_batch_equals_itself_alone(name: str, batch: int) -> None:
    config = find_vehicle(name)
    state, command = random_state(config, batch, 2.0), random_command(config, batch)
    together = roll(name, state, command)
    for i in (0, batch // 2, batch - 1):
        member = torch.tensor([i])
        alone = roll(name, pick(state, member), command[member])
        for key, value in alone.items():
            torch.testing.assert_close(value, together[key][member], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", sorted(VEHICLES))
def test_shuffled_environments_give_shuffled_results(name: str) -> None:
    config = find_vehicle(name)
    state, command = random_state(config, 32, 2.0), random_command(config, 32)
    order = torch.randperm(32, generator=torch.Generator().manual_seed(2))
    shuffled = roll(name, pick(state, order), command[order])
    straight = pick(roll(name, state, command), order)
    for key, value in straight.items():
        torch.testing.assert_close(shuffled[key], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", sorted(VEHICLES))
def test_two_cars_in_one_environment_equal_two_environments(name: str) -> None:
    config = find_vehicle(name)
    state, command = random_state(config, 8, 2.0), random_command(config, 8)
    apart = roll(name, state, command)
    paired = {key: value.reshape(4, 2, *value.shape[2:]) for key, value in state.items()}
    together = roll(name, paired, command.reshape(4, 2, 3))
    for key, value in apart.items():
        torch.testing.assert_close(together[key].reshape(value.shape), value, rtol=1e-6, atol=1e-6)


def test_the_step_leaves_its_input_alone() -> None:
    config = find_vehicle("donkey")
    state = start(config, speed=1.0)
    before = {key: value.clone() for key, value in state.items()}
    drive(config, state, 1, steer=0.5, throttle=1.0)
    assert all(torch.equal(state[key], before[key]) for key in state)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(VEHICLES))
def test_compiled_equals_eager(name: str) -> None:
    config, batch = find_vehicle(name), 64
    state, command = random_state(config, batch, 2.0), random_command(config, batch)
    params, zero = vehicle_params(config, batch), torch.zeros(batch, 1)
    rest = (command, params, zero + 1, zero, config.physics_dt, config.substeps)
    expected = advance(config, state, *rest)
    found = torch.compile(advance, fullgraph=True)(config, state, *rest)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-4)


def test_the_step_is_one_graph_without_breaks() -> None:
    # The slow test compiles for real; tracing alone already rejects branches on data.
    config = find_vehicle("donkey")
    state, command = random_state(config, 4, 2.0), random_command(config, 4)
    params, zero = vehicle_params(config, 4), torch.zeros(4, 1)
    traced = torch.compile(advance, fullgraph=True, backend="eager")
    found = traced(config, state, command, params, zero + 1, zero, 0.01, 1)
    expected = advance(config, state, command, params, zero + 1, zero, 0.01, 1)
    torch.testing.assert_close(found, expected)
