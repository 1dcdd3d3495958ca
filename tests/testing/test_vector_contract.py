"""The checker passes what is right and names what is wrong."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from hotlap.testing import ContractError, check_vector_env

LIMIT = 6


class Walkers(VectorEnv):
    """Three walkers on a line: each step moves one by its action; far out or late, it ends."""

    num_envs = 3

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.single_observation_space = spaces.Box(-9.0, 9.0, (1,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        count = 2 if fault == "spaces" else self.num_envs
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        if fault == "no mode":
            self.metadata = {}
        self.place = np.zeros((3, 1), np.float32)
        self.clock = np.zeros(3, int)

    def _begin(self, mask: np.ndarray) -> None:
        for place in np.flatnonzero(mask):
            self.place[place] = self.generators[place].uniform(-1, 1)
        self.clock[mask] = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if self.fault == "seed ignored":
            seed = None
        if self.fault == "seed means nothing":
            seed = 0
        if seed is not None or not hasattr(self, "generators"):
            seeds = np.random.SeedSequence(seed).spawn(3)
            self.generators = [np.random.default_rng(child) for child in seeds]
        mask = (options or {}).get("reset_mask", np.ones(3, bool))
        self._begin(np.ones(3, bool) if self.fault == "mask ignored" else mask)
        return self.place.copy(), {}

    def step(self, actions: np.ndarray) -> Any:
        if self.fault != "nan taken" and not np.isfinite(actions).all():
            raise ValueError("not a number")
        if self.fault == "generator shared":
            self.place += np.random.default_rng().normal(size=(3, 1))
        self.place = np.clip(self.place + actions, -9, 9).astype(np.float32)
        self.clock += 1
        terminated, truncated = np.abs(self.place[:, 0]) > 2.5, self.clock >= LIMIT
        truncated &= ~terminated
        if self.fault == "flags mixed":
            terminated = truncated = terminated | truncated
        done = terminated | truncated
        infos: dict[str, Any] = {"clock": self.clock.copy(), "_clock": np.ones(3, bool)}
        if self.fault == "no mask":
            del infos["_clock"]
        if done.any():
            self._end(done, infos)
        reward = self.place[:, 0].astype(np.float64)
        if self.fault == "reward shape":
            reward = reward[:, None]
        if self.fault == "nan seen":
            self.place[0] = np.nan
        return self._seen(), reward, terminated, truncated, infos

    def _end(self, done: np.ndarray, infos: dict[str, Any]) -> None:
        last = self.place.copy()
        self._begin(done)
        if self.fault == "final is first":
            last = self.place.copy()
        if self.fault == "begins late":
            self.place[done] = last[done]
        final = np.full(3, None, dtype=object)
        for place in np.flatnonzero(done):
            final[place] = last[place]
        infos |= {"final_obs": final, "_final_obs": done.copy()}
        infos |= {"final_info": {}, "_final_info": done.copy()}
        if self.fault == "final lost":
            del infos["final_obs"], infos["_final_obs"]

    def _seen(self) -> Any:
        if self.fault == "buffer returned":
            self.buffer = getattr(self, "buffer", np.zeros((3, 1), np.float32))
            self.buffer[:] = self.place
            return self.buffer
        if self.fault == "state returned":
            return self.place
        return self.place.astype(np.float64) if self.fault == "type" else self.place.copy()

    def close_extras(self, **kwargs: Any) -> None:
        if self.fault == "closes once" and hasattr(self, "gone"):
            raise RuntimeError("closed before")
        self.gone = True
        if self.fault == "closes once":
            self.close = self.close_extras  # type: ignore[method-assign]


def test_a_right_environment_passes() -> None:
    checked = check_vector_env(Walkers, steps=60, masked_reset=True)
    assert len(checked) == 9


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("spaces", "observation_space to be"),
        ("no mode", "autoreset_mode"),
        ("type", "what step observes to lie in"),
        ("nan seen", "what step observes to lie in"),
        ("reward shape", "rewards to be"),
        ("no mask", "to have a mask"),
        ("seed ignored", "two environments with one seed"),
        ("generator shared", "two environments with one seed"),
        ("seed means nothing", "another seed"),
        ("flags mixed", "told apart"),
        ("final lost", "_final_obs"),
        ("final is first", "last observation of the old episode"),
        ("begins late", "last observation of the old episode|first observation of a new episode"),
        ("mask ignored", "not in the mask"),
        ("buffer returned", "to stay as it was"),
        ("state returned", "to change nothing"),
        ("nan taken", "not a number to raise"),
    ],
)
def test_a_fault_is_named(fault: str, complaint: str) -> None:
    with pytest.raises(ContractError, match=complaint):
        check_vector_env(lambda: Walkers(fault), steps=60, masked_reset=True)


def test_an_environment_that_cannot_be_closed_twice_fails() -> None:
    with pytest.raises(RuntimeError, match="closed before"):
        check_vector_env(lambda: Walkers("closes once"), steps=60)


def test_it_says_when_nothing_ended() -> None:
    with pytest.raises(ContractError, match="Pass more steps"):
        check_vector_env(Walkers, steps=3)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_gymnasiums_own_environments_pass(mode: AutoresetMode) -> None:
    def make() -> VectorEnv:
        kwargs = {"autoreset_mode": mode}
        return gym.make_vec("CartPole-v1", 3, vectorization_mode="sync", vector_kwargs=kwargs)

    assert "masked reset" in check_vector_env(make, steps=60, masked_reset=True)


def test_gymnasiums_vector_entry_points_pass() -> None:
    checked = check_vector_env(lambda: gym.make_vec("CartPole-v1", num_envs=3), steps=60)
    assert "autoreset in the next step" in checked


def test_an_environment_that_takes_nan_passes_where_that_is_allowed() -> None:
    check_vector_env(lambda: Walkers("nan taken"), steps=60, nan_refused=False)
