"""How a policy spreads its actions, as plain functions of what its net tells.

    B samples, A numbers in an action, P numbers told by the net.
    told    (B, P)
    action  in the environments' own units (B, A), or an index (B,)

A Gaussian may leave the bounds of the action space and is cut off there when it is driven; its best
action is the mean of what is driven, cut off. The squashed one and the beta never leave them:
their densities are those of the action scaled to 0..1 or -1..1, a constant factor, which no learner
sees.
"""

import math
from abc import ABC, abstractmethod

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softplus

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
FAR = 12.0
"""Spreads beyond a bound from where on everything is cut off."""
EDGE = 1e-6
"""How near to a bound an action is taken for the bound itself."""


class Spread(nn.Module, ABC):
    """A family of distributions over actions."""

    size: int
    """P."""

    @abstractmethod
    def sample(self, told: Tensor) -> Tensor:
        """Draw an action for each."""

    @abstractmethod
    def mode(self, told: Tensor) -> Tensor:
        """The action to take when none is to be drawn."""

    @abstractmethod
    def log_prob(self, told: Tensor, action: Tensor) -> Tensor:
        """Logarithm of the density (B,)."""

    @abstractmethod
    def entropy(self, told: Tensor) -> Tensor | None:
        """Entropy (B,), or None where it has no closed form."""

    @abstractmethod
    def divergence(self, wanted: Tensor, told: Tensor) -> Tensor:
        """How far (B,) what is told is from what is wanted, in nats: KL(wanted || told)."""

    @abstractmethod
    def mirrored(self, told: Tensor, mirror: Tensor) -> Tensor:
        """What would be told if left and right were exchanged (`augmentation_mirror`)."""


class Choice(Spread):
    """One of several actions."""

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__()
        self.size = int(space.n)

    def sample(self, told: Tensor) -> Tensor:
        """Draw by adding Gumbel noise: no pass through probabilities, and fixed shapes."""
        return (told - torch.empty_like(told).exponential_().log()).argmax(-1)

    def mode(self, told: Tensor) -> Tensor:
        """The likeliest."""
        return told.argmax(-1)

    def log_prob(self, told: Tensor, action: Tensor) -> Tensor:
        """Logarithm of the probability."""
        chosen = action.reshape(-1, 1).to(torch.int64)
        return log_softmax(told, -1).gather(-1, chosen).squeeze(-1)

    def entropy(self, told: Tensor) -> Tensor:
        """In nats."""
        logs = log_softmax(told, -1)
        return -(logs.exp() * logs).sum(-1)

    def divergence(self, wanted: Tensor, told: Tensor) -> Tensor:
        """In nats."""
        logs = log_softmax(wanted, -1)
        return (logs.exp() * (logs - log_softmax(told, -1))).sum(-1)

    def mirrored(self, told: Tensor, mirror: Tensor) -> Tensor:
        """Every choice in the place of its mirror's."""
        return told.index_select(-1, mirror)


class Gaussian(Spread):
    """A normal distribution with a spread of its own, the same everywhere.

    Args:
        space: The actions.
        log_std: Logarithm of the spread at the start.
    """

    def __init__(self, space: spaces.Box, log_std: float) -> None:
        super().__init__()
        self.size = int(space.shape[0])
        self.log_std = nn.Parameter(torch.full((self.size,), log_std))
        self.low: Tensor
        self.high: Tensor
        for name, end in (("low", space.low), ("high", space.high)):
            self.register_buffer(name, torch.as_tensor(end, dtype=torch.float32), persistent=False)

    def sample(self, told: Tensor) -> Tensor:
        """Draw around the mean."""
        return told + self.log_std.exp() * torch.randn_like(told)

    def mode(self, told: Tensor) -> Tensor:
        """The mean of the actions as they are driven: cut off at the bounds.

        Near a bound that is not the mean of what is drawn: a policy that learned with half of its
        throttle cut off drove slower than its mean says, and crashed when judged by it. Whoever
        learns from it moves the mean, not the spread.
        """
        std = self.log_std.detach().exp()
        told = torch.minimum(torch.maximum(told, self.low - FAR * std), self.high + FAR * std)
        below, above = _overshoot((self.low - told) / std), _overshoot((told - self.high) / std)
        return told + std * (below - above)

    def log_prob(self, told: Tensor, action: Tensor) -> Tensor:
        """Logarithm of the density."""
        off = (action - told) * torch.exp(-self.log_std)
        return (-0.5 * off * off - self.log_std - HALF_LOG_TAU).sum(-1)

    def entropy(self, told: Tensor) -> Tensor:
        """In nats."""
        return (self.log_std + 0.5 + HALF_LOG_TAU).sum().expand(len(told))

    def divergence(self, wanted: Tensor, told: Tensor) -> Tensor:
        """In nats; the spread is the same on both sides."""
        return _apart(wanted, told, self.log_std)

    def mirrored(self, told: Tensor, mirror: Tensor) -> Tensor:
        """Means with their signs changed."""
        return told * mirror


class _Bounded(Spread):
    """What spreads within bounds share: the way to them and back."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__()
        if not space.is_bounded():
            raise ValueError(f"this spread of actions needs bounds on both sides, got {space}")
        self.actions = int(space.shape[0])
        self.low: Tensor
        self.room: Tensor
        self.register_buffer("low", torch.as_tensor(space.low), persistent=False)
        self.register_buffer("room", torch.as_tensor(space.high - space.low), persistent=False)

    def outward(self, share: Tensor) -> Tensor:
        """From 0..1 to the actions' own units."""
        return torch.addcmul(self.low, share, self.room)

    def inward(self, action: Tensor) -> Tensor:
        """From the actions' own units to 0..1, just inside."""
        return ((action - self.low) / self.room).clamp(EDGE, 1 - EDGE)


class Squashed(_Bounded):
    """A normal distribution pressed between the bounds by tanh."""

    def __init__(self, space: spaces.Box, log_std: float) -> None:
        super().__init__(space)
        self.size = self.actions
        self.log_std = nn.Parameter(torch.full((self.size,), log_std))

    def sample(self, told: Tensor) -> Tensor:
        """Draw around the mean, then press."""
        drawn = told + self.log_std.exp() * torch.randn_like(told)
        return self.outward(0.5 + 0.5 * torch.tanh(drawn))

    def mode(self, told: Tensor) -> Tensor:
        """The pressed mean."""
        return self.outward(0.5 + 0.5 * torch.tanh(told))

    def log_prob(self, told: Tensor, action: Tensor) -> Tensor:
        """Logarithm of the density of the action scaled to -1..1."""
        pressed = 2 * self.inward(action) - 1
        off = (torch.atanh(pressed) - told) * torch.exp(-self.log_std)
        shrink = torch.log1p(-pressed * pressed)
        return (-0.5 * off * off - self.log_std - HALF_LOG_TAU - shrink).sum(-1)

    def entropy(self, told: Tensor) -> None:
        """Has no closed form."""
        return None

    def divergence(self, wanted: Tensor, told: Tensor) -> Tensor:
        """In nats; pressing changes both sides alike, and not how far they are apart."""
        return _apart(wanted, told, self.log_std)

    def mirrored(self, told: Tensor, mirror: Tensor) -> Tensor:
        """Means with their signs changed."""
        return told * mirror


class Beta(_Bounded):
    """A beta distribution with one peak, between the bounds."""

    def __init__(self, space: spaces.Box) -> None:
        super().__init__(space)
        self.size = 2 * self.actions

    def _shape(self, told: Tensor) -> tuple[Tensor, Tensor]:
        """Its two parameters, both above 1: below, it would peak at the bounds."""
        alpha, beta = (softplus(told) + 1).chunk(2, -1)
        return alpha, beta

    def sample(self, told: Tensor) -> Tensor:
        """Draw a share of the room between the bounds."""
        shape = torch.stack(self._shape(told), -1)
        return self.outward(torch._sample_dirichlet(shape)[..., 0])

    def mode(self, told: Tensor) -> Tensor:
        """The mean: the peak of a nearly flat beta is anywhere."""
        alpha, beta = self._shape(told)
        return self.outward(alpha / (alpha + beta))

    def log_prob(self, told: Tensor, action: Tensor) -> Tensor:
        """Logarithm of the density of the action scaled to 0..1."""
        alpha, beta = self._shape(told)
        share = self.inward(action)
        weigh = (alpha - 1) * torch.log(share) + (beta - 1) * torch.log1p(-share)
        return (weigh - _log_beta(alpha, beta)).sum(-1)

    def entropy(self, told: Tensor) -> Tensor:
        """In nats, of the action scaled to 0..1."""
        alpha, beta = self._shape(told)
        total = alpha + beta
        each = (
            _log_beta(alpha, beta)
            - (alpha - 1) * torch.digamma(alpha)
            - (beta - 1) * torch.digamma(beta)
            + (total - 2) * torch.digamma(total)
        )
        return each.sum(-1)

    def divergence(self, wanted: Tensor, told: Tensor) -> Tensor:
        """In nats."""
        (alpha, beta), (other_alpha, other_beta) = self._shape(wanted), self._shape(told)
        more_alpha, more_beta = alpha - other_alpha, beta - other_beta
        each = (
            _log_beta(other_alpha, other_beta)
            - _log_beta(alpha, beta)
            + more_alpha * torch.digamma(alpha)
            + more_beta * torch.digamma(beta)
            - (more_alpha + more_beta) * torch.digamma(alpha + beta)
        )
        return each.sum(-1)

    def mirrored(self, told: Tensor, mirror: Tensor) -> Tensor:
        """The two parameters exchanged."""
        alpha, beta = told.chunk(2, -1)
        turned = mirror < 0
        pair = (torch.where(turned, beta, alpha), torch.where(turned, alpha, beta))
        return torch.cat(pair, -1)


def _overshoot(over: Tensor) -> Tensor:
    """Mean of the positive part of a standard normal number moved up by `over`."""
    over = over.clamp(min=-FAR)  # below, it is 0; minus infinity would make it no number
    density = torch.exp(-0.5 * over * over - HALF_LOG_TAU)
    return over * torch.special.ndtr(over) + density


def _apart(wanted: Tensor, told: Tensor, log_std: Tensor) -> Tensor:
    """Divergence of two normal distributions of one spread.

    The spread is taken as it is: it would otherwise grow to make their means seem alike.
    """
    off = (wanted - told) * torch.exp(-log_std.detach())
    return 0.5 * off.square().sum(-1)


def _log_beta(alpha: Tensor, beta: Tensor) -> Tensor:
    return torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)


def make_spread(space: spaces.Space, kind: str, log_std: float) -> Spread:
    """The spread called `kind` over a space; over a discrete one there is but one."""
    if isinstance(space, spaces.Discrete):
        return Choice(space)
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"actions must be discrete or a row of numbers, got {space}")
    if kind == "beta":
        return Beta(space)
    return (Squashed if kind == "squashed" else Gaussian)(space, log_std)
