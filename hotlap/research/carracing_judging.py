"""Judging a CarRacing policy: in the twin, or in the real environment.

Episode i of an evaluation with seed S is driven on the track that Gymnasium makes from seed S + i,
wherever it is driven, so that scores can be compared episode by episode.
"""

from dataclasses import replace
from typing import Any, Literal

from gymnasium import spaces

from hotlap.config.carracing import FIVE_ACTIONS, FRAMES_PER_SECOND, CarRacingConfig
from hotlap.config.commands import WatchConfig
from hotlap.config.interface import InterfaceConfig
from hotlap.config.judging import EvaluateConfig
from hotlap.config.learners import PPOConfig
from hotlap.config.presets import load_preset
from hotlap.config.runs import EvaluationConfig, RunConfig
from hotlap.evaluation.judge import judge
from hotlap.learning.driver import refuse_other_shape
from hotlap.records import EvalResult
from hotlap.research.models import Model
from hotlap.research.worlds import REAL_AT_ONCE, RealCars, make_judged_env
from hotlap.sim.carracing.catalogue import HELD_OUT, PREFIX, expand, list_changes

ZIP_PRESET = "carracing/classic-warp"
"""What a zip is judged with, unless told otherwise."""


def evaluate_carracing(
    model: Model, run: RunConfig, config: EvaluateConfig, asked: EvaluationConfig
) -> tuple[EvalResult, dict[str, Any]]:
    """How a policy did, and what it was driven in."""
    for name in ("sets", "plot", "randomise"):
        if getattr(config, name):
            raise ValueError(f"--{name} is for donkey tasks; leave it out")
    settings, own = judged_settings(run, config), run.settings
    assert isinstance(own, CarRacingConfig)
    run = replace(run, settings=settings)
    # EnvPool makes tracks of its own from the seeds, which have no names here.
    tracks = () if settings.backend == "envpool" else expand(settings.tracks)
    told: dict[str, Any] = {"backend": settings.backend, "look": settings.look}
    known = {*tracks} & {*expand(own.tracks)} if model.run is not None else set()
    if known:
        told["trained_on"] = len(known)
        print(f"{len(known)} of these {len(tracks)} tracks it has trained on", flush=True)
    if settings.max_frames != CarRacingConfig.max_frames:
        told["max_frames"] = settings.max_frames  # not the score that is meant by CarRacing's
    if settings.outside:
        from hotlap.tasks.bridges.carracing_backends import version_line  # imports Box2D and pygame

        told["environment"] = version_line(settings.backend)
        print(told["environment"], flush=True)
    for line in list_changes(tracks):
        print(line, flush=True)
    driver = model.driver(asked.deterministic)
    make = make_judged_env(run)
    try:
        # In the twin as many: a net rounds otherwise in other batches.
        result = judge(driver, make, tracks, asked, REAL_AT_ONCE)
    finally:
        if isinstance(make, RealCars):
            make.close()
    if config.video is not None:
        from hotlap.research.carracing_watching import watch_carracing  # needs ffmpeg

        first = replace(run, settings=replace(settings, tracks=tracks[:1] or settings.tracks))
        watch_carracing(config.model, driver, first, config.seed, config.video)
    return result, told


def run_of_zip(model: Model, preset: str | None) -> RunConfig:
    """What a zip from elsewhere is judged with: a preset's settings, seen and acted in as it does.

    The learner in it is no more than a placeholder.
    """
    settings = load_preset(CarRacingConfig, preset or ZIP_PRESET)
    learned, seen = tuple(model.seen.shape or ()), settings.shape
    if len(learned) != 3 or learned[:2] != seen[:2] or learned[2] % seen[2]:
        refuse_other_shape(learned, seen)
    acts = model.policy.action_space
    five = isinstance(acts, spaces.Discrete) and acts.n == len(FIVE_ACTIONS)
    if not five and (not isinstance(acts, spaces.Box) or acts.shape not in ((2,), (3,))):
        raise ValueError(
            f"{model.name} acts in {acts}; CarRacing takes one of five actions, steering and a "
            "pedal, or steering, gas and brake"
        )
    interface = InterfaceConfig("discrete" if five else "continuous", stack=learned[2] // seen[2])
    actions: Literal["pair", "triple"] = "triple" if acts.shape == (3,) else "pair"
    return RunConfig(
        task="carracing",
        settings=replace(settings, actions=actions),
        agent=PPOConfig(),
        interface=interface,
        timesteps=1,
        segment_steps=1,
    )


def judged_settings(run: RunConfig, config: EvaluateConfig) -> CarRacingConfig:
    """The settings that a policy is judged with: its own, but for where and what it drives."""
    own = run.settings
    assert isinstance(own, CarRacingConfig)
    seeds = tuple(f"{PREFIX}{config.seed + i}" for i in range(config.episodes))
    if config.backend == "envpool":
        _refuse_for_envpool(config.track)
        seeds = CarRacingConfig().tracks
    return replace(
        own,
        tracks=config.track or seeds,
        backend=config.backend or "twin",
        look=config.look or "plain",
        reward="default",
        start="line",
    )


def watched_settings(run: RunConfig, config: WatchConfig) -> CarRacingConfig:
    """The settings that a policy is watched with: its own, but for where it drives and how long."""
    own = run.settings
    assert isinstance(own, CarRacingConfig)
    named = () if config.track == "auto" else (config.track,)
    first = HELD_OUT[0]  # seeds from there on are tracks' own, as in an evaluation
    tracks = named or (f"{PREFIX}{config.seed if config.seed >= first else first + config.seed}",)
    if config.backend == "envpool":
        _refuse_for_envpool(named)
        tracks = CarRacingConfig().tracks
    elif len(expand(tracks)) != 1:
        raise ValueError(f"{config.track} stands for many tracks; name the one to watch")
    return replace(
        own,
        tracks=tracks,
        backend=config.backend or "twin",
        look=config.look or "plain",
        reward="default",
        start="line",
        max_frames=min(own.max_frames, max(1, round(config.seconds * FRAMES_PER_SECOND))),
    )


def _refuse_for_envpool(tracks: tuple[str, ...]) -> None:
    if tracks:
        raise ValueError("EnvPool makes its own tracks; leave --track out, or --backend envpool")
