"""What `hotlap train`, `hotlap evaluate` and `hotlap watch MODEL` do."""

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hotlap.config.bridges import SCENES, over_the_wire
from hotlap.config.carracing import CarRacingConfig
from hotlap.config.commands import WatchConfig
from hotlap.config.judging import EvaluateConfig
from hotlap.config.presets import from_table, to_table
from hotlap.config.runs import EvaluationConfig, RunConfig
from hotlap.config.strengths import name_of
from hotlap.config.tasks import DonkeyConfig
from hotlap.config.training import TrainConfig
from hotlap.evaluation.eval_table import print_result
from hotlap.evaluation.generalisation_table import print_report
from hotlap.evaluation.judge import HELD_OUT, Drive, judge_drives, judge_gym
from hotlap.evaluation.trajectory_plot import draw_drives
from hotlap.learning.bfloat16 import knows_bfloat16
from hotlap.learning.driver import refuse_other_shape
from hotlap.learning.heap import keep_freed_memory
from hotlap.records import EvalResult
from hotlap.research.ahead import Helpers
from hotlap.research.carracing_judging import evaluate_carracing, run_of_zip, watched_settings
from hotlap.research.contestants import ROAD_TASKS, SCRIPTED, Contestant, scripted, trained, zipped
from hotlap.research.experiment import Prepared, Run, describe, prepare
from hotlap.research.generalising import asks_for_report, draw_report, generalise, plot_of
from hotlap.research.judged_looks import as_asked
from hotlap.research.lessons import Lesson
from hotlap.research.models import Model, open_model
from hotlap.research.over_the_wire import evaluate_over_the_wire
from hotlap.research.progress import Progress
from hotlap.research.trackers import Trackers
from hotlap.research.worlds import (
    judged_tracks,
    known_tasks,
    make_judged_env,
    make_task_of,
    refuse_judged_tracks,
    refuse_unknown,
    tracks_of,
)
from hotlap.research.zoo import sight
from hotlap.sim.carracing.catalogue import find_tile_tracks, list_changes, refuse_held_out
from hotlap.sim.tracks.catalogue import find_track
from hotlap.sim.tracks.selection import chosen_tracks, refuse_choosing_by
from hotlap.store.run_folder import RunFolder
from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.devices import choose_device, has_compiler
from hotlap.tasks.interface import Interface


def train(config: TrainConfig, helpers: bool = True) -> dict[str, Any]:
    """Train, or go on training; say how the best did.

    Args:
        config: What is asked for.
        helpers: Whether other processes may compile for it.
    """
    settled = _settled(config)
    torch.set_num_threads(settled.threads)
    keep_freed_memory()
    refuse_unknown_run(settled, config.trust)
    print(describe(settled), flush=True)
    if config.recipe is not None:
        print(f"recipe: {config.recipe}", flush=True)
    if settled.task.startswith("CarRacing-"):
        print("as Gymnasium has it; hotlap train carracing learns in a twin, and far sooner")
    began = time.monotonic()
    path = config.resume or _folder(config, settled)
    if config.resume is None:
        RunFolder(path).refuse_used()  # before anything is made for nothing
    # While a teacher learns, there is time enough to compile.
    with Helpers(settled) if helpers and not _has_lesson(config) else nullcontext():
        return _train(config, settled, path, began)


def _train(config: TrainConfig, settled: RunConfig, path: Path, began: float) -> dict[str, Any]:
    """Make ready, train, and tell what came of it."""
    settled, prepared = _make_ready(config, settled, path)
    try:
        if config.resume is not None:
            folder = RunFolder.open(path)
        else:
            folder = RunFolder.create(path, to_table(settled))
    except BaseException:
        prepared.env.close()
        raise
    with folder:
        print(f"folder: {folder.path}", flush=True)
        title = f"{settled.agent_name} on {settled.task}"
        with Progress(title, settled.timesteps) as progress:
            run = _begin(config, settled, folder, progress, prepared)
            result = run.train()
        seconds = time.monotonic() - began
    print_result(result, f"{title}, best policy, judged once more")
    film = _film(folder.path, settled) if config.video else None
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
        "video": None if film is None else str(film),
    }


def _has_lesson(config: TrainConfig) -> bool:
    """Whether a teacher is trained first."""
    return config.teacher_recipe is not None and config.ppo.teacher is None


def _make_ready(config: TrainConfig, run: RunConfig, path: Path) -> tuple[RunConfig, Prepared]:
    """Environments, learner, and its teacher, if one is to be trained first."""

    def say(text: str) -> None:
        print(text, flush=True)

    if not _has_lesson(config):
        return run, prepare(run, say)
    assert config.teacher_recipe is not None
    path = path if path.name else path.absolute()
    with Lesson(config.teacher_recipe, run, path.with_name(f"{path.name}-teacher"), say) as lesson:
        prepared = prepare(run, say)
        return lesson.hear(prepared), prepared


def _begin(
    config: TrainConfig, run: RunConfig, folder: RunFolder, progress: Progress, prepared: Prepared
) -> Run:
    """The run, ready to train; one that cannot begin leaves its folder free for another."""
    try:
        trackers = None
        if config.trackers:
            trackers = Trackers(config.trackers, folder.path.name, to_table(run), folder.path)
        return Run(run, folder, progress, trackers, config.trust, prepared)
    except BaseException:
        prepared.env.close()
        if config.resume is None:
            folder.withdraw()
        raise


def _settled(config: TrainConfig) -> RunConfig:
    """The run that is asked for: a new one, or the one that goes on."""
    device, excuse = choose_device(config.device)
    if excuse:
        print(excuse, flush=True)
    if config.resume is None:
        return config.settle(device, has_compiler(), known_tasks())
    config.refuse_changes()
    folder = RunFolder(config.resume)
    settled = from_table(RunConfig, folder.config, str(config.resume / "config.json"))
    if config.device == "auto" and settled.device == "cpu":
        return _as_it_can(settled)
    return _as_it_can(replace(settled, device=device))


def _as_it_can(run: RunConfig) -> RunConfig:
    """A run that goes on, in arithmetic that this machine has."""
    if run.device != "cpu" or run.agent.precision != "bfloat16" or knows_bfloat16():
        return run
    print("this processor has no bfloat16, in which the run began: it goes on in float32")
    return replace(run, agent=replace(run.agent, precision="float32"))


def refuse_unknown_run(config: RunConfig, trust: bool) -> None:
    """Stop, before anything is written, where a task or a track cannot be trained on."""
    if config.settings is None:
        refuse_unknown(config.task, trust)
    refuse_judged_tracks(config)
    if isinstance(config.settings, CarRacingConfig):
        find_tile_tracks((*config.settings.tracks, *config.evaluation.tracks))
        refuse_held_out(config.evaluation.tracks)
        return
    judged = chosen_tracks(config.evaluation.tracks)
    refuse_choosing_by(judged)
    if config.bridge is None:  # a simulator knows its own
        for track in chosen_tracks((*tracks_of(config), *judged)):
            find_track(track)


def _folder(config: TrainConfig, run: RunConfig) -> Path:
    if config.save_dir is not None:
        return config.save_dir
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{run.agent_name}-{run.task}-{run.seed}"
    return config.root / name.replace("/", "-").replace(":", "-")


def _film(run: Path, config: RunConfig) -> Path | None:
    if not tracks_of(config):
        print("only road tasks can be filmed", flush=True)
        return None
    film = run / "drive.mp4"
    settings = config.settings
    backend = settings.backend if isinstance(settings, CarRacingConfig) else None
    watch(WatchConfig(str(run), track=tracks_of(config)[0], backend=backend, video=film))
    return film


def evaluate(config: EvaluateConfig) -> dict[str, Any]:
    """Judge a model, and say how it did."""
    torch.set_num_threads(1)
    device, excuse = choose_device(config.device)
    if excuse:
        print(excuse, flush=True)
    asked = EvaluationConfig(
        config.episodes, config.seed, config.start, deterministic=not config.stochastic
    )
    bridge = over_the_wire(config.bridge, config.host, config.port)
    _refuse_preset(config)
    if config.model.startswith(SCRIPTED):
        if bridge is not None:
            raise ValueError("scripted drivers know the road itself; over the wire, name a model")
        if config.backend is not None or config.look is not None:
            raise ValueError("nobody is scripted for CarRacing; leave --backend and --look out")
        return _report(scripted(config.model), config)
    model = open_model(config.model, device, config.trust, config.algorithm)
    _refuse_other_task(model, config.task)
    if model.run is not None and config.preset is not None:
        raise ValueError(f"{model.name} has its settings with it; leave --preset out")
    if bridge is not None:
        return evaluate_over_the_wire(model, config, asked, bridge)
    plots: list[Path] = []
    randomised: str | None = None
    told: dict[str, Any] = {}
    run = model.run
    if run is None and config.task == "carracing":
        run = run_of_zip(model, config.preset)
    if config.backend is not None or config.look is not None:
        _refuse_other_than_carracing(model.name, run)
    if run is None and config.task in ROAD_TASKS:
        if config.video is not None:
            raise ValueError("only a model of ours is filmed; leave --video out")
        driver = zipped(model, device, asked.deterministic, config.task, config.preset)
        return _report(driver, config)
    if run is None or run.settings is None:
        result = _evaluate_elsewhere(model, config, asked)
    elif isinstance(run.settings, CarRacingConfig):
        result, told = evaluate_carracing(model, replace(run, device=device), config, asked)
    elif asks_for_report(config):
        _refuse_off_road(config, run)
        return _report(trained(model, device, asked.deterministic), config)
    else:
        run = replace(run, device=device)
        if isinstance(run.settings, DonkeyConfig):
            settings = as_asked(run.settings, config)
            run, randomised = replace(run, settings=settings), name_of(settings.randomise)
        result, plots = _evaluate_here(model, run, config, asked)
    print_result(result, config.model)
    answer = {"model": config.model, **result.to_table(), **told}
    if randomised is not None:
        answer["randomised"] = randomised
    for name, path in (("plots", plots), ("video", config.video)):
        if path:
            answer[name] = [str(p) for p in path] if isinstance(path, list) else str(path)
    return answer


def _report(contestant: Contestant, config: EvaluateConfig) -> dict[str, Any]:
    """On many tracks, over several sets."""
    contestant = replace(contestant, settings=as_asked(contestant.settings, config))
    report, drives = generalise(contestant, config)
    print_report(report, config.model)
    answer = {"model": config.model, **report.to_table()}
    answer["randomised"] = name_of(contestant.settings.randomise)
    if config.plot is not None:
        plots = draw_report(report, drives, config.plot, contestant.settings.vehicle)
        answer["plots"] = [str(path) for path in plots]
    if config.video is not None:
        film = WatchConfig(config.model, track=next(iter(report.tracks)), video=config.video)
        if config.model.startswith(SCRIPTED):
            from hotlap.evaluation.watching import watch as watch_scripted  # needs ffmpeg

            watch_scripted(film)
        else:
            watch(film, config.trust)
        answer["video"] = str(config.video)
    return answer


def _refuse_other_task(model: Model, task: str | None) -> None:
    """Stop where a model of ours would be shown something else than it was trained with."""
    run = model.run
    if run is not None and run.settings is not None and task not in (None, run.task):
        raise ValueError(
            f"{model.name} was trained on {run.task} and sees {sight(run)}; --task {task} shows "
            "something else: leave --task out"
        )


def _refuse_preset(config: EvaluateConfig) -> None:
    """Stop at settings of a task that nobody has named, or that has none."""
    tasks = (*ROAD_TASKS, "carracing")
    if config.preset is not None and config.task not in tasks:
        raise ValueError(f"--preset is for a zip with its --task, one of {', '.join(tasks)}")


def _refuse_other_than_carracing(name: str, run: RunConfig | None) -> None:
    if run is None or not isinstance(run.settings, CarRacingConfig):
        raise ValueError(f"{name} does not drive CarRacing; leave --backend and --look out")


def _refuse_off_road(config: EvaluateConfig, run: RunConfig) -> None:
    if not isinstance(run.settings, DonkeyConfig):
        _refuse_roads(config, run.task)


def _evaluate_here(
    model: Model, run: RunConfig, config: EvaluateConfig, asked: EvaluationConfig
) -> tuple[EvalResult, list[Path]]:
    """In the batched simulator, with the settings it was trained with."""
    if not isinstance(run.settings, DonkeyConfig):
        _refuse_roads(config, run.task)
    # Its own, not those that its training was judged on.
    tracks = judged_tracks(replace(run, evaluation=asked), config.episodes)
    changed: dict[str, Any] = {"tracks": tracks, "start": asked.start} if tracks else {}
    if tracks and run.evaluation.reward is not None:
        changed["reward"] = run.evaluation.reward
    driver = model.driver(asked.deterministic)
    make = make_judged_env(run, **changed)
    result, drives = judge_drives(driver, make, tracks, asked, keep=config.plot is not None)
    plots: list[Path] = []
    if config.plot is not None:
        plots = _draw(config.plot, tracks, drives, run.settings.vehicle)  # type: ignore[union-attr]
    if config.video is not None:
        watch(WatchConfig(model=config.model, track=tracks[0], video=config.video), config.trust)
    return result, plots


def _refuse_roads(config: EvaluateConfig, task: str) -> None:
    """Stop at what only roads have."""
    for name in ("track", "sets", "plot", "video", "randomise"):
        if getattr(config, name):
            raise ValueError(f"{task} has no roads; leave --{name} out")


def _draw(plot: Path, tracks: tuple[str, ...], drives: list[Drive], vehicle: str) -> list[Path]:
    """A picture per track."""
    found = []
    for track in tracks:
        own = [drive for drive in drives if drive.episode.track == track]
        path = plot_of(plot, track, len(tracks))
        found.append(draw_drives(find_track(track), own, path, vehicle))
    return found


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
    _refuse_roads(config, task)
    if task in SCENES:
        register_envs()
    elif task in known_tasks():
        register_envs()
        from hotlap.tasks.adapters import env_id

        task = env_id(task)
    refuse_unknown(task, config.trust)
    env = gymnasium.make(task)
    refuse_other_shape(tuple(model.seen.shape or ()), tuple(env.observation_space.shape or ()))
    theirs, ours = env.action_space, model.policy.action_space
    if type(theirs) is not type(ours) or theirs.shape != ours.shape:
        raise ValueError(
            f"the model acts in {ours}, this environment takes {theirs}; judge the folder that the "
            "zip lies in, or name the environment it was trained in"
        )
    env.close()

    def act(seen: Any) -> Any:
        action = model.policy.predict(seen, deterministic=asked.deterministic)[0]
        return action.item() if action.ndim == 0 else action

    return judge_gym(act, lambda: gymnasium.make(task), asked)


def watch(config: WatchConfig, trust: bool = False) -> dict[str, Any]:
    """Let a model drive, and film it."""
    from hotlap.evaluation.watching import on_a_road, watch_policy  # needs ffmpeg

    torch.set_num_threads(1)
    model = open_model(config.model, trust=trust)
    run = model.run
    _refuse_other_task(model, None if config.task == WatchConfig.task else config.task)
    if run is not None and isinstance(run.settings, CarRacingConfig):
        return _watch_carracing(model, replace(run, device="cpu"), config)
    if config.backend is not None or config.look is not None:
        _refuse_other_than_carracing(model.name, run)
    config = on_a_road(config)
    if run is None or not isinstance(run.settings, DonkeyConfig):
        raise ValueError(f"{config.model} was not trained on a road; it cannot be watched")
    steps = max(1, round(config.seconds / run.settings.car.control_dt))
    run = replace(run, device="cpu", compiled=False)
    task = make_task_of(run, tracks=(config.track,), start="line", max_steps=steps)
    env = Interface(BatchEnv(task, 1, seed=HELD_OUT + config.seed), run.interface)
    return watch_policy(config, env, model.driver())


def _watch_carracing(model: Model, run: RunConfig, config: WatchConfig) -> dict[str, Any]:
    from hotlap.research.carracing_watching import watch_carracing  # needs ffmpeg too

    settings = watched_settings(run, config)
    for line in list_changes(settings.tracks):
        print(line, flush=True)
    run = replace(run, settings=settings)
    return watch_carracing(config.model, model.driver(), run, config.seed, config.video)
