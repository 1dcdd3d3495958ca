"""Actor and critic in one: a policy of Stable-Baselines3's kind.

Pictures reach the encoder as bytes, and what the nets tell is kept apart from how actions are
spread (`spreads`), so that the nets can be compiled and the spread chosen.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor
from torch import Tensor, nn

from hotlap.learning.critics import with_layer_norm
from hotlap.learning.spreads import make_spread


class ActorCritic(ActorCriticPolicy):
    """A policy for PPO.

    Args:
        observation_space: What is seen.
        action_space: What is done.
        lr_schedule: Learning rate over the progress that remains.
        spread: gaussian, squashed or beta, where actions are continuous.
        layer_norm: Normalise each hidden layer of the critic.
        log_std_init: Logarithm of the spread at the start.
        settings: Everything else that Stable-Baselines3's policy takes.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        spread: str = "gaussian",
        layer_norm: bool = False,
        log_std_init: float = 0.0,
        **settings: Any,
    ) -> None:
        self.spread_kind, self.layer_norm = spread, layer_norm
        super().__init__(
            observation_space, action_space, lr_schedule, log_std_init=log_std_init, **settings
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        ours = {"spread": self.spread_kind, "layer_norm": self.layer_norm}
        return super()._get_constructor_parameters() | ours

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        """Make the nets, in the order that Stable-Baselines3 makes and fills them."""
        self._build_mlp_extractor()
        self.spread = make_spread(self.action_space, self.spread_kind, self.log_std_init)
        self.action_net = nn.Linear(self.mlp_extractor.latent_dim_pi, self.spread.size)
        self.value_net = nn.Linear(self.mlp_extractor.latent_dim_vf, 1)
        gains = {
            self.features_extractor: np.sqrt(2), self.mlp_extractor: np.sqrt(2),
            self.action_net: 0.01, self.value_net: 1,
        }  # fmt: skip
        if self.ortho_init:
            for module, gain in gains.items():
                module.apply(partial(self.init_weights, gain=gain))
        if self.layer_norm:
            self.mlp_extractor.value_net = with_layer_norm(self.mlp_extractor.value_net)
        make: Any = self.optimizer_class
        self.optimizer = make(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    @property
    def log_std(self) -> Tensor:  # type: ignore[override]
        """Logarithm of the spread, where it is one number per action.

        Elsewhere there is no such attribute: Stable-Baselines3 asks by `hasattr`.
        """
        return self.spread.log_std  # type: ignore[return-value]

    # --- through the nets ----------------------------------------------------------------------

    def extract_features(  # type: ignore[override]
        self, obs: Tensor, features_extractor: BaseFeaturesExtractor | None = None
    ) -> Tensor:
        """Features (B, F); our encoders take bytes."""
        encoder = features_extractor or self.features_extractor
        if isinstance(encoder, FlattenExtractor) and obs.dtype != torch.uint8:
            return encoder(obs.float())
        if type(encoder).__module__.startswith("hotlap."):
            return encoder(obs)
        return super().extract_features(obs, encoder)  # type: ignore[return-value]

    def read(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """What the nets tell of actions (B, P), and values (B,)."""
        told, value, _ = self.read_closely(obs)
        return told, value

    def read_closely(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What `read` tells, and what the critic makes its value of (B, H)."""
        features = self.extract_features(obs)
        latent_actor, latent_critic = self.mlp_extractor(features)
        told, value = self.action_net(latent_actor), self.value_net(latent_critic)[:, 0]
        return told.float(), value.float(), latent_critic.float()

    def forward(self, obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, values (B, 1) and log-probabilities (B,)."""
        told, value = self.read(obs)
        action = self.spread.mode(told) if deterministic else self.spread.sample(told)
        return action, value.unsqueeze(-1), self.spread.log_prob(told, action)

    def evaluate_actions(  # type: ignore[override]
        self, obs: Tensor, actions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values (B, 1), log-probabilities (B,) and entropy (B,) of actions taken."""
        told, value = self.read(obs)
        log_prob = self.spread.log_prob(told, actions)
        return value.unsqueeze(-1), log_prob, self.spread.entropy(told)

    def predict_values(self, obs: Tensor) -> Tensor:  # type: ignore[override]
        """Values (B, 1)."""
        return self.read(obs)[1].unsqueeze(-1)

    def _predict(self, observation: Tensor, deterministic: bool = False) -> Tensor:  # type: ignore[override]
        """Actions for Stable-Baselines3's `predict`."""
        told, _ = self.read(observation)
        return self.spread.mode(told) if deterministic else self.spread.sample(told)
