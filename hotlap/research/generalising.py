"""Judging a driver on many tracks, over several sets of seeds."""

from dataclasses import replace
from pathlib import Path

from hotlap.config.judging import EvaluateConfig
from hotlap.config.runs import EvaluationConfig
from hotlap.evaluation.generalisation import Report, report_on, steps_for_a_lap
from hotlap.evaluation.judge import Drive, judge_drives, limits_on
from hotlap.evaluation.trajectory_plot import draw_drives
from hotlap.records import EpisodeResult
from hotlap.research.contestants import Contestant
from hotlap.research.worlds import AT_ONCE
from hotlap.sim.tracks import Track, find_track
from hotlap.sim.tracks.selection import chosen_tracks
from hotlap.tasks.devices import choose_device


def asks_for_report(config: EvaluateConfig) -> bool:
    """Whether an evaluation is one of tracks that were asked for, or of sets."""
    return config.sets > 0 or bool(config.track)


def generalise(
    contestant: Contestant, config: EvaluateConfig
) -> tuple[Report, dict[str, list[Drive]]]:
    """Judge every track in every set; the drives are kept by track where they will be drawn."""
    words = config.track or contestant.settings.tracks
    roads = {name: find_track(name) for name in chosen_tracks(words)}
    num_sets = max(1, config.sets)
    at_once = AT_ONCE[choose_device(config.device)[0].partition(":")[0]]
    each = config.episodes if config.sets else -(-config.episodes // len(roads))
    sets: list[list[EpisodeResult]] = [[] for _ in range(num_sets)]
    drives: dict[str, list[Drive]] = {name: [] for name in roads}
    allowed: dict[str, int] = {}
    for steps, names in _by_time(roads, contestant).items():
        allowed |= dict.fromkeys(names, steps)
        settings = replace(
            contestant.settings,
            tracks=names,
            start=config.start,
            max_steps=steps,
            reward=contestant.reward,
        )
        policy, make = contestant.enter(settings)
        for number, own in enumerate(sets):
            asked = EvaluationConfig(each * len(names), config.seed + number, config.start)
            keep = config.plot is not None
            result, driven = judge_drives(policy, make, names, asked, at_once, keep)
            own.extend(result.episodes)
            for drive in driven:
                drives[str(drive.episode.track)].append(drive)
            done = f"set {number + 1} of {num_sets}, {len(names)} tracks of {steps} steps"
            rate = "-" if result.lap_rate is None else f"{result.lap_rate:.0%}"
            print(f"{done}: lap rate {rate}", flush=True)
    limits = limits_on(roads, contestant.settings.vehicle)
    return report_on(sets, roads, contestant.trained_on, limits, allowed), drives


def draw_report(
    report: Report, drives: dict[str, list[Drive]], plot: Path, vehicle: str
) -> list[Path]:
    """A map per track, its crashes and their spots marked."""
    paths = []
    for name, own in drives.items():
        path, crashes = plot_of(plot, name, len(drives)), report.tracks[name].crashes
        paths.append(draw_drives(find_track(name), own, path, vehicle, crashes))
    return paths


def plot_of(plot: Path, track: str, count: int) -> Path:
    """Where the picture of one of `count` tracks goes."""
    if count == 1:
        return plot
    name = Path(track).stem if track.lower().endswith(".csv") else track.replace(":", "-")
    return plot.with_name(f"{plot.stem}-{name}.png")


def _by_time(roads: dict[str, Track], contestant: Contestant) -> dict[int, tuple[str, ...]]:
    """Tracks by the steps that a lap of them needs; most need no more than the usual."""
    usual, dt = contestant.settings.max_steps, contestant.settings.car.control_dt
    groups: dict[int, tuple[str, ...]] = {}
    for name, track in roads.items():
        steps = steps_for_a_lap(track, dt, usual)
        groups[steps] = (*groups.get(steps, ()), name)
    return groups
