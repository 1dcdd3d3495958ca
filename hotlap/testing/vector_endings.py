"""How episodes of a vector environment end and begin.

ending   (t, i): turn t was the last of an episode in environment i
"""

from contextlib import closing
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np

from hotlap.testing.contract import difference, expect, row, with_row
from hotlap.testing.vector_play import Plan, Turn, go_on

OTHER_ACTIONS = 16
"""Last actions tried in search of one that ends the same episode at the same turn."""


def first_ending(turns: list[Turn]) -> tuple[int, int]:
    """Turn and place of the first episode to end."""
    endings = [t for t, turn in enumerate(turns) if turn.done.any()]
    expect(
        bool(endings),
        f"an episode to end within {len(turns)} turns of random actions",
        "none",
        "Pass more steps, or an environment with a shorter time limit.",
    )
    t = endings[0]
    return t, int(np.flatnonzero(turns[t].done)[0])


def check_ending_flags(turns: list[Turn]) -> None:
    """The task's endings and the clock's are not one and the same flag."""
    endings = [turn for turn in turns if turn.done.any()]
    same = bool(endings) and all((t.terminated == t.truncated).all() for t in endings)
    expect(
        not same,
        "`terminations` (the task ended) and `truncations` (the clock did) to be told apart",
        "every ending flagged as both",
        "Learners bootstrap after a truncation and not after a termination.",
    )


def check_same_step(turns: list[Turn], plan: Plan) -> None:
    """Ended episodes leave their last observation, and only they do."""
    with closing(plan.make_env()) as env:
        space = env.single_observation_space
    kept_apart = False
    for t, turn in enumerate(turns):
        for key in ("final_obs", "final_info"):
            mask = turn.infos.get(f"_{key}", np.zeros_like(turn.done))
            expect(
                np.array_equal(mask, turn.done),
                f"infos['_{key}'] at turn {t} to mark the endings {np.flatnonzero(turn.done)}",
                np.flatnonzero(mask),
                "In SAME_STEP mode whatever ended tells its last observation and info there.",
            )
        for place in np.flatnonzero(turn.done):
            last = turn.infos["final_obs"][place]
            expect(
                space.contains(last),
                f"final_obs[{place}] at turn {t} to lie in {space}",
                repr(last)[:80],
                "It is the observation that the last action led to.",
            )
            kept_apart |= difference(last, row(turn.observation, int(place))) is not None
    expect(
        kept_apart,
        "final_obs to be the last observation of the old episode",
        "the first of the new one, every time",
        "Keep the observation before beginning anew.",
    )


def check_next_step(turns: list[Turn]) -> None:
    """The step after an ending earns nothing and ends nothing."""
    for t, (turn, after) in enumerate(pairwise(turns)):
        for place in np.flatnonzero(turn.done):
            quiet = after.reward[place] == 0 and not after.done[place]
            expect(
                bool(quiet),
                f"environment {place}, which ended at turn {t}, to begin anew at turn {t + 1} "
                "with reward 0 and no ending",
                f"reward {after.reward[place]}, ending {bool(after.done[place])}",
                "In NEXT_STEP mode the step after an ending only begins the next episode.",
            )


def check_last_action_is_forgotten(
    plan: Plan, turns: list[Turn], ended: int, place: int, begun: int
) -> None:
    """What is first seen of an episode must not depend on the action given at that very step."""
    for number in range(1, OTHER_ACTIONS + 1):
        other = plan.actions[-number]
        changed = with_row(plan.actions[begun], other, place)
        _, replay = plan.play([*plan.actions[:begun], changed])
        if not replay[ended].done[place]:
            continue  # with that action the episode goes on: nothing to compare
        found = difference(
            row(turns[begun].observation, place), row(replay[begun].observation, place)
        )
        expect(
            found is None,
            f"environment {place} to show the first observation of a new episode at turn {begun}, "
            "whatever action it was given there",
            found,
            "Return the observation of the reset, not that of the step before it.",
        )
        return


def check_masked_reset(plan: Plan, turns: list[Turn], ending: int) -> None:
    """The chosen environment begins anew, all others go on as if nothing had happened."""
    middle = ending // 2
    with closing(plan.make_env()) as env:
        last, _ = env.reset(seed=plan.seed)
        for turn in go_on(env, plan.actions[:middle]):
            last = turn.observation
        last = deepcopy(last)
        mask = np.arange(env.num_envs) == 0
        seen, _ = env.reset(options={"reset_mask": mask})
        seen = deepcopy(seen)
        after = go_on(env, plan.actions[middle : middle + 20])
        others = range(1, env.num_envs)
    advice = "Reset only where options['reset_mask'] is True."
    for place in others:
        found = difference(row(last, place), row(seen, place))
        expect(found is None, f"environment {place}, not in the mask, to stay", found, advice)
        for t, turn in enumerate(after, start=middle):
            found = difference(_row_of(turns[t], place), _row_of(turn, place))
            expect(found is None, f"environment {place}, not in the mask, to go on", found, advice)
    if middle:
        begun = difference(row(last, 0), row(seen, 0)) is not None
        expect(begun, "environment 0, in the mask, to begin anew", "its last observation", advice)


def _row_of(turn: Turn, place: int) -> Any:
    parts = (turn.observation, turn.reward, turn.terminated, turn.truncated)
    return tuple(row(part, place) for part in parts)
