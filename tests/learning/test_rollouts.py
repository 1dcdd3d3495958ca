"""Rollouts as tensors, and whether they fit."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from hotlap.learning.rollouts import Rollouts
from hotlap.tasks import memory

PICTURES = spaces.Box(0, 255, (2, 30, 48), np.uint8)
ACTIONS = {
    "pair": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "five": spaces.Discrete(5),
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_bytes_are_those_of_the_columns(kind: str) -> None:
    made = Rollouts(8, PICTURES, ACTIONS[kind], n_envs=4)
    columns = [value for value in vars(made).values() if isinstance(value, torch.Tensor)]
    assert made.bytes == sum(column.numel() * column.element_size() for column in columns)


def test_those_that_cannot_fit_are_refused_with_what_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 10_000_000)
    with pytest.raises(MemoryError, match=r"128 environments take .* at most 23 would fit"):
        Rollouts(32, PICTURES, ACTIONS["pair"], n_envs=128)
    assert Rollouts(23, PICTURES, ACTIONS["pair"], n_envs=128).bytes < 9_000_000
