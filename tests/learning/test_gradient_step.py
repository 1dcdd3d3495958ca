"""A compiled step of descent is the ordinary one, done at once."""

import copy

import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from hotlap.learning.encoders import Nature, conv_by_blocks
from hotlap.learning.gradient_step import GradientStep


class Fit(nn.Module):
    """A small net that fits numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        error = (self.net(x).squeeze(-1) - y).square().mean()
        return error, {"error": error.detach()}


def steps(module: Fit, compiled: bool, count: int, device: str) -> tuple[list[Tensor], Tensor]:
    """Parameters after some steps, and what the last one told."""
    module = copy.deepcopy(module).to(device)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-2, eps=1e-5)
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 3, generator=draw), torch.randn(64, generator=draw)
    x, y = x.to(device), y.to(device)  # before the capture, which cannot copy from a CPU
    descend = GradientStep(module, optimiser, 0.5, compiled, lambda chosen: (x[chosen], y[chosen]))
    told = torch.zeros(0)
    for count_made in range(count):
        optimiser.param_groups[0]["lr"] = 1e-2 / (1 + count_made)
        told = descend(torch.arange(32, device=device)).clone()
    assert descend.names == ["error", "gradient_norm", "gradient_clipped"]
    assert float(optimiser.state[next(module.parameters())]["step"]) == count
    return [p.detach().cpu() for p in module.parameters()], told.cpu()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_compiled_steps_equal_plain_ones(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    module = Fit()
    plain, plain_told = steps(module, False, 5, device)
    whole, whole_told = steps(module, True, 5, device)
    for a, b in zip(plain, whole, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(plain_told, whole_told, atol=1e-5, rtol=1e-4)


def test_a_gradient_is_shortened_to_its_limit_and_says_so() -> None:
    module = Fit()
    with torch.no_grad():
        module.net[2].bias.fill_(100.0)  # type: ignore[operator]
    _, told = steps(module, False, 1, "cpu")
    assert told[1] > 0.5 and told[2] == 1.0


@pytest.mark.parametrize(("size", "kernel", "stride"), [(84, 8, 4), (30, 8, 4), (20, 4, 2)])
def test_a_convolution_by_blocks_is_the_convolution(size: int, kernel: int, stride: int) -> None:
    conv = nn.Conv2d(3, 5, kernel, stride)
    seen = torch.rand(2, 3, size, size + 7)
    torch.testing.assert_close(conv_by_blocks(seen, conv), conv(seen), atol=1e-5, rtol=1e-5)


def test_the_nature_encoder_takes_bytes_and_has_stock_weights() -> None:
    from stable_baselines3.common.torch_layers import NatureCNN

    space = spaces.Box(0, 255, (3, 84, 84), "uint8")  # type: ignore[arg-type]
    ours, stock = Nature(space), NatureCNN(space)
    stock.load_state_dict(ours.state_dict())
    seen = torch.randint(0, 256, (2, 3, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(ours(seen), stock(seen.float() / 255), atol=1e-5, rtol=1e-5)
