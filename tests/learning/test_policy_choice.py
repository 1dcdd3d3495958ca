"""What nets reckon in, by settings, device and what is seen."""

import numpy as np
import pytest
from gymnasium import spaces

from hotlap.config.learners import DQNConfig, PPOConfig, SACConfig
from hotlap.config.runs import Agent
from hotlap.learning import policy_choice
from hotlap.learning.policy_choice import precision_of

PICTURES = spaces.Box(0, 255, (44, 36, 2), np.uint8)
NUMBERS = spaces.Box(-1.0, 1.0, (7,), np.float32)


@pytest.mark.parametrize("config", [PPOConfig(), DQNConfig(), SACConfig()])
@pytest.mark.parametrize(
    ("seen", "device", "chosen"),
    [
        (PICTURES, "cuda:0", "bfloat16"),
        (PICTURES, "cpu", "float32"),  # bfloat16 only where it is asked for
        (NUMBERS, "cuda", "float32"),
    ],
)
def test_only_pictures_on_a_gpu_are_looked_at_in_bfloat16(
    config: Agent, seen: spaces.Box, device: str, chosen: str
) -> None:
    assert precision_of(config, seen, device) == chosen


def test_what_the_settings_name_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert precision_of(DQNConfig(precision="float32"), PICTURES, "cuda") == "float32"
    assert precision_of(SACConfig(precision="bfloat16"), NUMBERS, "cuda") == "bfloat16"
    monkeypatch.setattr(policy_choice, "knows_bfloat16", lambda: True)
    assert precision_of(SACConfig(precision="bfloat16"), PICTURES, "cpu") == "bfloat16"
