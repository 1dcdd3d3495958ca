"""Racing two models of CarRacing: the same tracks, and an interval on what sets them apart.

Both are judged as `hotlap evaluate` judges them, from the line and by Gymnasium's own reward.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    a, b = (_enter(model, config, device) for model in models)
    times = [judged_settings(entry.run, entry.asked).max_frames for entry in (a, b)]
    if times[0] != times[1]:
        raise ValueError(
            f"episodes of {a.model.name} last {times[0]} frames and those of {b.model.name} "
            f"{times[1]}; race two that were given the same time"
        )
    if config.video is not None:
        config.video.parent.mkdir(parents=True, exist_ok=True)  # now, not after all the driving
    rows, known, told = [], [], dict[str, Any]()
    for entry in (a, b):
        print(f"{entry.model.name} drives", flush=True)
        episodes = EvaluationConfig(entry.asked.episodes, entry.asked.seed, "line")
        result, told = evaluate_carracing(entry.model, entry.run, entry.asked, episodes)
        rows.append(result.episodes)
        known.append(told.pop("trained_on", 0) if entry.model.run is not None else None)
    match = match_on(*rows)
    print_match(match, config.a, config.b)
    answer: dict[str, Any] = {"model_a": config.a, "model_b": config.b, **match.to_table()}
    answer |= {"trained_on": dict(zip("ab", known, strict=True)), **told}
    answer |= {"tracks": list(dict.fromkeys(row.track for row in rows[0] if row.track))}
    answer |= {"episodes": config.episodes, "seed": a.asked.seed}
    if config.video is not None:
        answer["video"] = str(_film((a, b), config.video))
        print(f"film: {config.video}")
    return answer


@dataclass(frozen=True)
class Entry:
    """One of the two."""

    model: Model
    run: RunConfig
    asked: EvaluateConfig
    """The race in words of an evaluation."""


def _enter(model: Model | None, config: RaceConfig, device: str) -> Entry:
    if model is None:
        raise ValueError("nobody is scripted for CarRacing; race two models")
    if not is_carracing(model, config.task):
        zipped = "; if it is a zip of CarRacing, say --task carracing" if model.run is None else ""
        raise ValueError(
            f"{model.name} does not drive in CarRacing, and the other one does{zipped}"
        )
    run = run_of_zip(model, config.preset) if model.run is None else model.run
    asked = EvaluateConfig(
        model.name,
        track=config.track,
        episodes=config.episodes,
        seed=EvaluateConfig.seed if config.seed is None else config.seed,
        backend=config.backend,
        look=config.look,
    )
    return Entry(model, replace(run, device=device), asked)


def _refuse_what_roads_have(config: RaceConfig) -> None:
    usual = RaceConfig(config.a, config.b)
    for name in ("start", "reward", "seconds", "plot"):
        if getattr(config, name) != getattr(usual, name):
            raise ValueError(
                f"--{name} is for races on roads: CarRacing is driven from the line, for its own "
                "reward and time; leave it out"
            )
    if (tracks := len(expand(config.track))) > config.episodes:
        raise ValueError(
            f"{tracks} tracks need as many episodes, these are {config.episodes}; "
            f"write --episodes {tracks}"
        )


def _film(entries: tuple[Entry, Entry], path: Path) -> Path:
    """Both on the first track, side by side."""
    from hotlap.evaluation.carracing_race_film import Reel, film_side_by_side  # needs ffmpeg
    from hotlap.evaluation.race_film import COLOURS
    from hotlap.research.carracing_watching import show_episode

    reels, title = [], ""
    for entry, colour, letter in zip(entries, COLOURS, "AB", strict=True):
        settings, seed = judged_settings(entry.run, entry.asked), entry.asked.seed
        track = f"seed {seed}"
        if settings.backend != "envpool":  # which has tracks of its own
            settings = replace(settings, tracks=expand(settings.tracks)[:1])
            track = settings.tracks[0]
        reel = Reel(f"{letter} {'/'.join(Path(entry.model.name).parts[-2:])}", colour)
        run = replace(entry.run, settings=settings)
        reel.episode = show_episode(entry.model.driver(), run, seed, reel)
        reels.append(reel)
        title = f"{Path(track).name}, {settings.backend}, {settings.look}"
    return film_side_by_side(path, title, (reels[0], reels[1]))
