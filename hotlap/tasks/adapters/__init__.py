"""Tasks as Gymnasium and Stable-Baselines3 know environments.

Here, and nowhere else, tensors become NumPy. `gym_env` holds one environment, `gym_vector` a batch
for Gymnasium, `sb3_vec` a batch for Stable-Baselines3; below them all is `hotlap.tasks.batch`.
"""


def env_id(task: str) -> str:
    """Gymnasium's name of a task: donkey-lidar is hotlap/DonkeyLidar-v0."""
    return f"hotlap/{''.join(part.capitalize() for part in task.split('-'))}-v0"


def register_envs() -> list[str]:
    """Tell Gymnasium about every task, once; returns the names that `gymnasium.make` then takes.

    Settings of the task are keyword arguments: `gymnasium.make("hotlap/Donkey-v0", reward="v1")`.
    `gymnasium.make_vec` gives the batched environment. Nothing is registered by importing hotlap.
    gym_donkeycar's own names are there too, in this process or over the wire, unless that package
    has registered them itself.
    """
    import gymnasium

    from hotlap.tasks.bridges.aliases import register_aliases
    from hotlap.tasks.registry import TASKS

    for task in TASKS:
        if env_id(task) not in gymnasium.registry:
            gymnasium.register(
                env_id(task),
                entry_point="hotlap.tasks.adapters.gym_env:GymEnv",
                vector_entry_point="hotlap.tasks.adapters.gym_vector:GymVectorEnv",
                kwargs={"task": task},
            )
    return [*(env_id(task) for task in TASKS), *register_aliases()]
