"""Many environments, as Gymnasium knows them."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from hotlap.tasks.adapters import register_envs
from hotlap.tasks.adapters.gym_env import GymEnv
from hotlap.tasks.adapters.gym_vector import GymVectorEnv
from hotlap.tasks.registry import make_task
from hotlap.tasks.task import Task

ACTIONS = np.tile(np.array([0.5, 1.0], dtype=np.float32), (3, 1))


@pytest.fixture(scope="module")
def task() -> Task:
    return make_task("donkey-telemetry", start="random", max_steps=4)


def test_each_seed_is_the_environment_that_gym_env_gives_it(task: Task) -> None:
    vector = GymVectorEnv(task, 3)
    seen, _ = vector.reset(seed=40)
    singles = [GymEnv(task) for _ in range(3)]
    alone = [env.reset(seed=40 + i)[0] for i, env in enumerate(singles)]
    np.testing.assert_allclose(seen, alone, atol=1e-5)
    for _ in range(6):  # over an ending
        seen, reward, _, truncated, infos = vector.step(ACTIONS)
        steps = [env.step(action) for env, action in zip(singles, ACTIONS, strict=True)]
        np.testing.assert_allclose(reward, [step[1] for step in steps], atol=1e-5)
        if truncated.all():
            np.testing.assert_allclose(
                np.stack(infos["final_obs"]), [s[0] for s in steps], atol=1e-5
            )
            alone = [env.reset()[0] for env in singles]
        else:
            alone = [step[0] for step in steps]
        np.testing.assert_allclose(seen, alone, atol=1e-5)


def test_a_list_of_seeds_seeds_each_and_none_goes_on(task: Task) -> None:
    vector = GymVectorEnv(task, 3)
    first, _ = vector.reset(seed=[7, 8, 9])
    turned, _ = vector.reset(seed=[9, 7, 8])
    np.testing.assert_array_equal(turned, first[[2, 0, 1]])
    following, _ = vector.reset()
    mixed_env = GymVectorEnv(task, 3)
    mixed_env.reset(seed=[9, 7, 8])
    mixed, _ = mixed_env.reset(seed=[None, 8, None])
    np.testing.assert_array_equal(mixed[[0, 2]], following[[0, 2]])
    np.testing.assert_array_equal(mixed[1], first[1])
    with pytest.raises(ValueError, match="3 environments need as many seeds, got 2"):
        vector.reset(seed=[1, 2])


def test_a_mask_chooses_who_begins_with_or_without_a_seed(task: Task) -> None:
    vector = GymVectorEnv(task, 3)
    first, _ = vector.reset(seed=5)
    seen = vector.step(ACTIONS)[0]
    options = {"reset_mask": np.array([False, True, False])}
    reset, _ = vector.reset(seed=[None, 5, None], options=options)
    np.testing.assert_array_equal(reset[[0, 2]], seen[[0, 2]])
    np.testing.assert_array_equal(reset[1], first[0])
    assert list(options) == ["reset_mask"]
    with pytest.raises(ValueError, match="bool array of shape"):
        vector.reset(options={"reset_mask": [True, False, False]})
    with pytest.raises(ValueError, match="unknown option 'mask'"):
        vector.reset(options={"mask": options["reset_mask"]})


def test_infos_are_arrays_with_masks_and_endings_tell_apart(task: Task) -> None:
    vector = GymVectorEnv(task, 3)
    vector.reset(seed=0)
    infos = vector.step(ACTIONS)[4]
    assert infos["cte"].shape == (3,) and infos["_cte"].all() and infos["pos"].shape == (3, 3)
    assert "final_obs" not in infos
    vector.reset(options={"reset_mask": np.array([False, True, False])})
    for _ in range(3):
        _, _, _, truncated, infos = vector.step(ACTIONS)
    assert truncated.tolist() == [True, False, True] == infos["_final_obs"].tolist()
    assert infos["final_obs"][1] is None
    assert infos["_speed"].tolist() == [False, True, False]
    assert infos["speed"][0] == 0 and infos["speed"][1] > 0
    assert infos["final_info"]["_speed"].tolist() == [True, False, True]
    assert infos["final_info"]["speed"][0] > 0 and infos["final_info"]["speed"][1] == 0


def test_gymnasium_makes_and_wraps_it() -> None:
    register_envs()
    env = gym.make_vec("hotlap/Tag-v0", num_envs=2, max_steps=3, render_mode="rgb_array")
    assert isinstance(env.unwrapped, GymVectorEnv)
    recorded = RecordEpisodeStatistics(env)
    recorded.reset(seed=1)
    for _ in range(3):
        infos = recorded.step(env.action_space.sample())[4]
    assert infos["episode"]["l"].tolist() == [3, 3]
    pictures = env.render()
    assert pictures is not None and len(pictures) == 2


def test_more_than_one_seat_is_refused() -> None:
    with pytest.raises(ValueError, match="seats=1"):
        GymVectorEnv("tag", 2, seats=2)
