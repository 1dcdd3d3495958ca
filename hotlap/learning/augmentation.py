"""Pictures shifted at random, so that nothing is learned from where a pixel happens to be.

N pictures of C channels, H x W. Follows DrQ (https://arxiv.org/abs/2004.13649).
"""

import torch
from torch import Tensor


def random_shift(pictures: Tensor, reach: int) -> Tensor:
    """Pictures (N, C, H, W), each moved by up to `reach` pixels either way, edges repeated.

    All channels of a picture, and so all frames of a stack, move together.
    """
    draws = torch.rand(2, len(pictures), device=pictures.device)
    down, right = (draws * (2 * reach + 1)).to(torch.int64) - reach
    return look(pictures, down, right)


def look(pictures: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Pictures (N, C, H, W) seen through a window moved `down` (N,) and to the `right` (N,).

    Beyond an edge the window shows the edge again: the same as repeating the edges around a picture
    and cutting it out of that.
    """
    count, channels, height, width = pictures.shape
    rows, columns = (
        (torch.arange(size, device=pictures.device) + move.unsqueeze(1)).clamp(0, size - 1)
        for size, move in ((height, down), (width, right))
    )  # (N, H) and (N, W)
    # Rows first, as whole lines are copied at once; then within lines. On a CPU this is six times
    # faster than indexing both together.
    lines = torch.arange(count * channels, device=pictures.device).view(count, channels, 1)
    lines = (lines * height + rows.unsqueeze(1)).flatten()
    moved = pictures.reshape(-1, width).index_select(0, lines).view_as(pictures)
    return moved.gather(3, columns.view(count, 1, 1, width).expand_as(moved))
