"""Environments as Stable-Baselines3 has them, ours and any other."""

from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecTransposeImage

from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface


def batch_of(env: VecEnv | None) -> BatchEnv | Interface | None:
    """The batch behind an environment, if nothing stands between that changes what it gives."""
    inner = env.venv if isinstance(env, VecTransposeImage) else env
    return inner.batch if isinstance(inner, SB3VecEnv) else None


def gym_envs(name: str, count: int) -> VecEnv:
    """Environments of Gymnasium's, one after another in this process."""
    return make_vec_env(name, count)
