"""Steering as a mirror shows it."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from hotlap.config.interface import InterfaceConfig
from hotlap.learning.augmentation_mirror import make_mirror, mirrored
from hotlap.learning.spreads import make_spread
from hotlap.tasks.interface import action_table

BOX = spaces.Box(np.array([-0.8, 0.0], np.float32), np.array([0.8, 0.25], np.float32))


def table(n_steer: int, n_throttle: int) -> torch.Tensor:
    return action_table(BOX, InterfaceConfig("discrete", n_steer, n_throttle))


def test_only_the_steering_changes_its_sign() -> None:
    actions = torch.tensor([[0.5, 0.2], [-0.1, 0.0]])
    shown = mirrored(actions, make_mirror(BOX, None))
    assert torch.equal(shown, torch.tensor([[-0.5, 0.2], [0.1, 0.0]]))


def test_choices_steer_the_other_way_with_the_same_throttle() -> None:
    """Five by three: index 0 is hard left at the least throttle, 12 hard right at the same."""
    mirror = make_mirror(spaces.Discrete(15), table(5, 3))
    assert mirror.tolist() == [12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2]
    taken = torch.tensor([[0], [7], [14]])
    assert mirrored(taken, mirror).tolist() == [[12], [7], [2]]


@pytest.mark.parametrize("counts", [(1, 1), (2, 3), (4, 1), (11, 5)])
def test_a_mirror_in_a_mirror_shows_what_is(counts: tuple[int, int]) -> None:
    rows = table(*counts)
    mirror = make_mirror(spaces.Discrete(len(rows)), rows)
    assert torch.equal(mirror[mirror], torch.arange(len(rows)))
    assert torch.allclose(rows[mirror], rows * torch.tensor([-1.0, 1.0]), atol=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "squashed", "beta", "discrete"])
def test_a_mirrored_spread_gives_mirrored_actions_the_same_chance(kind: str) -> None:
    torch.manual_seed(0)
    rows = table(5, 3)
    space: spaces.Space = spaces.Discrete(15) if kind == "discrete" else BOX
    spread, mirror = make_spread(space, kind, -0.5), make_mirror(space, rows)
    told = torch.randn(200, spread.size)
    actions = spread.sample(told)
    shown = spread.mirrored(told, mirror)
    before = spread.log_prob(told, actions)
    after = spread.log_prob(shown, mirrored(actions, mirror))
    torch.testing.assert_close(before, after, atol=2e-3, rtol=1e-4)
    assert torch.equal(spread.mirrored(shown, mirror), told)
    torch.testing.assert_close(spread.mode(shown), mirrored(spread.mode(told), mirror))


def test_what_has_no_mirror_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nobody knows which of 5 .* leave augment\.flip"):
        make_mirror(spaces.Discrete(5), None)
    lopsided = spaces.Box(np.array([-0.5, 0], np.float32), np.array([1, 1], np.float32))
    with pytest.raises(ValueError, match=r"further to one side .* leave augment\.flip out"):
        make_mirror(lopsided, None)
    with pytest.raises(ValueError, match="none that steers as far the other way"):
        make_mirror(spaces.Discrete(2), torch.tensor([[0.3, 0.0], [-0.8, 0.0]]))
