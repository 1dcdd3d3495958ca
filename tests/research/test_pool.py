"""Configurations to choose among: given back as they were, and refused where they do not fit."""

from typing import Any

import numpy as np
import pytest

from hotlap.research.pool import make_pool
from hotlap.research.space import make_space

SPACE = make_space(
    {
        "agent": {"choices": ["ppo", "dqn"]},
        "rate": {"low": 1e-4, "high": 1e-1, "log": True},
        "steer": {"low": 3, "high": 11, "when": {"agent": "dqn"}},
    }
)
LONG = 0.012345678901234567


def test_what_was_given_is_found_by_what_a_study_makes_of_it() -> None:
    given: list[dict[str, Any]] = [
        {"agent": "ppo", "rate": LONG},
        {"agent": "dqn", "rate": np.float64(LONG), "steer": np.int64(7)},
    ]
    pool = make_pool(SPACE, given)
    for number, (params, point) in enumerate(zip(given, pool.points, strict=True)):
        chosen = SPACE.decode(point)
        assert chosen["rate"] != LONG
        assert pool.number(chosen) == number
        assert pool.as_given(chosen) == params
    assert type(pool.as_given(SPACE.decode(pool.points[1]))["steer"]) is np.int64


def test_what_is_handed_out_can_be_changed_without_harm() -> None:
    pool = make_pool(SPACE, [{"agent": "ppo", "rate": 0.01}])
    pool.as_given({"agent": "ppo", "rate": 0.01})["rate"] = 0.02
    assert pool.given == ({"agent": "ppo", "rate": 0.01},)


def test_points_stand_for_what_they_decode_to() -> None:
    pool = make_pool(SPACE, np.array([[0.0, 1 / 3, 0.5], [1.0, 1 / 3, 0.5], [1.0, 1 / 3, 0.51]]))
    assert pool.given[0] == {"agent": "ppo", "rate": 1e-3}
    assert pool.given[1] == pool.given[2] == {"agent": "dqn", "rate": 1e-3, "steer": 7}
    assert list(pool.numbers.values()) == [0, 1]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "a pool needs at least one configuration"),
        (np.empty((0, 3)), "a pool needs at least one configuration"),
        ([{"agent": "ppo", "rate": 0.01}, {"agent": "ppo", "rate": 1.0}],
         "pool: configuration 1: rate = 1.0 lies outside its range"),
        ([{"agent": "ppo", "rate": 0.01, "steer": 3}],
         "pool: configuration 0: steer is no free parameter here"),
        ([{"agent": "dqn", "rate": 0.01}], "pool: configuration 0: steer is missing"),
        ([{"agent": "ppo", "rate": 0.01}, {"agent": "ppo", "rate": 0.01 * (1 + 1e-15)}],
         "pool: configurations 0 and 1 are the same, to twelve digits"),
        ([[0.0, 0.5, 0.5]], r"pool: configuration 0 must be params, got \[0.0"),
        (np.zeros((4, 2)), r"of shape \(m, 3\).*got shape \(4, 2\)"),
        (np.full((1, 3), np.nan), "must be finite"),
    ],
)  # fmt: skip
def test_a_pool_that_cannot_be_is_refused(members: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_pool(SPACE, members)


def test_a_configuration_from_elsewhere_is_named() -> None:
    pool = make_pool(SPACE, [{"agent": "ppo", "rate": 0.01}])
    with pytest.raises(
        ValueError, match=r"'rate': 0\.02}, is not in the pool; go on with the pool"
    ):
        pool.number({"agent": "ppo", "rate": 0.02})
