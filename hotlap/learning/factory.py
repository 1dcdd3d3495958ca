"""Learners and policies from their settings."""

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.utils import ConstantSchedule, LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage

from hotlap.config.learners import DQNConfig, PPOConfig, TQCConfig
from hotlap.config.runs import Agent
from hotlap.learning.dqn import make_dqn
from hotlap.learning.learner import Learner
from hotlap.learning.policy_choice import policy_of, precision_of
from hotlap.learning.ppo import PPO
from hotlap.learning.sac import make_sac
from hotlap.learning.tqc import make_tqc


def make_learner(
    config: Agent,
    env: VecEnv,
    device: torch.device | str,
    seed: int,
    total_steps: int,
    compiled: bool = False,
) -> Learner:
    """The learner that settings describe, in an environment."""
    refuse_other_actions(config, env.action_space)
    kind, arguments = policy_of(config, env.observation_space)
    device = torch.device(device)
    if isinstance(config, PPOConfig):
        return _make_ppo(config, kind, arguments, env, device, seed, total_steps, compiled)
    make: Any = make_sac
    if isinstance(config, DQNConfig):
        make = make_dqn
    elif isinstance(config, TQCConfig):
        make = make_tqc
    return make(config, env, device, seed, total_steps, compiled)


def _make_ppo(
    config: PPOConfig,
    kind: type[BasePolicy],
    arguments: dict[str, Any],
    env: VecEnv,
    device: torch.device,
    seed: int,
    total_steps: int,
    compiled: bool,
) -> PPO:
    rate: Any = config.learning_rate
    learner = PPO(
        kind,  # type: ignore[arg-type]
        env,
        learning_rate=LinearSchedule(rate, 0.0, 1.0) if config.schedule == "linear" else rate,
        n_steps=config.steps,
        batch_size=config.batch_size,
        n_epochs=config.epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip,
        ent_coef=config.entropy,
        vf_coef=config.value_weight,
        max_grad_norm=config.max_grad_norm,
        target_kl=config.target_kl or None,
        policy_kwargs=arguments,
        compiled=compiled,
        precision=precision_of(config, env.observation_space, device),
        scale_rewards=config.normalise_rewards,
        augment=config.augment,
        augment_weight=config.augment_weight,
        augment_share=config.augment_share,
        average_over=config.average_over,
        describing=config.describing,
        device=device,
        seed=seed,
    )
    learner.horizon = total_steps
    return learner


def make_policy(config: Agent, seen: spaces.Space, actions: spaces.Space) -> BasePolicy:
    """A policy alone, with random weights, as a learner of these settings would make it.

    Args:
        config: The learner's settings.
        seen: Observations as an environment gives them.
        actions: Actions as an environment takes them.
    """
    refuse_other_actions(config, actions)
    kind, arguments = policy_of(config, seen)
    if is_image_space(seen) and not is_image_space_channels_first(seen):  # type: ignore[arg-type]
        seen = VecTransposeImage.transpose_space(seen)  # type: ignore[arg-type]
    policy: BasePolicy = kind(
        observation_space=seen, action_space=actions, lr_schedule=ConstantSchedule(0.0), **arguments
    )
    policy.set_training_mode(False)
    return policy


def refuse_other_actions(config: Agent, actions: spaces.Space) -> None:
    """Stop where a learner cannot act as an environment wants."""
    discrete = isinstance(actions, spaces.Discrete)
    if isinstance(config, DQNConfig) and not discrete:
        raise ValueError(
            f"dqn chooses among discrete actions, this environment takes {actions}; "
            "use --agent ppo, sac or tqc (the donkey tasks are made discrete by themselves)"
        )
    if not isinstance(config, (DQNConfig, PPOConfig)) and discrete:
        raise ValueError(
            f"this learner needs continuous actions, this environment takes {actions}; "
            "use --agent ppo or dqn"
        )
    if isinstance(actions, spaces.Box) and not actions.is_bounded():
        raise ValueError(f"actions must have bounds on both sides, got {actions}")
