"""Random shifts of pictures."""

import pytest
import torch

from hotlap.learning.augmentation import look, random_shift

PICTURE = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])


def test_a_moved_window_repeats_the_edges() -> None:
    pictures = PICTURE.to(torch.uint8).expand(3, 1, 3, 3)
    down, right = torch.tensor([0, 1, -2]), torch.tensor([0, -1, 1])
    still, moved, far = look(pictures, down, right)[:, 0]
    assert still.tolist() == PICTURE.tolist()
    assert moved.tolist() == [[4, 4, 5], [7, 7, 8], [7, 7, 8]]
    assert far.tolist() == [[2, 3, 3], [2, 3, 3], [2, 3, 3]]


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_it_is_padding_and_cutting_out(kind: torch.dtype) -> None:
    pictures = torch.randint(0, 256, (20, 3, 9, 7)).to(kind)
    down, right = torch.randint(-4, 5, (2, 20))
    padded = torch.nn.functional.pad(pictures.float(), (4, 4, 4, 4), mode="replicate")
    cut = [
        picture[:, 4 + y : 13 + y, 4 + x : 11 + x]
        for picture, y, x in zip(padded, down, right, strict=True)
    ]
    shifted = look(pictures, down, right)
    assert shifted.dtype == kind and torch.equal(shifted.float(), torch.stack(cut))


def test_every_shift_is_as_likely_and_channels_move_together() -> None:
    torch.manual_seed(0)
    ramp = torch.arange(11.0)
    pictures = (ramp.view(11, 1) * 11 + ramp).expand(9000, 2, 11, 11)
    shifted = random_shift(pictures, 1)
    assert torch.equal(shifted[:, 0], shifted[:, 1])
    counts = torch.bincount(shifted[:, 0, 5, 5].to(torch.int64), minlength=121)
    seen = counts.nonzero().flatten()
    assert seen.tolist() == [48, 49, 50, 59, 60, 61, 70, 71, 72]  # the nine around 5 * 11 + 5
    assert int(counts[seen].min()) > 850 and int(counts[seen].max()) < 1150


def test_the_same_key_gives_the_same_shifts() -> None:
    pictures = torch.rand(6, 1, 12, 12)
    found = []
    for _ in range(2):
        torch.manual_seed(4)
        found.append(random_shift(pictures, 4))
    assert torch.equal(*found)
