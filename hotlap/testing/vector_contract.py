"""Does a Gymnasium vector environment keep its promises?

turn     what one call of `step` returned, copied before anything else happened
ending   (t, i): turn t was the last of an episode in environment i
"""

from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from hotlap.testing.contract import Array, difference, expect, leaves, map_leaves
from hotlap.testing.vector_endings import (
    check_ending_flags,
    check_last_action_is_forgotten,
    check_masked_reset,
    check_next_step,
    check_same_step,
    first_ending,
)
from hotlap.testing.vector_play import Plan, Turn, go_on


def check_vector_env(
    make_env: Callable[[], VectorEnv],
    *,
    steps: int = 200,
    seed: int = 123,
    seeds_matter: bool = True,
    masked_reset: bool = False,
    nan_refused: bool = True,
) -> list[str]:
    """Check a vector environment with random actions.

    Works on any `gymnasium.vector.VectorEnv` that is deterministic once seeded:

        check_vector_env(lambda: gymnasium.make_vec("CartPole-v1", num_envs=3))

    Args:
        make_env: Makes a fresh environment; called a dozen times.
        steps: Turns to play; some episode must end within them.
        seed: What the environment is seeded with.
        seeds_matter: Whether another seed must give other episodes.
        masked_reset: Whether `options["reset_mask"]` must work; it always must where the
            environment does not begin anew by itself.
        nan_refused: Whether an action that is not a number must raise, where actions are floats.

    Returns:
        What was checked, a sentence each.

    Raises:
        ContractError: With what was expected, what was found and what to try.
    """
    with closing(make_env()) as env:
        _check_spaces(env)
        _check_returned(env, seed)
        mode = env.metadata["autoreset_mode"]
        env.action_space.seed(seed)
        plan = Plan(make_env, seed, [deepcopy(env.action_space.sample()) for _ in range(steps)])
    turns = _check_seeding(plan, seeds_matter)
    check_ending_flags(turns)
    t, i = first_ending(turns)
    checked = ["spaces batch", "shapes and types", "seeding", "terminated and truncated apart"]
    if mode is AutoresetMode.SAME_STEP:
        check_same_step(turns, plan)
        check_last_action_is_forgotten(plan, turns, t, i, t)
        checked.append("autoreset in the same step, last observation kept")
    elif mode is AutoresetMode.NEXT_STEP and t + 1 < steps:
        check_next_step(turns)
        check_last_action_is_forgotten(plan, turns, t, i, t + 1)
        checked.append("autoreset in the next step")
    if masked_reset or mode is AutoresetMode.DISABLED:
        check_masked_reset(plan, turns, t)
        checked.append("masked reset")
    _check_aliasing(plan, turns)
    checked.append("returned arrays belong to the caller")
    with closing(make_env()) as env:
        if nan_refused and _check_nan(env, seed):
            checked.append("an action that is not a number is refused")
        env.close()
    return [*checked, "closing twice"]


def _check_spaces(env: VectorEnv) -> None:
    advice = "Build it with gymnasium.vector.utils.batch_space(single_space, num_envs)."
    for kind in ("observation", "action"):
        single, batched = getattr(env, f"single_{kind}_space"), getattr(env, f"{kind}_space")
        wanted = batch_space(single, env.num_envs)
        expect(batched == wanted, f"{kind}_space to be {wanted}", batched, advice)
    mode = env.metadata.get("autoreset_mode")
    expect(
        isinstance(mode, AutoresetMode),
        'metadata["autoreset_mode"] to be an AutoresetMode',
        repr(mode),
        "Set it to the mode that `step` follows.",
    )


def _check_returned(env: VectorEnv, seed: int) -> None:
    """Types and shapes of what reset and step return."""
    observation, infos = env.reset(seed=seed)
    _check_observation(env, observation, "reset")
    expect(isinstance(infos, dict), "reset to return a dict of infos", type(infos), "")
    for _ in range(3):
        observation, reward, terminated, truncated, infos = env.step(env.action_space.sample())
        _check_observation(env, observation, "step")
        named = {"rewards": reward, "terminations": terminated, "truncations": truncated}
        for name, values in named.items():
            kinds = (np.floating,) if name == "rewards" else (np.bool_,)
            expect(
                isinstance(values, np.ndarray)
                and values.shape == (env.num_envs,)
                and issubclass(values.dtype.type, kinds),
                f"{name} to be a {kinds[0].__name__} array of shape ({env.num_envs},)",
                f"{getattr(values, 'dtype', type(values))} of shape {np.shape(values)}",
                "One number for each environment, in its order.",
            )
        _check_info_masks(env, infos)


def _check_observation(env: VectorEnv, observation: Any, source: str) -> None:
    found = [f"{leaf.dtype}{leaf.shape}" for _, leaf in leaves(observation)]
    expect(
        env.observation_space.contains(observation),
        f"what {source} observes to lie in {env.observation_space}",
        ", ".join(found) or type(observation),
        "Look at shape, type and bounds; a NaN lies in no space.",
    )


def _check_info_masks(env: VectorEnv, infos: dict[str, Any]) -> None:
    """Every key has its mask."""
    for key in infos:
        if key.startswith("_"):
            continue
        mask = infos.get(f"_{key}")
        expect(
            isinstance(mask, np.ndarray)
            and mask.shape == (env.num_envs,)
            and mask.dtype == np.bool_,
            f"infos[{key!r}] to have a mask infos['_{key}'] of {env.num_envs} bools",
            repr(mask)[:80],
            "Gymnasium's VectorEnv._add_info makes both.",
        )


def _check_seeding(plan: Plan, seeds_matter: bool) -> list[Turn]:
    """The same seed gives the same turns, in another object and in the same one again."""
    first, turns = plan.play(plan.actions)
    advice = "Draw every random number from generators that reset(seed=...) sets."
    again = plan.play(plan.actions)
    found = difference((first, _told(turns)), (again[0], _told(again[1])))
    expect(found is None, "two environments with one seed to agree", found, advice)
    with closing(plan.make_env()) as env:
        env.reset(seed=plan.seed + 1)
        go_on(env, plan.actions[:3])
        reseeded, _ = env.reset(seed=plan.seed)
        found = difference((first, _told(turns)), (reseeded, _told(go_on(env, plan.actions))))
    expect(found is None, "reset(seed=...) to begin as a fresh environment does", found, advice)
    if seeds_matter:
        other = plan.play(plan.actions, plan.seed + 1000)
        found = difference((first, _told(turns)), (other[0], _told(other[1])))
        advice = "Use the seed, or pass seeds_matter=False if nothing is random."
        expect(found is not None, "another seed to give other episodes", "the same", advice)
    return turns


def _told(turns: list[Turn]) -> list[tuple[Any, ...]]:
    return [(t.observation, t.reward, t.terminated, t.truncated) for t in turns]


def _check_aliasing(plan: Plan, turns: list[Turn]) -> None:
    """Returned arrays do not change later, and writing into them changes nothing."""
    held: list[tuple[Any, Any]] = []
    with closing(plan.make_env()) as env:
        env.reset(seed=plan.seed)
        for action in plan.actions[:10]:
            returned = env.step(action)
            held.append((returned, deepcopy(returned)))
            if env.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
                break
        advice = "Return copies of the buffers that steps write into."
        for t, (returned, copy) in enumerate(held):
            found = difference(returned, copy)
            expect(found is None, f"what turn {t} returned to stay as it was", found, advice)
        env.reset(seed=plan.seed)
        for t, action in enumerate(plan.actions[: len(held)]):
            returned = env.step(action)
            found = difference(_told([turns[t]]), [returned[:4]])
            expect(
                found is None,
                f"writing into returned arrays to change nothing, at turn {t}",
                found,
                advice,
            )
            map_leaves(_scribble, returned[:4])


def _scribble(leaf: Array) -> Array:
    if leaf.flags.writeable:
        leaf[...] = np.ones_like(leaf)
    return leaf


def _check_nan(env: VectorEnv, seed: int) -> bool:
    """Whether there was something to check: actions that are floats."""
    if not isinstance(env.action_space, spaces.Box) or env.action_space.dtype.kind != "f":
        return False
    env.reset(seed=seed)
    action = np.array(env.action_space.sample())
    action[0] = np.nan
    try:
        env.step(action)
    except Exception:
        env.reset(seed=seed)
        env.step(env.action_space.sample())  # it must still be of use
        return True
    expect(
        False,
        "an action that is not a number to raise",
        "a step as if nothing were wrong",
        "Check np.isfinite(actions), or pass nan_refused=False.",
    )
    return True
