"""Actions as a mirror shows them: what is done when left and right are exchanged.

A numbers in an action, of which the first steers; n actions to choose from.
mirror   which numbers change their sign, as 1 or -1 (A,), or the choice in place of each (n,)
"""

import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from hotlap.learning.batches import batch_of
from hotlap.tasks.interface import Interface, encode_action


def mirror_of(env: VecEnv | None, device: torch.device | str) -> Tensor:
    """The mirror of an environment's actions."""
    batch = batch_of(env)
    table = batch.table if isinstance(batch, Interface) else None
    assert env is not None
    return make_mirror(env.action_space, table).to(device)


def make_mirror(space: spaces.Space, table: Tensor | None) -> Tensor:
    """The mirror of a space of actions.

    Args:
        space: The actions.
        table: What each of them does (n, A), where they are choices.
    """
    if isinstance(space, spaces.Discrete):
        if table is None:
            raise ValueError(
                f"nobody knows which of {space.n} actions steers the other way; leave augment.flip "
                "out, or train with continuous actions"
            )
        return _exchanged(table)
    assert isinstance(space, spaces.Box)
    if space.low[0] != -space.high[0]:
        raise ValueError(
            f"steering goes from {space.low[0]} to {space.high[0]}, further to one side than to "
            "the other, so it has no mirror; leave augment.flip out"
        )
    return _signs(int(space.shape[0]))


def _signs(count: int) -> Tensor:
    signs = torch.ones(count)
    signs[0] = -1
    return signs


def _exchanged(table: Tensor) -> Tensor:
    """The choice (n,) that does what a mirror shows, for each."""
    shown = table.cpu() * _signs(table.shape[1])
    found = encode_action(table.cpu(), shown)
    if not torch.allclose(table.cpu()[found], shown, atol=1e-5):
        raise ValueError("some choice has none that steers as far the other way; leave flip out")
    return found


def mirrored(actions: Tensor, mirror: Tensor) -> Tensor:
    """Actions (N, A) or choices of any shape, as the mirror shows them."""
    return actions * mirror if mirror.is_floating_point() else mirror[actions].to(actions.dtype)
