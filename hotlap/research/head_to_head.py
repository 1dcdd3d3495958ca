"""What `hotlap race A B` does: two drivers in the same episodes, with the same car.

Track, start, seed, time, reward and the road's limits are the same for both, and nothing is
randomised; how a driver sees and how far it may press the throttle are its own. Models of CarRacing
are raced by `carracing_race`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hotlap.config.racing import RaceConfig
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.runs import EvaluationConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.evaluation.generalisation import steps_for_a_lap
from hotlap.evaluation.judge import HELD_OUT, Drive, judge_drives, limits_on
from hotlap.evaluation.lap_plot import draw_laps
from hotlap.evaluation.lap_traces import Trace, best_trace, fast_trace
from hotlap.evaluation.race_table import print_race
from hotlap.evaluation.racing import race_on
from hotlap.records import EpisodeResult, EvalResult
from hotlap.research.carracing_race import is_carracing, race_cars
from hotlap.research.contestants import SCRIPTED, Contestant, contestant_of, scripted
from hotlap.research.generalising import plot_of
from hotlap.research.models import Model, open_model
from hotlap.sim.tracks import Track, find_track
from hotlap.sim.tracks.selection import chosen_tracks
from hotlap.tasks.devices import choose_device

Pair = tuple[Contestant, Contestant]
USUAL_TRACK = ("generated_track",)
FIRST_SEED = 30_000
"""Where nothing is said of tracks or seeds."""


def race(config: RaceConfig) -> dict[str, Any]:
    """Race two drivers, and say who is faster."""
    torch.set_num_threads(1)
    device, excuse = choose_device(config.device)
    if excuse:
        print(excuse, flush=True)
    models = [
        None if name.startswith(SCRIPTED) else open_model(name, device, config.trust)
        for name in (config.a, config.b)
    ]
    if config.preset is not None and all(m is None or m.run is not None for m in models):
        raise ValueError("--preset is for zips; leave it out")
    if any(model is not None and is_carracing(model, config.task) for model in models):
        return race_cars(config, models, device)
    if config.backend is not None or config.look is not None:
        raise ValueError(
            "--backend and --look are for models of CarRacing; leave them out, or for zips of it "
            "say --task carracing"
        )
    config = replace(config, seed=FIRST_SEED if config.seed is None else config.seed)
    roads = {name: find_track(name) for name in chosen_tracks(config.track or USUAL_TRACK)}
    pair = _pair_of(models, config, device)
    dt = pair[0].settings.car.control_dt
    least = max(1, round(config.seconds / dt))
    steps = {name: steps_for_a_lap(track, dt, least) for name, track in roads.items()}
    rows: list[dict[str, list[EpisodeResult]]] = [{}, {}]
    laps: dict[str, dict[str, Trace]] = {name: {} for name in roads}
    for contestant, own, letter in zip(pair, rows, "AB", strict=True):
        for name, track in roads.items():
            result, drives = _drive(contestant, name, steps[name], config)
            own[name] = list(result.episodes)
            best = best_trace(drives, track, contestant.settings.car.width, dt)
            if best is not None:
                laps[name][f"{letter} {_short(contestant)}"] = best
    seconds = {name: count * dt for name, count in steps.items()}
    result = race_on(rows[0], rows[1], seconds, limits_on(roads, pair[0].settings.vehicle))
    print_race(result, config.a, config.b)
    names = {"model_a": config.a, "model_b": config.b, "episodes": config.episodes}
    answer = names | {"seed": config.seed, "reward": config.reward, **result.to_table()}
    if config.video is not None:
        first = next(iter(roads))
        answer["video"] = str(_film(pair, roads[first], first, steps[first], config, config.video))
        print(f"film: {config.video}")
    if config.plot is not None:
        answer["plots"] = _draw(roads, laps, pair[0].settings.vehicle, config.plot)
    return answer


def _pair_of(models: list[Model | None], config: RaceConfig, device: str) -> Pair:
    a, b = (
        scripted(name)
        if model is None
        else contestant_of(model, device, task=config.task, preset=config.preset)
        for name, model in zip((config.a, config.b), models, strict=True)
    )
    if a.settings.vehicle != b.settings.vehicle:
        raise ValueError(
            f"{a.name} drives the car {a.settings.vehicle!r} and {b.name} {b.settings.vehicle!r}; "
            "race two drivers of the same car"
        )
    return a, b


def _drive(
    contestant: Contestant, track: str, steps: int, config: RaceConfig
) -> tuple[EvalResult, list[Drive]]:
    settings = _settings(contestant, track, steps, config)
    policy, make = contestant.enter(settings)
    assert config.seed is not None
    asked = EvaluationConfig(config.episodes, config.seed, config.start)
    return judge_drives(policy, make, (track,), asked, keep=config.plot is not None)


def _settings(contestant: Contestant, track: str, steps: int, config: RaceConfig) -> DonkeyConfig:
    """A driver's own eyes and pedals in the world that both share."""
    return replace(
        contestant.settings,
        tracks=(track,),
        start=config.start,
        max_steps=steps,
        max_cte=DonkeyConfig.max_cte,
        end=DonkeyConfig.end,
        reward=config.reward,
        randomise=RandomisationConfig(),
    )


def _film(pair: Pair, track: Track, name: str, steps: int, config: RaceConfig, path: Path) -> Path:
    from hotlap.evaluation.race_film import COLOURS, Racer, film_race  # needs ffmpeg, races do not

    assert config.seed is not None
    racers = []
    for contestant, colour, letter in zip(pair, COLOURS, "AB", strict=True):
        settings = replace(_settings(contestant, name, steps, config), start="line")
        policy, make = contestant.enter(settings)
        env = make(1, torch.zeros(1, dtype=torch.int64), HELD_OUT + config.seed)
        racers.append(Racer(f"{letter} {_short(contestant)}", policy, env, colour))
    return film_race(path, track, (racers[0], racers[1]))


def _draw(
    roads: dict[str, Track], laps: dict[str, dict[str, Trace]], vehicle: str, plot: Path
) -> list[str]:
    """A picture for each track on which one of them drove a lap from line to line."""
    paths = []
    for name, track in roads.items():
        if laps[name]:
            limit, is_least = fast_trace(track, vehicle)
            path = plot_of(plot, name, len(roads))
            paths.append(str(draw_laps(track, laps[name], limit, is_least, path)))
            print(f"plot: {path}")
        else:
            print(f"plot: none of {name}, where nobody drove a whole lap from line to line")
    return paths


def _short(contestant: Contestant) -> str:
    return "/".join(Path(contestant.name).parts[-2:])
