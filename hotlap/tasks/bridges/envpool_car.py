"""EnvPool's CarRacing-v3, with the face of Gymnasium's car."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.tasks.bridges.carracing_backends import FOR_LEAVING, PER_FRAME, Stepped
from hotlap.tasks.bridges.carracing_frames import Pixels


class EnvPoolCar:
    """CarRacing-v3 of EnvPool: every frame is drawn, and its seeds make tracks of their own."""

    looking = True

    def __init__(self) -> None:
        self._pool: Any = None
        self._earned, self._frames = 0.0, 0
        self._frame = np.zeros((96, 96, 3), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pixels, dict[str, Any]]:
        """Begin on the seed's track."""
        if (options or {}).get("track") is not None:
            raise ValueError("EnvPool drives only tracks of its own; use --backend gymnasium")
        import envpool  # type: ignore[import-not-found]  # only here: it may be missing

        # A pool of one, made anew: within a pool, an episode cannot be given its seed.
        seed = int(np.random.default_rng().integers(1 << 31)) if seed is None else seed
        self.close()
        with warnings.catch_warnings(action="ignore"):  # of its own spaces' precision
            self._pool = envpool.make_gymnasium(
                "CarRacing-v3", num_envs=1, num_threads=1, seed=seed % (1 << 31),
                max_episode_steps=1 << 30,
            )  # fmt: skip
        self._earned, self._frames, self._frame = 0.0, 0, self._pool.reset()[0][0]
        return self._frame, {}

    def step(self, triple: NDArray[np.float64]) -> Stepped:
        """Drive a frame."""
        frames, rewards, terminated, _, _ = self._pool.step(triple[None].astype(np.float32))
        self._frame, reward, over = frames[0], float(rewards[0]), bool(terminated[0])
        left = over and reward <= FOR_LEAVING
        self._earned += 0.0 if left else reward - PER_FRAME
        return self._frame, reward, over, False, {"lap_finished": over and not left}

    def told(self) -> dict[str, Any]:
        """What is known of the car beside its frame: all tiles together earn 1000."""
        return {"share": self._earned / 1000.0}

    def picture(self) -> Pixels:
        """The frame itself: EnvPool draws nothing larger."""
        return self._frame

    def close(self) -> None:
        """Let go of its thread."""
        if self._pool is not None:
            self._pool.close()
