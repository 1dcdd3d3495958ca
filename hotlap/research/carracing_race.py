"""Racing two models of CarRacing: the same tracks, and an interval on what sets them apart.

Both are judged as `hotlap evaluate` judges them, from the line and by Gymnasium's own reward.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.config.carracing import CarRacingConfig
from hotlap.config.judging import EvaluateConfig
from hotlap.config.racing import RaceConfig
from hotlap.config.runs import EvaluationConfig, RunConfig
from hotlap.evaluation.race_table import print_match
from hotlap.evaluation.racing import match_on
from hotlap.research.carracing_judging import evaluate_carracing, judged_settings, run_of_zip
from hotlap.research.models import Model
from hotlap.sim.carracing.catalogue import expand


def is_carracing(model: Model, task: str) -> bool:
    """Whether a model drives in CarRacing; a zip does where its task is said to be that."""
    if model.run is None:
        return task == "carracing"
    return isinstance(model.run.settings, CarRacingConfig)


def race_cars(config: RaceConfig, models: Sequence[Model | None], device: str) -> dict[str, Any]:
    """Race two models of CarRacing, and say who scores more."""
    _refuse_what_roads_have(config)
    runs = [_run_of(model, config, device) for model in models]
    rows, known, told = [], [], dict[str, Any]()
    for model, run in zip(models, runs, strict=True):
        assert model is not None
        asked = _asked(config, model.name)
        episodes = EvaluationConfig(asked.episodes, asked.seed, "line")
        print(f"{model.name} drives", flush=True)
        result, told = evaluate_carracing(model, run, asked, episodes)
        rows.append(result.episodes)
        known.append(told.pop("trained_on", 0))
    match = match_on(*rows)
    print_match(match, config.a, config.b)
    answer: dict[str, Any] = {"model_a": config.a, "model_b": config.b, **match.to_table()}
    if any(known):
        answer["trained_on"] = dict(zip("ab", known, strict=True))
    answer |= {"episodes": config.episodes, "seed": _asked(config, "").seed, **told}
    if config.video is not None:
        answer["video"] = str(_film(config, models, runs, config.video))
        print(f"film: {config.video}")
    return answer


def _refuse_what_roads_have(config: RaceConfig) -> None:
    usual = RaceConfig(config.a, config.b)
    for name in ("start", "reward", "seconds", "plot"):
        if getattr(config, name) != getattr(usual, name):
            raise ValueError(
                f"--{name} is for races on roads: CarRacing is driven from the line, for its own "
                "reward and time; leave it out"
            )


def _run_of(model: Model | None, config: RaceConfig, device: str) -> RunConfig:
    if model is None:
        raise ValueError("nobody is scripted for CarRacing; race two models")
    if not is_carracing(model, config.task):
        raise ValueError(f"{model.name} does not drive in CarRacing, and the other one does")
    if model.run is None:
        return run_of_zip(model, config.preset or "carracing/classic-warp")
    return replace(model.run, device=device)


def _asked(config: RaceConfig, model: str) -> EvaluateConfig:
    """A race in words of an evaluation."""
    return EvaluateConfig(
        model,
        track=config.track,
        episodes=config.episodes,
        seed=EvaluateConfig.seed if config.seed is None else config.seed,
        backend=config.backend,
        look=config.look,
    )


def _film(
    config: RaceConfig, models: Sequence[Model | None], runs: Sequence[RunConfig], path: Path
) -> Path:
    """Both on the first track, side by side."""
    from hotlap.evaluation.carracing_race_film import Reel, film_side_by_side  # needs ffmpeg
    from hotlap.evaluation.race_film import COLOURS
    from hotlap.research.carracing_watching import show_episode

    reels, title = [], ""
    for model, run, colour, letter in zip(models, runs, COLOURS, "AB", strict=True):
        assert model is not None
        asked = _asked(config, model.name)
        settings = judged_settings(run, asked)
        if settings.backend != "envpool":
            settings = replace(settings, tracks=expand(settings.tracks)[:1])
        title = settings.tracks[0] if settings.backend != "envpool" else f"seed {asked.seed}"
        reel = Reel(f"{letter} {'/'.join(Path(model.name).parts[-2:])}", colour)
        reel.episode = show_episode(
            model.driver(), replace(run, settings=settings), asked.seed, reel
        )
        reels.append(reel)
    beside = f"{settings.backend}, {settings.look}"
    return film_side_by_side(path, f"{title}, {beside}", (reels[0], reels[1]))
