"""What `hotlap train`, `hotlap evaluate` and `hotlap watch MODEL` do."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hotlap.config.commands import WatchConfig
from hotlap.config.presets import from_table, to_table
from hotlap.config.runs import EvaluationConfig, RunConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.config.training import EvaluateConfig, TrainConfig
from hotlap.evaluation.eval_table import print_result
from hotlap.evaluation.judge import HELD_OUT, judge_drives, judge_gym
from hotlap.evaluation.trajectory_plot import draw_drives
from hotlap.learning.driver import refuse_other_shape
from hotlap.learning.off_policy import OffPolicy
from hotlap.records import EvalResult
from hotlap.research.experiment import Run, describe
from hotlap.research.models import Model, open_model
from hotlap.research.progress import Progress
from hotlap.research.trackers import Trackers
from hotlap.research.worlds import (
    choose_device,
    has_compiler,
    known_tasks,
    make_judged_env,
    make_task_of,
    refuse_unknown,
    tracks_of,
)
from hotlap.sim.tracks.catalogue import find_track
from hotlap.store.run_folder import RunFolder
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.interface import Interface


def train(config: TrainConfig) -> dict[str, Any]:
    """Train, or go on training; say how the best did."""
    torch.set_num_threads(config.threads)
    device, excuse = choose_device(config.device)
    if excuse:
        print(excuse, flush=True)
    if config.resume is not None:
        folder = RunFolder.open(config.resume)
        settled = from_table(RunConfig, folder.config, str(config.resume / "config.json"))
        settled = replace(settled, device=device if settled.device != "cpu" else "cpu")
    else:
        settled = config.settle(device, has_compiler(), known_tasks())
        refuse_unknown_run(settled)
        folder = RunFolder.create(_folder(config, settled), to_table(settled))
    with folder:
        print(f"{describe(settled)}\nfolder: {folder.path}", flush=True)
        began = time.monotonic()
        title = f"{settled.agent_name} on {settled.task}"
        with Progress(title, settled.timesteps) as progress:
            trackers = None
            if config.trackers:
                trackers = Trackers(
                    config.trackers, folder.path.name, to_table(settled), folder.path
                )
            run = Run(settled, folder, progress, trackers, config.trust)
            if isinstance(run.learner, OffPolicy):
                progress.note(str(run.learner.replay_buffer))
            result = run.train()
        seconds = time.monotonic() - began
    print_result(result, f"{title}, best policy on unseen seeds")
    film = folder.path / "drive.mp4"
    if config.video:
        _film(folder.path, film, settled)
    print(f"{progress.line()}\nmodel: {folder.model_folder}", flush=True)
    return {
        "run": str(folder.path),
        "model": str(folder.model_folder),
        "agent": settled.agent_name,
        "task": settled.task,
        "timesteps": run.learner.num_timesteps,
        "seed": settled.seed,
        "mean_reward": result.mean_return,
        "std_reward": result.std_return,
        "rewards": [row.episode_return for row in result.episodes],
        "lap_rate": result.lap_rate,
        "best_segment": run.keeper.best_segment,
        "rolled_back": run.keeper.rolled_back >= 0,
        "seconds": round(seconds, 2),
        "steps_per_s": round(progress.rate, 1),
        "video": str(film) if config.video else None,
    }


def refuse_unknown_run(config: RunConfig) -> None:
    """Stop, before anything is written, where a task or a track is not known."""
    if config.settings is None:
        refuse_unknown(config.task)
    for track in tracks_of(config):
        find_track(track)


def _folder(config: TrainConfig, run: RunConfig) -> Path:
    if config.save_dir is not None:
        return config.save_dir
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{run.agent_name}-{run.task}-{run.seed}"
    return config.root / name.replace("/", "-").replace(":", "-")


def _film(run: Path, film: Path, config: RunConfig) -> None:
    if not tracks_of(config):
        print("only road tasks can be filmed", flush=True)
        return
    watch(WatchConfig(model=str(run), track=tracks_of(config)[0], video=film))


def evaluate(config: EvaluateConfig) -> dict[str, Any]:
    """Judge a model, and say how it did."""
    torch.set_num_threads(1)
    device, excuse = choose_device(config.device)
    if excuse:
        print(excuse, flush=True)
    model = open_model(config.model, device, config.trust, config.algorithm)
    asked = EvaluationConfig(
        config.episodes, config.seed, config.start, deterministic=not config.stochastic
    )
    plots: list[Path] = []
    if model.run is None or model.run.settings is None:
        result = _evaluate_elsewhere(model, config, asked)
    else:
        result, plots = _evaluate_here(model, replace(model.run, device=device), config, asked)
    print_result(result, config.model)
    answer = {"model": config.model, **result.to_table()}
    for name, path in (("plots", plots), ("video", config.video)):
        if path:
            answer[name] = [str(p) for p in path] if isinstance(path, list) else str(path)
    return answer


def _evaluate_here(
    model: Model, run: RunConfig, config: EvaluateConfig, asked: EvaluationConfig
) -> tuple[EvalResult, list[Path]]:
    """In the batched simulator, with the settings it was trained with."""
    if config.track and not isinstance(run.settings, DonkeyConfig):
        raise ValueError(f"task {run.task} has no tracks; leave --track out")
    tracks = config.track or tracks_of(run)
    changed = {"tracks": tracks, "start": asked.start} if tracks else {}
    driver = model.driver(asked.deterministic)
    make = make_judged_env(run, **changed)
    result, drives = judge_drives(driver, make, tracks, asked, keep=config.plot is not None)
    plots = []
    if config.plot is not None:
        for track in tracks:
            own = [drive for drive in drives if drive.episode.track == track]
            path = config.plot if len(tracks) == 1 else _named(config.plot, track)
            plots.append(draw_drives(find_track(track), own, path, run.settings.vehicle))  # type: ignore[union-attr]
    if config.video is not None:
        watch(WatchConfig(model=config.model, track=tracks[0], video=config.video), config.trust)
    return result, plots


def _named(path: Path, track: str) -> Path:
    return path.with_name(f"{path.stem}-{Path(track).stem.replace(':', '-')}.png")


def _evaluate_elsewhere(
    model: Model, config: EvaluateConfig, asked: EvaluationConfig
) -> EvalResult:
    """In a Gymnasium environment."""
    import gymnasium

    from hotlap.tasks.adapters import register_envs

    task = config.task or (model.run.task if model.run else None)
    if task is None:
        raise ValueError(
            "a zip does not say what it was trained for; name it by --task, for example "
            "--task CarRacing-v3 or --task donkey"
        )
    if task in known_tasks():
        register_envs()
        from hotlap.tasks.adapters import env_id

        task = env_id(task)
    refuse_unknown(task)
    env = gymnasium.make(task)
    refuse_other_shape(tuple(model.seen.shape or ()), tuple(env.observation_space.shape or ()))
    env.close()

    def act(seen: Any) -> Any:
        action = model.policy.predict(seen, deterministic=asked.deterministic)[0]
        return action.item() if action.ndim == 0 else action

    return judge_gym(act, lambda: gymnasium.make(task), asked)


def watch(config: WatchConfig, trust: bool = False) -> dict[str, Any]:
    """Let a model drive, and film it."""
    from hotlap.evaluation.watching import watch_policy  # needs ffmpeg, training does not

    torch.set_num_threads(1)
    model = open_model(config.model, trust=trust)
    run = model.run
    if run is None or not isinstance(run.settings, DonkeyConfig):
        raise ValueError(f"{config.model} was not trained on a road; it cannot be watched")
    steps = max(1, round(config.seconds / run.settings.car.control_dt))
    run = replace(run, device="cpu", compiled=False)
    task = make_task_of(run, tracks=(config.track,), start="line", max_steps=steps)
    env = Interface(BatchEnv(task, 1, seed=HELD_OUT + config.seed), run.interface)
    return watch_policy(config, env, model.driver())
