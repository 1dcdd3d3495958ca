"""The same learner, ours and stock Stable-Baselines3's, on the same task, settings and seeds.

    python benchmarks/compare_stock.py run CASE WHO SEED   one training; prints a JSON line
    python benchmarks/compare_stock.py show FILE PICTURE   table and picture of many such lines

Every training is judged as it goes, on the same fresh episodes, with the best action each time.
"""

import json
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3 as stock
import torch
from scipy.stats import t
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from hotlap.config.interface import InterfaceConfig
from hotlap.learning.dqn import DQN
from hotlap.learning.policies import ActorCritic
from hotlap.learning.ppo import PPO
from hotlap.learning.sac import SAC
from hotlap.learning.tqc import TQC
from hotlap.tasks.adapters.sb3_vec import SB3VecEnv
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface
from hotlap.tasks.registry import make_task

CASES = {
    "ppo donkey-telemetry": dict(steps=200_000, points=8, envs=64),
    "ppo CartPole-v1": dict(steps=40_000, points=8, envs=8),
    "dqn CartPole-v1": dict(steps=40_000, points=8, envs=1),
    "sac Pendulum-v1": dict(steps=6_000, points=6, envs=1),
    "tqc Pendulum-v1": dict(steps=4_000, points=5, envs=1),
}
EPISODES = 10
TRUNCATED = 300


def make(case: str, who: str, seed: int):
    algorithm, task = case.split()
    envs = CASES[case]["envs"]
    common = dict(seed=seed, device="cpu")
    if task == "donkey-telemetry":
        batch = BatchEnv(make_task(task, start="random", max_steps=TRUNCATED), envs, seed=seed)
        env = SB3VecEnv(Interface(batch, InterfaceConfig()))
    else:
        env = make_vec_env(task, envs, seed=seed)
    ours = who == "hotlap"
    if algorithm == "ppo":
        settings = dict(n_steps=64, batch_size=512, n_epochs=4, learning_rate=1e-3, gamma=0.98)
        policy = ActorCritic if ours else "MlpPolicy"
        return (PPO if ours else stock.PPO)(policy, env, **settings, **common)
    if algorithm == "dqn":
        settings = dict(learning_rate=1e-3, batch_size=64, learning_starts=1000, gamma=0.99,
                        exploration_fraction=0.2, exploration_final_eps=0.04,
                        policy_kwargs=dict(net_arch=[128, 128]))  # fmt: skip
        if ours:
            return DQN("MlpPolicy", env, replay_size=50_000, updates_per_step=0.5, double=False,
                       target_every=500, critic_grad_norm=10.0, **settings, **common)  # fmt: skip
        return stock.DQN("MlpPolicy", env, buffer_size=50_000, train_freq=2, gradient_steps=1,
                         target_update_interval=500, **settings, **common)  # fmt: skip
    settings = dict(learning_rate=1e-3, batch_size=256, learning_starts=500, gamma=0.99, tau=0.005)
    if algorithm == "sac":
        if ours:
            return SAC("MlpPolicy", env, updates_per_step=1.0, **settings, **common)
        return stock.SAC("MlpPolicy", env, **settings, **common)
    if ours:
        return TQC("MlpPolicy", env, updates_per_step=1.0, **settings, **common)
    return sb3_contrib.TQC("MlpPolicy", env, **settings, **common)


def judge(model, task: str) -> float:
    """Mean return over episodes that no training had, the same for all."""
    if task == "donkey-telemetry":
        return judge_batch(model, task)
    env = gym.make(task)
    earned = []
    for episode in range(EPISODES):
        seen, _ = env.reset(seed=2**30 + episode)
        total, over = 0.0, False
        while not over:
            action, _ = model.predict(seen, deterministic=True)
            seen, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        earned.append(total)
    return float(np.mean(earned))


def judge_batch(model, task: str) -> float:
    """The same in our simulator, all episodes at once; only the first of each counts."""
    env = SB3VecEnv(BatchEnv(make_task(task, start="random", max_steps=TRUNCATED), EPISODES))
    env.seed(2**40)
    seen, earned = env.reset(), {}
    while len(earned) < EPISODES:
        seen, _, done, infos = env.step(model.predict(seen, deterministic=True)[0])
        for place in np.flatnonzero(done):
            earned.setdefault(place, infos[place]["episode"]["r"])
    return float(np.mean(list(earned.values())))


class Judging(BaseCallback):
    """Judges at evenly spaced moments of one training, without being on its clock."""

    def __init__(self, task: str, steps: int, points: int) -> None:
        super().__init__()
        self.task = task
        self.goals = [steps * (point + 1) // points for point in range(points)]
        self.curve: list[list[float]] = []
        self.spent = 0.0

    def _on_step(self) -> bool:
        while self.goals and self.num_timesteps >= self.goals[0]:
            began = time.perf_counter()
            self.curve.append([self.goals.pop(0), judge(self.model, self.task)])
            self.spent += time.perf_counter() - began
        return True


def run(case: str, who: str, seed: int) -> None:
    torch.set_num_threads(1)
    steps, points = CASES[case]["steps"], CASES[case]["points"]
    judging = Judging(case.split()[1], steps, points)
    began = time.perf_counter()
    make(case, who, seed).learn(steps, callback=judging)
    seconds = round(time.perf_counter() - began - judging.spent, 1)
    line = dict(case=case, who=who, seed=seed, curve=judging.curve, seconds=seconds)
    print(json.dumps(line), flush=True)


def show(lines: Path, picture: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    rows = [json.loads(line) for line in lines.read_text().splitlines() if line.startswith("{")]
    cases = [case for case in CASES if any(row["case"] == case for row in rows)]
    figure, axes = plt.subplots(1, len(cases), figsize=(4.2 * len(cases), 3.4), squeeze=False)
    print("| case | steps | stock: final, 95 % | hotlap: final, 95 % | stock s | hotlap s |")
    print("|---|---|---|---|---|---|")
    for case, axis in zip(cases, axes[0], strict=True):
        cells, seconds = [], []
        for who, colour in (("stock", "#8a8a86"), ("hotlap", "#c8442b")):
            own = sorted((r for r in rows if r["case"] == case and r["who"] == who),
                         key=lambda r: r["seed"])  # fmt: skip
            steps = np.array([point[0] for point in own[0]["curve"]])
            values = np.array([[point[1] for point in row["curve"]] for row in own])
            error = values.std(0, ddof=1) / np.sqrt(len(own))
            middle, half = values.mean(0), t.ppf(0.975, len(own) - 1) * error
            axis.plot(steps, middle, color=colour, label=f"{who}, {len(own)} seeds")
            axis.fill_between(steps, middle - half, middle + half, color=colour, alpha=0.2, lw=0)
            cells.append(f"{middle[-1]:.1f} ± {half[-1]:.1f}")
            seconds.append(f"{np.median([row['seconds'] for row in own]):.0f}")
        axis.set_title(case, fontsize=10)
        axis.set_xlabel("environment steps")
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.xaxis.set_major_formatter(lambda steps, _: f"{steps / 1000:g}k")
        axis.legend(fontsize=8, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
        print(f"| {case} | {steps[-1]:,} | {' | '.join(cells)} | {' | '.join(seconds)} |")
    axes[0][0].set_ylabel("mean return, best actions")
    figure.tight_layout()
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        show(Path(sys.argv[2]), Path(sys.argv[3]))
