"""Policies of Stable-Baselines3 whose critics can normalise their hidden layers.

N samples, C critics, Q numbers that each critic gives (1, or its quantiles).

The classes differ from the stock ones in one argument, `layer_norm_critic`, so a saved model opens
with the stock algorithms wherever this module can be imported.
"""

from typing import Any, TypeVar

import stable_baselines3.dqn.policies as dqn
import stable_baselines3.sac.policies as sac
import torch
from sb3_contrib.tqc import policies as tqc
from stable_baselines3.common.policies import BaseModel, BasePolicy, ContinuousCritic
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from hotlap.learning.encoders import arithmetic

Critic = TypeVar("Critic", ContinuousCritic, tqc.Critic)


class _Normalising(BasePolicy):
    """The argument that the policies below share."""

    def __init__(self, *args: Any, layer_norm_critic: bool = False, **kwargs: Any) -> None:
        self.layer_norm_critic = layer_norm_critic  # critics are made within the next line
        super().__init__(*args, **kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"layer_norm_critic": self.layer_norm_critic}


class SACPolicy(_Normalising, sac.SACPolicy):
    """SAC's; takes `layer_norm_critic` besides the stock arguments."""

    def make_critic(
        self, features_extractor: BaseFeaturesExtractor | None = None
    ) -> ContinuousCritic:
        """The twins in one."""
        critic = super().make_critic(features_extractor)
        return normalise(critic).to(self.device) if self.layer_norm_critic else critic


class TQCPolicy(_Normalising, tqc.TQCPolicy):
    """TQC's; takes `layer_norm_critic` besides the stock arguments."""

    def make_critic(self, features_extractor: BaseFeaturesExtractor | None = None) -> tqc.Critic:
        """All critics in one."""
        critic = super().make_critic(features_extractor)
        return normalise(critic).to(self.device) if self.layer_norm_critic else critic


class DQNPolicy(_Normalising, dqn.DQNPolicy):
    """DQN's; takes `layer_norm_critic` besides the stock arguments."""

    def make_q_net(self) -> dqn.QNetwork:
        """The net that values every action."""
        net = super().make_q_net()
        if self.layer_norm_critic:
            net.q_net = with_layer_norm(net.q_net).to(self.device)
        return net


def normalise(critic: Critic) -> Critic:
    """The critic, with each of its nets normalised."""
    for place, net in enumerate(critic.q_networks):
        critic.q_networks[place] = with_layer_norm(net)
        setattr(critic, f"qf{place}", critic.q_networks[place])
    return critic


def with_layer_norm(net: nn.Module) -> nn.Sequential:
    """A net that normalises what each of its hidden linear layers gives, before it is bent."""
    layers = list(net.children())
    parts: list[nn.Module] = []
    for layer in layers:
        parts.append(layer)
        if isinstance(layer, nn.Linear) and layer is not layers[-1]:
            parts.append(nn.LayerNorm(layer.out_features))
    return nn.Sequential(*parts)


def encode(model: BaseModel, seen: Tensor, precision: str = "float32") -> Tensor:
    """Features (N, F) of what is seen, as float32; our own encoders take pictures as bytes.

    Only the look is taken in another precision: values of hundreds would be whole numbers in it.
    """
    encoder = model.features_extractor
    assert encoder is not None
    with arithmetic(seen.device, precision):
        if type(encoder).__module__.startswith("hotlap."):
            return encoder(seen).float()
        return model.extract_features(seen, encoder).float()


def values_of(
    critic: ContinuousCritic | tqc.Critic,
    seen: Tensor,
    actions: Tensor,
    precision: str = "float32",
) -> Tensor:
    """What all critics give for actions (N, C, Q), to teach the critics by."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and not critic.share_features_extractor):
        features = encode(critic, seen, precision)
    return _judge(critic, features, actions)


def values_to_climb(
    critic: ContinuousCritic | tqc.Critic,
    seen: Tensor,
    actions: Tensor,
    precision: str = "float32",
) -> Tensor:
    """The same, where the actions are to be improved and not the look at what is seen."""
    with torch.no_grad():
        features = encode(critic, seen, precision)
    return _judge(critic, features, actions)


def _judge(critic: ContinuousCritic | tqc.Critic, features: Tensor, actions: Tensor) -> Tensor:
    known = torch.cat([features, actions], 1)
    return torch.stack([net(known) for net in critic.q_networks], 1)


def action_values(net: dqn.QNetwork, seen: Tensor, precision: str = "float32") -> Tensor:
    """The value of every action (N, A)."""
    return net.q_net(encode(net, seen, precision))
