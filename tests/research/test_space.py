"""The search space: what it holds, what it gives back, and what it refuses."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotlap.config.training import TrainConfig
from hotlap.research.overnight import only
from hotlap.research.space import SearchSpace, apply, as_space, identity, load_space, make_space

TABLE: dict[str, Any] = {
    "fixed": {"gamma": 0.99},
    "agent": {"choices": ["ppo", "dqn"]},
    "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "n_steer": {"low": 3, "high": 11, "when": {"agent": "dqn"}},
    "n_throttle": {"low": 2, "high": 5, "when": {"agent": "dqn"}},
    "envs": {"low": 16, "high": 128, "step": 16, "when": {"agent": ["ppo"]}},
    "target": {"choices": ["hard", "soft"], "when": {"agent": "dqn"}},
    "tau": {"low": 0.01, "high": 0.1, "when": {"target": "soft"}},
}
SPACE = make_space(TABLE)


@dataclass(frozen=True)
class Inner:
    clip: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.clip < 1:
            raise ValueError(f"clip must lie between 0 and 1, got {self.clip}")


@dataclass(frozen=True)
class Settings:
    agent: str = "ppo"
    learning_rate: float = 1e-3
    ppo: Inner = field(default_factory=Inner)


def write(text: str, folder: Path) -> Path:
    path = folder / "ranges.toml"
    path.write_text(text)
    return path


def test_what_is_encoded_comes_back_exactly() -> None:
    params = {
        "agent": "dqn",
        "learning_rate": 0.002,
        "n_steer": 7,
        "n_throttle": 3,
        "target": "hard",
    }
    point = SPACE.encode(params)
    # The rate is log10(20) = 1.301 of 2 decades up, 7 is half way from 3 to 11, 3 a third from 2
    # to 5; envs and tau do not count.
    assert point == pytest.approx([1, 0.6505150, 0.5, 1 / 3, 0.5, 0, 0.5])
    assert SPACE.decode(point) == params
    assert identity(SPACE.decode(point)) == identity(params)
    assert type(SPACE.decode(point)["n_steer"]) is int


def test_every_level_comes_back_and_steps_have_few_digits() -> None:
    space = make_space({"x": {"low": 0.1, "high": 0.7, "step": 0.1}, "n": {"low": 3, "high": 11}})
    assert space["x"].levels == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    for dimension in space:
        assert dimension.levels is not None
        assert [dimension.decode(dimension.encode(v)) for v in dimension.levels] == dimension.levels


def test_a_coordinate_is_brought_to_the_nearest_value_in_range() -> None:
    assert SPACE["envs"].decode(0.3) == 48  # 16 + 0.3 x 112 = 49.6
    assert SPACE["envs"].decode(7.0) == 128
    assert SPACE["learning_rate"].decode(0.5) == 1e-3
    assert SPACE["learning_rate"].decode(-1.0) == 1e-4


def test_a_dimension_counts_where_its_condition_holds_down_the_chain() -> None:
    def names(**params: Any) -> list[str]:
        return [d.name for d in SPACE.active(params)][2:]

    assert names(agent="ppo", target="soft") == ["envs"]
    assert names(agent="dqn", target="hard") == ["n_steer", "n_throttle", "target"]
    assert names(agent="dqn", target="soft") == ["n_steer", "n_throttle", "target", "tau"]


def test_parked_coordinates_say_nothing() -> None:
    drawn = np.array([[0, 0.2, 0.9, 0.9, 3 / 7, 1, 0.9], [1, 0.2, 0.25, 1.0, 0.9, 0, 0.9]])
    parked = SPACE.park(drawn)
    assert parked[0] == pytest.approx(
        [0, 0.2, 0.5, 0.5, 3 / 7, 0, 0.5]
    )  # tau hangs on a parked one
    assert parked[1] == pytest.approx([1, 0.2, 0.25, 1.0, 0.5, 0, 0.5])
    for point in parked:
        assert SPACE.encode(SPACE.decode(point)) == pytest.approx(point)


def test_levels_are_equally_likely() -> None:
    space = make_space({"n": {"low": 1, "high": 5}, "c": {"choices": ["a", "b", "c"]}})
    unit = np.stack([np.linspace(0, 1, 15, endpoint=False)] * 2, axis=1)
    points = space.settle(unit)
    values = [space.decode(point) for point in points]
    assert [v["n"] for v in values] == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3 + [5] * 3
    assert [v["c"] for v in values] == ["a"] * 5 + ["b"] * 5 + ["c"] * 5


def test_drawn_points_lie_in_the_space() -> None:
    points = SPACE.sample(np.random.default_rng(0), 200)
    for point in points:
        params = SPACE.decode(point)
        assert SPACE.problem(params) is None
        assert SPACE.encode(params) == pytest.approx(point)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"n_steer": 7}, None),
        ({"n_steer": 7.0}, None),
        ({"n_steer": 12}, "n_steer = 12 lies outside its range"),
        ({"n_steer": 7.5}, "n_steer = 7.5 lies outside its range"),
        ({"n_steer": True}, "n_steer = True lies outside its range"),
        ({"learning_rate": "fast"}, "learning_rate = 'fast' lies outside its range"),
        ({"agent": "sac"}, "agent = 'sac' lies outside its range"),
        ({"envs": 16}, "envs is no free parameter here"),
        ({"colour": 1}, "colour is no free parameter here"),
    ],
)
def test_what_keeps_params_out(changed: dict[str, Any], sentence: str | None) -> None:
    params = {
        "agent": "dqn",
        "learning_rate": 0.002,
        "n_steer": 7,
        "n_throttle": 3,
        "target": "hard",
    }
    assert SPACE.problem(params | changed) == sentence
    if sentence is not None:
        with pytest.raises(ValueError, match=r"lies outside|no free parameter"):
            SPACE.encode(params | changed)


def test_a_parameter_that_counts_must_be_there() -> None:
    assert SPACE.problem({"agent": "ppo", "learning_rate": 0.002}) == "envs is missing"


def test_a_range_can_be_narrowed_or_moved() -> None:
    narrow = SPACE.restrict("n_steer", 5, 7)
    assert narrow["n_steer"].levels == [5, 6, 7]
    assert narrow["n_steer"].when == SPACE["n_steer"].when
    assert narrow.fixed == SPACE.fixed
    with pytest.raises(ValueError, match="n_steer would go from 12 to 11; set its other end"):
        SPACE.restrict("n_steer", low=12)


def test_one_choice_can_be_taken_and_what_hangs_on_another_falls_away() -> None:
    ppo, dqn = only(SPACE, "agent", "ppo"), only(SPACE, "agent", "dqn")
    assert [d.name for d in ppo] == ["learning_rate", "envs"]
    assert [d.name for d in dqn] == ["learning_rate", "n_steer", "n_throttle", "target", "tau"]
    assert ppo.fixed == {"gamma": 0.99, "agent": "ppo"}
    assert ppo["envs"].when == {}
    assert dqn["tau"].when == {"target": ("soft",)}
    with pytest.raises(ValueError, match="unknown agent 'pp0'; did you mean 'ppo'"):
        only(SPACE, "agent", "pp0")


def test_a_table_gives_an_equal_space() -> None:
    assert make_space(SPACE.to_table()) == SPACE
    assert SPACE.to_table()["envs"] == {
        "low": 16,
        "high": 128,
        "step": 16,
        "when": {"agent": ["ppo"]},
    }


def test_whole_steps_of_a_float_are_kept_in_the_table() -> None:
    space = make_space({"x": {"low": 0.0, "high": 5.0, "step": 1.0}})
    assert make_space(space.to_table()) == space


def test_numbers_of_numpy_are_numbers() -> None:
    space = make_space(
        {
            "c": {"choices": np.array(["a", "b"])},
            "n": {"low": np.int64(3), "high": np.int32(11), "step": np.int64(2)},
            "x": {"low": np.float32(0.25), "high": np.float64(1.0)},
            "y": {"low": np.int64(0), "high": 1.0, "when": {"c": np.str_("b")}},
        }
    )
    same = make_space(
        {
            "c": {"choices": ["a", "b"]},
            "n": {"low": 3, "high": 11, "step": 2},
            "x": {"low": 0.25, "high": 1.0},
            "y": {"low": 0.0, "high": 1.0, "when": {"c": "b"}},
        }
    )
    assert space == same
    assert json.dumps(space.to_table()) == json.dumps(same.to_table())
    given = {"c": np.str_("b"), "n": np.int64(5), "x": np.float32(0.5), "y": np.float64(1.0)}
    plain = {"c": "b", "n": 5, "x": 0.5, "y": 1.0}
    assert space.problem(given) is None
    assert space.decode(space.encode(given)) == plain
    assert identity(given) == identity(plain)
    assert space.problem(given | {"n": np.bool_(True)}) is not None


def test_ends_that_are_whole_make_a_range_of_whole_numbers() -> None:
    assert make_space({"x": {"low": 0, "high": 1}})["x"].levels == [0, 1]
    assert make_space({"x": {"low": 0, "high": 1.0}})["x"].levels is None


def test_a_condition_may_be_a_tuple() -> None:
    table = {"c": {"choices": ["a", "b", "d"]}, "y": {"low": 0, "high": 1}}
    listed, tupled = (
        table | {"y": table["y"] | {"when": {"c": v}}} for v in (["a", "b"], ("a", "b"))
    )
    assert make_space(tupled) == make_space(listed)


def test_a_table_of_ranges_will_do_for_a_space() -> None:
    assert as_space(TABLE) == SPACE
    assert as_space(SPACE) is SPACE
    with pytest.raises(ValueError, match=r"search space: expected ranges by name.*got 3"):
        as_space(3)  # type: ignore[arg-type]


def test_a_file_of_ranges_needs_no_settings(tmp_path: Path) -> None:
    space = load_space(write("[speed]\nlow = 1\nhigh = 2", tmp_path))
    assert [d.name for d in space] == ["speed"]


def test_equal_params_have_one_name() -> None:
    assert identity({"a": 1, "b": 0.5}) == identity({"b": 0.5, "a": 1})
    assert identity({"a": 1}) != identity({"a": 2})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "at least one free parameter"),
        ({"x": {"low": 1, "high": 1}, "c": {"choices": ["a"]}}, "at least one free parameter"),
        ({"x": {"low": 0.5, "high": 0.5}}, "at least one free parameter"),
        ({"x": 3}, "x must be a table with low and high, or choices, got 3"),
        ({"x": {"low": 0}}, "x: expected low and high, or choices"),
        ({"x": {"low": 2, "high": 1}}, "x: "),
        ({"x": {"low": 0, "high": 1, "step": 0.25}}, "no step of 0.25; write 0.0 and 1.0"),
        ({"x": {"low": 0, "high": 1, "hihg": 2}}, "range 'hihg'; did you mean 'high'"),
        ({"x": {"low": 0.0, "high": 1.0, "log": True}}, "x: "),
        ({"x": {"low": "a", "high": 1}}, "x: low and high must be finite numbers, got 'a'"),
        ({"x": {"low": 0.0, "high": float("inf")}}, "must be finite numbers, got inf"),
        ({"x": {"choices": ["a", "b"], "low": 1}}, "x: choices have no low, high, log or step"),
        ({"x": {"choices": []}}, "x: "),
        ({"x": {"low": 0, "high": 1}, "fixed": 3}, "fixed must be a table of settings, got 3"),
        ({"x": {"low": 0, "high": 1}, "fixed": {"x": 1}}, "x stands in the space twice"),
        ({"x": {"low": 0, "high": 1, "when": "always"}}, "x: when must be a table"),
        (
            {"y": {"low": 0, "high": 1, "when": {"c": "a"}}, "c": {"choices": ["a", "b"]}},
            "y counts when c has some value, so c must stand before it",
        ),
        (
            {"c": {"choices": ["a", "b"]}, "y": {"low": 0, "high": 1, "when": {"c": "z"}}},
            "y: c is never 'z'",
        ),
    ],
)  # fmt: skip
def test_a_space_that_cannot_be_is_refused_with_its_source(
    table: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match="mine: ") as refused:
        make_space(table, "mine")
    assert words in str(refused.value)


def test_a_parameter_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="agent stands in the space twice"):
        SearchSpace((SPACE["agent"], SPACE["agent"]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[lerning_rate]\nlow=1\nhigh=2", "did you mean 'learning_rate'?"),
        (
            '["ppo.clipp"]\nlow=0.1\nhigh=0.2',
            "unknown setting 'ppo.clipp'; did you mean 'ppo.clip'?",
        ),
        ('["agent.kind"]\nlow=0.1\nhigh=0.2', "unknown setting 'agent.kind'"),
        ('fixed = { speed = 3 }\n[agent]\nchoices=["ppo","dqn"]', "unknown setting 'speed'"),
        ('["ppo.clip"]\nlow = 0.1\nhigh = 1.5', "clip must lie between 0 and 1, got 1.5"),
        ("[learning_rate\n", "not valid TOML"),
    ],
)
def test_a_file_may_name_only_settings_that_there_are_and_values_that_they_take(
    text: str, words: str, tmp_path: Path
) -> None:
    path = write(text, tmp_path)
    with pytest.raises(ValueError, match="ranges") as refused:
        load_space(path, Settings)
    assert words in str(refused.value)


def test_a_file_that_is_not_there_and_a_space_that_is_not_shipped() -> None:
    with pytest.raises(ValueError, match=r"nowhere\.toml: no file of ranges"):
        load_space("nowhere.toml", Settings)
    with pytest.raises(KeyError, match="did you mean 'donkey'"):
        load_space("donky", TrainConfig)


def test_dotted_names_go_into_the_settings_inside() -> None:
    assert apply(Settings, {"agent": "dqn", "ppo.clip": 0.3}) == Settings("dqn", ppo=Inner(0.3))


def test_the_shipped_space_has_what_is_asked_for_of_it() -> None:
    names = {d.name for d in load_space("donkey", TrainConfig)}
    assert {
        "agent",
        "n_steer",
        "n_throttle",
        "learning_rate",
        "timesteps",
        "reward_shaping",
    } <= names
