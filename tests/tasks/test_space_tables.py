"""Spaces go through JSON and come back equal."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from hotlap.tasks.registry import TASKS, make_task
from hotlap.tasks.space_tables import describe_space, read_space

SPACES = {
    "choice": spaces.Discrete(15),
    "choice from 3 on": spaces.Discrete(4, start=3),
    "choice from -1 on": spaces.Discrete(3, start=-1),
    "picture": spaces.Box(0, 255, (30, 40, 3), np.uint8),
    "numbers without bounds": spaces.Box(-np.inf, np.inf, (16,), np.float32),
    "bounds of their own": spaces.Box(
        np.array([-1.0, 0.0], np.float32), np.array([1.0, 0.1], np.float32)
    ),
    "half bounded": spaces.Box(
        np.array([-np.inf, 0.0], np.float32), np.array([1.0, np.inf], np.float32)
    ),
    "doubles": spaces.Box(-0.1, 1 / 3, (2, 2), np.float64),
    "whole numbers": spaces.Box(-5, 7, (3,), np.int64),
    "one number": spaces.Box(0.0, 1.0, (), np.float32),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_space_comes_back_equal(name: str) -> None:
    space = SPACES[name]
    table = json.loads(json.dumps(describe_space(space), allow_nan=False))
    again = read_space(table)
    assert again == space and again.dtype == space.dtype and again.shape == space.shape
    if isinstance(space, spaces.Box):
        assert isinstance(again, spaces.Box)
        assert np.array_equal(again.low, space.low) and np.array_equal(again.high, space.high)


@pytest.mark.parametrize("task", TASKS)
def test_the_spaces_of_every_task_come_back_equal(task: str) -> None:
    made = make_task(task)
    for space in (made.observation_space, made.action_space):
        assert read_space(json.loads(json.dumps(describe_space(space)))) == space


def test_tables_are_short_where_all_bounds_are_alike() -> None:
    assert describe_space(SPACES["picture"]) == {
        "kind": "box", "shape": [30, 40, 3], "dtype": "uint8", "low": 0, "high": 255,
    }  # fmt: skip
    assert describe_space(SPACES["half bounded"])["low"] == ["-inf", 0.0]


def test_other_spaces_are_refused() -> None:
    with pytest.raises(ValueError, match="only discrete and box spaces can be saved"):
        describe_space(spaces.MultiBinary(3))
