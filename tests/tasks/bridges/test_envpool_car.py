"""EnvPool's CarRacing under our settings."""

import numpy as np
import pytest

from hotlap.config.carracing import CarRacingConfig

pytest.importorskip("envpool")
from hotlap.tasks.bridges.carracing_env import CarRacingEnv

from .round_track import circle


def test_envpools_car_is_driven_in_the_same_way() -> None:
    config = CarRacingConfig(backend="envpool", repeat=4, max_frames=10, look="bars")
    env, again = CarRacingEnv(config), CarRacingEnv(config)
    first, _ = env.reset(seed=7)
    assert first.shape == (84, 84, 1) and first.std() > 5
    assert not first[:, :6].any()
    assert not np.array_equal(env.reset(seed=8)[0], first)
    assert np.array_equal(env.reset(seed=7)[0], first)
    again.reset(seed=7)
    earned = 0.0
    for frames in (4, 8, 10):
        seen, reward, terminated, truncated, info = env.step(np.array([0.1, 0.5]))
        assert np.array_equal(seen, again.step(np.array([0.1, 0.5]))[0])
        earned += reward
        assert info["frames"] == frames
        assert info["share"] == pytest.approx((earned + 0.1 * frames) / 1000, abs=1e-6)
        assert 2 <= info["share"] * 350 <= 10, "a few of some 300 tiles"
        assert (terminated, truncated) == (False, frames == 10)
    with pytest.raises(ValueError, match="tracks of its own"):
        env.reset(seed=7, options={"track": circle()})
