"""Spreads of actions against torch.distributions, against integrals, and against paper."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.distributions import Beta as TorchBeta
from torch.distributions import (
    Categorical,
    Normal,
    TanhTransform,
    TransformedDistribution,
    kl_divergence,
)

from hotlap.learning.spreads import Beta, Choice, Gaussian, Spread, Squashed, make_spread

torch.set_num_threads(1)
LOW, HIGH = np.array([-1.0, 0.0, -3.0], np.float32), np.array([1.0, 0.25, 7.0], np.float32)
SPACE = spaces.Box(LOW, HIGH)
TWO = math.log(math.e - 1)
"""What a net tells where a parameter of the beta is 2: softplus of it is 1."""


def row(low: float, high: float) -> spaces.Box:
    return spaces.Box(low, high, (1,), np.float32)


def tell(seed: int, count: int, size: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(count, size, generator=torch.Generator().manual_seed(seed))


def scaled(action: Tensor, low: float) -> Tensor:
    """Actions of `SPACE` as numbers within `low`..1."""
    share = (action - torch.as_tensor(LOW)) / torch.as_tensor(HIGH - LOW)
    return low + (1 - low) * share


def beta_of(told: Tensor) -> TorchBeta:
    alpha, beta = (torch.nn.functional.softplus(told) + 1).chunk(2, -1)
    return TorchBeta(alpha, beta)


# --- densities -----------------------------------------------------------------------------------


def test_a_gaussian_is_normal() -> None:
    spread, told = Gaussian(SPACE, log_std=-0.5), tell(0, 64, 3)
    with torch.no_grad():
        spread.log_std += torch.tensor([0.0, 0.3, -1.0])
        other = Normal(told, spread.log_std.exp())
        action = told + tell(1, 64, 3)
        torch.testing.assert_close(spread.log_prob(told, action), other.log_prob(action).sum(-1))
        torch.testing.assert_close(spread.entropy(told), other.entropy().sum(-1))


def test_a_squashed_gaussian_is_a_normal_pressed_by_tanh() -> None:
    spread, told = Squashed(SPACE, log_std=-0.5), tell(0, 64, 3)
    with torch.no_grad():
        other = TransformedDistribution(Normal(told, spread.log_std.exp()), TanhTransform())
        pressed = torch.tanh(told + tell(1, 64, 3))
        action = torch.as_tensor(LOW) + 0.5 * (pressed + 1) * torch.as_tensor(HIGH - LOW)
        found = spread.log_prob(told, action)
        torch.testing.assert_close(found, other.log_prob(pressed).sum(-1), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(scaled(spread.mode(told), -1.0), torch.tanh(told))
    assert spread.entropy(told) is None


def test_a_beta_is_a_beta_of_the_share_of_its_room() -> None:
    spread, told = Beta(SPACE), tell(0, 64, 6, scale=2.0)
    other = beta_of(told)
    share = 0.01 + 0.98 * torch.rand(64, 3, generator=torch.Generator().manual_seed(1))
    action = torch.as_tensor(LOW) + share * torch.as_tensor(HIGH - LOW)
    found = spread.log_prob(told, action)
    torch.testing.assert_close(found, other.log_prob(share).sum(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(spread.entropy(told), other.entropy().sum(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scaled(spread.mode(told), 0.0), other.mean)


def test_a_choice_is_categorical() -> None:
    spread, told = Choice(spaces.Discrete(5)), tell(0, 64, 5, scale=3.0)
    other = Categorical(logits=told)
    action = torch.arange(64) % 5
    torch.testing.assert_close(spread.log_prob(told, action), other.log_prob(action))
    torch.testing.assert_close(spread.log_prob(told, action.view(-1, 1)), other.log_prob(action))
    torch.testing.assert_close(spread.entropy(told), other.entropy())
    assert torch.equal(spread.mode(told), told.argmax(-1))


def test_divergences_are_those_of_torch() -> None:
    """The squashed one is the Gaussian's: what presses both sides alike changes nothing."""
    wanted, told = tell(0, 64, 6, scale=2.0), tell(1, 64, 6, scale=2.0)
    with torch.no_grad():
        for kind in (Gaussian, Squashed):
            spread = kind(SPACE, log_std=-0.5)
            sides = [Normal(side[:, :3], spread.log_std.exp()) for side in (wanted, told)]
            found = spread.divergence(wanted[:, :3], told[:, :3])
            torch.testing.assert_close(found, kl_divergence(*sides).sum(-1))
    found = Beta(SPACE).divergence(wanted, told)
    expected = kl_divergence(beta_of(wanted), beta_of(told)).sum(-1)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    found = Choice(spaces.Discrete(6)).divergence(wanted, told)
    expected = kl_divergence(Categorical(logits=wanted), Categorical(logits=told))
    torch.testing.assert_close(found, expected)


def test_a_gaussian_does_not_widen_to_agree() -> None:
    spread, told = Gaussian(SPACE, log_std=-0.5), tell(0, 8, 3).requires_grad_()
    spread.divergence(tell(1, 8, 3), told).sum().backward()
    assert spread.log_std.grad is None and told.grad is not None


def test_densities_worked_by_hand() -> None:
    told, middle = torch.zeros(1, 1), torch.tensor([[2.0]])  # of 0..4
    box = row(0.0, 4.0)
    assert Gaussian(box, 0.0).log_prob(told, told).item() == pytest.approx(-0.9189385)
    # tanh is steepest in the middle, by 1: the density is the Gaussian's own.
    assert Squashed(box, 0.0).log_prob(told, middle).item() == pytest.approx(-0.9189385)
    # Beta(2, 2) is 6x(1 - x): 1.5 at 1/2, 6/4 * 3/4 = 1.125 at 1/4.
    twice, quarter = torch.full((1, 2), TWO), torch.tensor([[1.0]])
    assert Beta(box).log_prob(twice, middle).exp().item() == pytest.approx(1.5)
    assert Beta(box).log_prob(twice, quarter).exp().item() == pytest.approx(1.125)
    four = Choice(spaces.Discrete(4))
    assert four.log_prob(torch.zeros(1, 4), torch.tensor([3])).item() == pytest.approx(-1.3862944)
    assert four.entropy(torch.zeros(1, 4)).item() == pytest.approx(1.3862944)


@pytest.mark.parametrize("told", [-1.5, 0.0, 0.7])
@pytest.mark.parametrize("kind", ["gaussian", "squashed", "beta"])
def test_densities_integrate_to_one_and_to_the_entropy(kind: str, told: float) -> None:
    """Over the actions as they are scaled: 0..1 for a beta, -1..1 squashed."""
    low, high = {"gaussian": (-9.0, 9.0), "squashed": (-1.0, 1.0), "beta": (0.0, 1.0)}[kind]
    spread = make_spread(row(low, high), kind, log_std=-0.5)
    edges = torch.linspace(low, high, 20_001)
    action = (0.5 * (edges[1:] + edges[:-1])).unsqueeze(-1)
    given = torch.tensor([[told, 0.4][: spread.size]])
    with torch.no_grad():
        log_prob = spread.log_prob(given.expand(len(action), -1), action).double()
        entropy = spread.entropy(given)
    width = (high - low) / len(action)
    assert log_prob.exp().sum().item() * width == pytest.approx(1.0, abs=1e-3)
    if entropy is not None:
        found = -(log_prob.exp() * log_prob).sum().item() * width
        assert entropy.item() == pytest.approx(found, abs=1e-3)


def test_log_probabilities_at_the_bounds_are_finite_and_so_are_their_gradients() -> None:
    for kind in ("squashed", "beta"):
        spread = make_spread(SPACE, kind, -0.5)
        told = torch.zeros(2, spread.size, requires_grad=True)
        log_prob = spread.log_prob(told, torch.as_tensor(np.stack([LOW, HIGH])))
        log_prob.sum().backward()
        assert torch.isfinite(log_prob).all() and torch.isfinite(told.grad).all()


# --- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.0, 0.25), (-0.1, 0.3), (-3.0, 7.0)])
@pytest.mark.parametrize("kind", ["squashed", "beta"])
def test_samples_and_modes_never_leave_their_bounds(kind: str, bounds: tuple[float, float]) -> None:
    torch.manual_seed(0)
    box = row(*bounds)
    spread = make_spread(box, kind, log_std=1.0)
    low, high = float(box.low[0]), float(box.high[0])
    for told in (-60.0, -3.0, 0.0, 3.0, 60.0):
        given = torch.full((4096, spread.size), told)
        given[:, 1:] *= -1  # a beta is pressed against a bound by both of its parameters
        with torch.no_grad():
            for action in (spread.sample(given), spread.mode(given)):
                assert action.shape == (4096, 1)
                assert low <= float(action.min()) and float(action.max()) <= high


def moments(spread: Spread, told: Tensor, count: int = 40_000) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    with torch.no_grad():
        drawn = spread.sample(told.expand(count, -1))
    return drawn.mean(0), drawn.std(0)


def test_samples_of_a_gaussian_have_its_mean_and_spread() -> None:
    told = torch.tensor([[0.3, -2.0, 5.0]])
    mean, std = moments(Gaussian(SPACE, math.log(0.5)), told)
    torch.testing.assert_close(mean, told[0], atol=0.01, rtol=0)
    torch.testing.assert_close(std, torch.full((3,), 0.5), atol=0.01, rtol=0)


def test_a_gaussians_best_action_is_the_mean_of_what_is_driven() -> None:
    spread = Gaussian(SPACE, math.log(0.5))
    middle = torch.as_tensor(LOW + HIGH) / 2
    for told in (middle, middle - 1.0, torch.as_tensor(LOW) - 0.2, torch.as_tensor(HIGH) + 9.0):
        torch.manual_seed(0)
        with torch.no_grad():
            drawn = spread.sample(told.expand(40_000, -1))
            driven = drawn.clamp(torch.as_tensor(LOW), torch.as_tensor(HIGH)).mean(0)
            torch.testing.assert_close(spread.mode(told[None])[0], driven, atol=0.01, rtol=0)


def test_without_bounds_a_gaussians_best_action_is_its_mean() -> None:
    box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    told = tell(0, 16, 2, scale=30.0)
    assert torch.equal(Gaussian(box, -0.5).mode(told), told)


def test_samples_of_a_squashed_gaussian_are_in_the_environments_units() -> None:
    told = torch.tensor([[0.3, -0.5, 1.0]])
    mean, std = moments(Squashed(SPACE, math.log(0.5)), told)
    pressed = torch.tanh(told + 0.5 * tell(3, 40_000, 3))
    actions = torch.as_tensor(LOW) + 0.5 * (pressed + 1) * torch.as_tensor(HIGH - LOW)
    room = torch.as_tensor(HIGH - LOW)
    torch.testing.assert_close(mean / room, actions.mean(0) / room, atol=0.01, rtol=0)
    torch.testing.assert_close(std / room, actions.std(0) / room, atol=0.01, rtol=0)


def test_samples_of_a_beta_are_in_the_environments_units() -> None:
    # Beta(2, 2) has mean 1/2 and variance 1/20; Beta(2, 1 + softplus(0)) by the formulas.
    told = torch.tensor([[TWO, TWO, 0.0, TWO, 0.0, TWO]])
    mean, std = moments(Beta(SPACE), told)
    room, low = torch.as_tensor(HIGH - LOW), torch.as_tensor(LOW)
    share = beta_of(told)
    assert share.variance[0, 0].item() == pytest.approx(1 / 20)
    torch.testing.assert_close((mean - low) / room, share.mean[0], atol=0.01, rtol=0)
    torch.testing.assert_close(std / room, share.stddev[0], atol=0.01, rtol=0)


def test_choices_are_drawn_as_often_as_they_are_likely() -> None:
    torch.manual_seed(0)
    told = torch.tensor([[0.0, math.log(2.0), math.log(5.0), -math.inf]])
    drawn = Choice(spaces.Discrete(4)).sample(told.expand(40_000, -1))
    share = torch.bincount(drawn, minlength=4) / 40_000
    torch.testing.assert_close(share, torch.tensor([1, 2, 5, 0]) / 8, atol=0.01, rtol=0)


# --- which ---------------------------------------------------------------------------------------


def test_spreads_are_found_by_name() -> None:
    kinds = {name: type(make_spread(SPACE, name, 0.0)) for name in ("gaussian", "squashed", "beta")}
    assert kinds == {"gaussian": Gaussian, "squashed": Squashed, "beta": Beta}
    assert isinstance(make_spread(spaces.Discrete(3), "beta", 0.0), Choice)
    assert [make_spread(SPACE, name, 0.0).size for name in kinds] == [3, 3, 6]


@pytest.mark.parametrize("kind", ["squashed", "beta"])
@pytest.mark.parametrize("ends", [(-np.inf, np.inf), (0.0, np.inf), (-np.inf, 0.0)])
def test_a_space_without_bounds_is_refused(kind: str, ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="needs bounds on both sides"):
        make_spread(row(*ends), kind, 0.0)


def test_other_spaces_are_refused() -> None:
    for space in (spaces.MultiDiscrete([2, 2]), spaces.Box(-1, 1, (2, 2))):
        with pytest.raises(ValueError, match="discrete or a row of numbers"):
            make_spread(space, "gaussian", 0.0)
