"""The least lap time that a track and a car allow.

A closed track is a flying lap; an open one starts from standstill. Solved limits are shipped and
read by `hotlap.sim.lap_records`, so only whoever changes a track or a car needs the solver:

    python -m hotlap.evaluation.lap_limit --all            solve and save every named track
    python -m hotlap.evaluation.lap_limit unseen           the same for the tracks kept apart
    python -m hotlap.evaluation.lap_limit warren --check   also halve the spacing and compare
    python -m hotlap.evaluation.lap_limit --all --drive    drive the saved lines in the simulator

Of generated tracks only the times are saved; to drive one, its line is solved anew.
"""

import argparse
from dataclasses import dataclass, replace

from hotlap.config.vehicles import VehicleConfig, find_vehicle
from hotlap.evaluation.driven_laps import drive_lines
from hotlap.evaluation.lap_programme import Solution, racing_line_of, solve_road
from hotlap.sim.lap_records import LapLimit, lap_limit, limit_time, save_lap_limit, save_lap_times
from hotlap.sim.racing_line import RacingLine, centre_time, sample_road, slower_line
from hotlap.sim.speed_profile import CarLimits, limits_of
from hotlap.sim.tracks import NAMES, find_track
from hotlap.sim.tracks.selection import ALL, chosen_tracks
from hotlap.sim.tracks.track import Track

LONG = 100.0
"""Length (m) from which nodes lie 0.2 m apart instead of 0.1: long tracks are wide and gentle."""
RESERVE = 0.97
"""Share of the grip that the reference driver plans with."""


@dataclass(frozen=True)
class LimitConfig:
    """How a lap limit is solved."""

    spacing: float | None = None
    """Distance between nodes along the reference line, m; None means 0.1, or 0.2 on long tracks."""
    margin: float = 1.0
    """Room left at both edges of the road, in half-widths of the car."""
    grip: float = 1.0
    """Multiplies the car's friction."""
    max_iterations: int = 1000
    """Interior point steps before the solver gives up."""

    def __post_init__(self) -> None:
        if self.spacing is not None and not self.spacing > 0:
            raise ValueError(f"spacing must be positive, got {self.spacing}")
        if not self.margin >= 0:
            raise ValueError(f"margin must not be negative, got {self.margin}")
        if not self.grip > 0:
            raise ValueError(f"grip must be positive, got {self.grip}")

    def spacing_on(self, track: Track) -> float:
        """Distance between nodes on `track`."""
        if self.spacing is not None:
            return self.spacing
        return 0.2 if track.length > LONG else 0.1


def solve_line(track: Track, limits: CarLimits, config: LimitConfig) -> tuple[Solution, RacingLine]:
    """Solve the minimum-time problem of `limits` on `track`.

    Raises:
        ImportError: CasADi is not installed.
        RuntimeError: IPOPT did not converge.
    """
    road = sample_road(track, config.spacing_on(track), config.margin * limits.half_width)
    solution = solve_road(road, limits, config.max_iterations)
    return solution, racing_line_of(solution, road)


def as_point(limits: CarLimits) -> CarLimits:
    """The same car as a point: tyres without slip, even axles, a body that turns at once."""
    return replace(limits, peak_slip=0.0, drive_bias=1.0, brake_bias=1.0, slip_rate=float("inf"))


def solve_record(
    track: Track, vehicle: str, config: LimitConfig | None = None
) -> tuple[LapLimit, Solution]:
    """Solve the limit of the car called `vehicle` on `track`, and the reference times beside it."""
    config = config or LimitConfig()
    limits = limits_of(find_vehicle(vehicle), config.grip)
    solution, line = solve_line(track, limits, config)
    point, _ = solve_line(track, as_point(limits), config)
    spacing = config.spacing_on(track)
    record = LapLimit(
        track=track.name,
        vehicle=vehicle,
        time=solution.time,
        point_time=point.time,
        centre_time=centre_time(track, limits),
        length=track.length,
        min_speed=float(line.speed.min()),
        max_speed=float(line.speed.max()),
        spacing=spacing,
        margin=config.margin,
        grip=config.grip,
        iterations=solution.iterations,
        seconds=solution.seconds,
        command=f"python -m hotlap.evaluation.lap_limit {track.name} --vehicle {vehicle} "
        f"--spacing {spacing:g} --margin {config.margin:g} --grip {config.grip:g}",
        line=line,
    )
    return record, solution


def drive_records(names: list[str], vehicle: str, reserve: float = RESERVE) -> dict[str, float]:
    """Time of the reference driver on each track by its solved line; nan where it went off."""
    car = find_vehicle(vehicle)
    tracks = [find_track(name) for name in names]
    laps = drive_lines(car, tracks, _driver_lines(tracks, car, vehicle, reserve))
    times = [lap.time if lap.stayed else float("nan") for lap in laps]
    return dict(zip(names, times, strict=True))


def _driver_lines(
    tracks: list[Track], car: VehicleConfig, vehicle: str, reserve: float
) -> list[RacingLine]:
    """Solved lines, slowed to leave the driver a reserve of grip."""
    limits = limits_of(car)
    lines = []
    for track in tracks:
        record = lap_limit(track.name, vehicle)
        line = solve_line(track, limits, LimitConfig())[1] if record is None else record.line
        lines.append(slower_line(track, line, limits, reserve))
    return lines


def main(words: list[str] | None = None) -> None:
    """Solve, check or drive lap limits from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hotlap.evaluation.lap_limit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tracks", nargs="*", help="tracks, ranges, or unseen")
    parser.add_argument("--all", action="store_true", help="every named track")
    parser.add_argument("--vehicle", default="donkey", help="whose limit")
    parser.add_argument("--spacing", type=float, help="distance between nodes, m")
    parser.add_argument("--margin", type=float, default=1.0, help="room at the edges, half-widths")
    parser.add_argument("--grip", type=float, default=1.0, help="multiplies the friction")
    parser.add_argument("--check", action="store_true", help="solve at half the spacing too")
    parser.add_argument("--drive", action="store_true", help="drive the saved lines")
    parser.add_argument("--dry-run", action="store_true", help="solve, but save nothing")
    words_read = parser.parse_args(words)
    names = list(chosen_tracks([ALL] if words_read.all else words_read.tracks))
    if not names:
        parser.error("name a track, or say --all")
    if words_read.drive:
        for name, seconds in drive_records(names, words_read.vehicle).items():
            limit = limit_time(name, words_read.vehicle)
            ratio = float("nan") if limit is None else seconds / limit
            print(f"{name:20} driven {seconds:8.3f} s, {ratio:.4f} of the limit", flush=True)
        return
    config = LimitConfig(words_read.spacing, words_read.margin, words_read.grip)
    for name in names:
        _solve_and_report(
            name, words_read.vehicle, config, words_read.check, not words_read.dry_run
        )


def _solve_and_report(
    name: str, vehicle: str, config: LimitConfig, check: bool, save: bool
) -> None:
    """Solve one track, print a line about it, and save it."""
    track = find_track(name)
    record, solution = solve_record(track, vehicle, config)
    text = (
        f"{name:20} {record.length:7.2f} m  centre {record.centre_time:7.3f} s"
        f"  limit {record.time:7.3f} s  point {record.point_time:7.3f} s"
        f"  {solution.iterations:3d} steps {solution.seconds:5.1f} s"
    )
    if check:
        half = replace(config, spacing=record.spacing / 2)
        finer, _ = solve_line(track, limits_of(find_vehicle(vehicle), config.grip), half)
        text += f"  at half the spacing {100 * (finer.time / record.time - 1):+.3f} %"
    print(text, flush=True)
    if save and name in NAMES:
        save_lap_limit(record)
    elif save:
        save_lap_times([record], vehicle)


if __name__ == "__main__":
    main()
