"""Judging a policy: whole episodes that no training has seen, one row each.

Every episode is the first of its own environment, which the seed and its identity decide, so a
result does not depend on how many are played at once. (A network's own rounding may: it is
computed in batches.)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from hotlap.config.runs import EvaluationConfig
from hotlap.evaluation.first_episodes import Env, Policy, first_episode, play, tell
from hotlap.evaluation.summary import summarise
from hotlap.records import EpisodeResult, EvalResult
from hotlap.sim.lap_records import limit_time
from hotlap.tasks.adapters.arrays import Array
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.task import Task

MakeEnv = Callable[[int, Tensor, int], Env]
"""From a number of environments, their identities (B,) and a seed to the environments."""
HELD_OUT = 1 << 40
"""Added to the seed of an evaluation: no training has a seed as large."""
GYM_HELD_OUT = 1 << 30
"""The same for Gymnasium environments, some of which take no seed of more than 32 bits."""


@dataclass(frozen=True)
class Drive:
    """Where an episode led."""

    episode: EpisodeResult
    """How it went."""
    xy: Array
    """Place after each step (T, 2), metres."""
    speed: Array
    """Speed after each step (T,), m/s."""
    s: Array
    """Place along the road after each step (T,), metres."""
    over_edge: Array
    """How far the car's side is beyond the road's edge after each step (T,), metres."""


def judge(
    policy: Policy,
    make_env: MakeEnv,
    tracks: Sequence[str],
    config: EvaluationConfig,
    at_once: int = 64,
) -> EvalResult:
    """Play exactly `config.episodes` episodes, and say how they went.

    Args:
        policy: Who plays.
        make_env: Builds environments with the settings of the training, but for their tracks and
            `config.start`.
        tracks: Their tracks by name: environment `who` has track `who % len(tracks)`. Empty for
            tasks without tracks.
        config: How many episodes, and which.
        at_once: Most environments played together.
    """
    return judge_drives(policy, make_env, tracks, config, at_once, keep=False)[0]


def judge_drives(
    policy: Policy,
    make_env: MakeEnv,
    tracks: Sequence[str],
    config: EvaluationConfig,
    at_once: int = 64,
    keep: bool = True,
) -> tuple[EvalResult, list[Drive]]:
    """Judge as `judge` does, and keep the way of every car whose task tells it, for plots."""
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}")
    rounds = -(-config.episodes // at_once)
    # Rounds of one size: the last may play more than count, where it would be compiled anew.
    size = -(-config.episodes // rounds)
    seed = HELD_OUT + config.seed
    episodes: list[EpisodeResult] = []
    drives: list[Drive] = []
    for begin in range(0, config.episodes, size):
        who = torch.arange(begin, begin + size)
        env = make_env(size, who, seed)
        _refuse_other_tracks(env.task, tracks)
        counted = min(size, config.episodes - begin)
        log = play(policy, env, counted, keep)
        for place, identity in enumerate(who[:counted].tolist()):
            track = tracks[identity % len(tracks)] if tracks else None
            own = first_episode(log, place)
            episodes.append(tell(own, env.task, identity, seed, track))
            if "x" in own:
                xy = np.stack([own["x"], own["y"]], axis=1)
                drives.append(Drive(episodes[-1], xy, own["speed"], own["s"], own["over_edge"]))
    return summarise(episodes, _limits(env.task, tracks)), drives


def judge_gym(
    policy: Callable[[Any], Any],
    make_env: Callable[[], gym.Env[Any, Any]],
    config: EvaluationConfig,
    longest: int = 100_000,
) -> EvalResult:
    """Judge a policy on arrays in any Gymnasium environment, one episode after another.

    Args:
        policy: From an observation to an action.
        make_env: Builds the environment, which is closed at the end.
        config: How many episodes, and which.
        longest: Steps after which an episode is out of time, whether the environment says so or
            not.
    """
    draws = np.random.SeedSequence(config.seed).generate_state(config.episodes)
    seeds = [GYM_HELD_OUT + draw % GYM_HELD_OUT for draw in draws.tolist()]
    env = make_env()
    try:
        rows = [_gym_row(policy, env, *who, longest) for who in enumerate(seeds)]
    finally:
        env.close()
    return summarise(rows)


def _gym_row(
    policy: Callable[[Any], Any], env: gym.Env[Any, Any], identity: int, seed: int, longest: int
) -> EpisodeResult:
    """Play one episode; what made it end, only the environment knows."""
    observation, _ = env.reset(seed=seed)
    earned, length, terminated, truncated = 0.0, 0, False, False
    while not (terminated or truncated):
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        earned, length = earned + float(reward), length + 1
        truncated = truncated or length >= longest
    return EpisodeResult(
        identity=identity,
        seed=seed,
        episode_return=earned,
        length=length,
        end="ended" if terminated else "time",
    )


def _refuse_other_tracks(task: Task, tracks: Sequence[str]) -> None:
    """Refuse names that would be written beside the wrong roads."""
    if isinstance(task, DonkeyTask) and len(task.roads.tracks) != len(tracks):
        raise ValueError(
            f"judged on {len(tracks)} tracks, but the environments have {len(task.roads.tracks)}; "
            "make_env must build its task with the same tracks"
        )


def _limits(task: Task, tracks: Sequence[str]) -> dict[str, float]:
    return limits_on(tracks, task.config.vehicle) if isinstance(task, DonkeyTask) else {}


def limits_on(tracks: Iterable[str], vehicle: str) -> dict[str, float]:
    """The least possible lap time by track, seconds, where someone solved for it."""
    solved = {track: limit_time(track, vehicle) for track in tracks}
    return {track: time for track, time in solved.items() if time is not None}
