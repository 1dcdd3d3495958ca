"""Which policy a learner trains."""

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space

from hotlap.config.learners import DQNConfig, PPOConfig, TQCConfig
from hotlap.config.runs import Agent
from hotlap.learning.bfloat16 import knows_bfloat16
from hotlap.learning.critics import DQNPolicy, SACPolicy, TQCPolicy
from hotlap.learning.encoders import find_encoder
from hotlap.learning.policies import ActorCritic


def policy_of(config: Agent, seen: spaces.Space) -> tuple[type[BasePolicy], dict[str, Any]]:
    """The class of a learner's policy, and its arguments beside spaces and learning rate."""
    arguments: dict[str, Any] = {}
    if not isinstance(seen, spaces.Box):
        raise ValueError(
            f"learners see numbers or pictures (a Box), this environment shows {seen}; "
            "wrap it, for example in gymnasium.wrappers.FlattenObservation"
        )
    encoder, details = find_encoder(
        config.encoder, seen, config.normalise_observations, config.features, config.standardise
    )
    if encoder is not None:
        arguments |= {"features_extractor_class": encoder, "features_extractor_kwargs": details}
    if isinstance(config, PPOConfig):
        net = list(config.net)
        arguments |= {
            "net_arch": {"pi": net, "vf": net},
            "spread": config.policy,
            "layer_norm": config.layer_norm,
            "log_std_init": config.log_std,
        }
        return ActorCritic, arguments
    arguments |= {"net_arch": list(config.net), "layer_norm_critic": config.layer_norm}
    if isinstance(config, DQNConfig):
        return DQNPolicy, arguments
    if isinstance(config, TQCConfig):
        critics = {"n_quantiles": config.quantiles, "n_critics": config.critics}
        return TQCPolicy, arguments | critics
    return SACPolicy, arguments


def precision_of(config: Agent, seen: spaces.Space, device: torch.device | str) -> str:
    """The type that nets reckon in: what the settings name, or what suits device and pictures."""
    on_cpu = torch.device(device).type == "cpu"
    if config.precision == "auto":
        return "bfloat16" if is_image_space(seen) and not on_cpu else "float32"
    if config.precision == "bfloat16" and on_cpu and not knows_bfloat16():
        raise ValueError(
            "precision bfloat16 is more than this processor can do (another process tried); "
            "leave it out, or take float32"
        )
    return config.precision
