"""The zoo: trained champions that come along, each in a folder of its own.

    zoo/NAME/model/           the bundle: weights, settings, checksums, and the zip for SB3
    zoo/NAME/entry.json       what it is called, and the command that trained it
    zoo/NAME/evaluation.json  what `hotlap evaluate --json` said of it, without the episodes
    zoo/NAME/README.md        the same, to read

Looked for where the environment variable HOTLAP_ZOO says, then in the checkout, then beside the
installed package; a name that is in several is the first.
"""

import difflib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hotlap.config.carracing import CarRacingConfig
from hotlap.config.presets import from_table
from hotlap.config.runs import RunConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.config.zoo import ZooConfig, refuse_name
from hotlap.records import rename_intervals
from hotlap.research.worlds import track_words
from hotlap.sim.tracks.named import NAMES
from hotlap.sim.tracks.selection import UNSEEN, chosen_tracks
from hotlap.store.manifest import check
from hotlap.store.plain import DamagedFile, unpack_json

VARIABLE = "HOTLAP_ZOO"
PACKAGE = Path(__file__).parent.parent
CHECKOUT, INSTALLED = PACKAGE.parent / "zoo", PACKAGE / "zoo"
PREFIX = "zoo:"
MODEL, ENTRY, README = "model", "entry.json", "README.md"
EVALUATIONS = "evaluation*.json"
GROUPS = {"scenes": frozenset(NAMES), UNSEEN: frozenset(chosen_tracks([UNSEEN]))}
"""Tracks that are told of together; what is in neither is `others`."""
FIGURES = ("lap_rate", "laps_finished", "mean_lap_ratio", "flying_lap_ratio", "over_edge")


@dataclass(frozen=True)
class Champion:
    """One of the zoo."""

    name: str
    folder: Path
    run: RunConfig
    """How it was trained."""
    entry: dict[str, Any]
    """What whoever added it said of it."""
    evaluations: tuple[dict[str, Any], ...]
    """What the judge said of it."""

    @property
    def size(self) -> int:
        """Bytes of everything."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    @property
    def trained_on(self) -> list[str]:
        """Words for the tracks it was trained on, those of the models it began with included."""
        return list(dict.fromkeys([*track_words(self.run), *self.entry.get("before", [])]))

    @property
    def is_scored(self) -> bool:
        """Whether a score is what counts, and not laps: CarRacing's own, from tile to tile."""
        return isinstance(self.run.settings, CarRacingConfig)


def zoo_folders() -> list[Path]:
    """Where champions are looked for, first things first."""
    named = os.environ.get(VARIABLE)
    return [*([Path(named)] if named else []), CHECKOUT, INSTALLED]


def zoo_names() -> dict[str, Path]:
    """Folders of the champions by their names."""
    found: dict[str, Path] = {}
    for zoo in zoo_folders():
        for folder in sorted(zoo.iterdir()) if zoo.is_dir() else []:
            if (folder / MODEL).is_dir() and not folder.name.startswith("."):
                found.setdefault(folder.name, folder)
    return dict(sorted(found.items()))


def zoo_folder(name: str) -> Path:
    """The folder of a champion."""
    refuse_name(name)
    names = zoo_names()
    if name in names:
        return names[name]
    near = difflib.get_close_matches(name, names, n=len(names) or 1, cutoff=0.4)
    there = dict.fromkeys([*near, *names])
    raise ValueError(f"there is no zoo:{name}; the zoo has {', '.join(there) or 'nothing yet'}")


def read_champion(name: str, folder: Path) -> Champion:
    """What is known of a champion, once its bundle is known to be what was written."""
    check(folder / MODEL)
    config = _read(folder / MODEL / "config.json")
    run = from_table(RunConfig, config["run"], str(folder / MODEL))
    entry = _read(folder / ENTRY) if (folder / ENTRY).is_file() else {}
    files = sorted(folder.glob(EVALUATIONS), key=lambda path: (len(path.name), path.name))
    told = tuple(rename_intervals(_read(path)) for path in files)
    return Champion(name, folder, run, {"before": config.get("before", []), **entry}, told)


def _read(path: Path) -> dict[str, Any]:
    return unpack_json(path.read_bytes(), path)


# --- telling -------------------------------------------------------------------------------------


def zoo(config: ZooConfig) -> dict[str, Any]:
    """List the champions, or tell of one."""
    if config.name is not None:
        return _show(config.name.removeprefix(PREFIX))
    rows = [_row(name, folder) for name, folder in zoo_names().items()]
    if rows:
        _print_rows(rows)
    else:
        looked = ", ".join(str(folder) for folder in zoo_folders())
        print(f"the zoo is empty: nothing in {looked}", flush=True)
    return {"champions": rows}


def _row(name: str, folder: Path) -> dict[str, Any]:
    try:
        return facts(read_champion(name, folder))
    except (DamagedFile, ValueError, KeyError, OSError) as error:
        return {"name": name, "folder": str(folder), "damaged": str(error)}


def facts(champion: Champion) -> dict[str, Any]:
    """What the list says of a champion."""
    run, told = champion.run, champion.evaluations[0] if champion.evaluations else {}
    return {
        "name": champion.name,
        "task": run.task,
        "agent": run.agent_name,
        "sees": sight(run),
        "trained_on": champion.trained_on,
        "timesteps": run.timesteps,
        **{figure: told.get(figure) for figure in FIGURES},
        "score": score(told) if champion.is_scored else None,
        "bytes": champion.size,
        "folder": str(champion.folder),
        "about": champion.entry.get("about"),
    }


def sight(run: RunConfig) -> str:
    """What a policy sees, in a few words."""
    settings = run.settings
    if isinstance(settings, CarRacingConfig):
        height, width, channels = settings.shape
        seen = f"{width}x{height} {'gray' if channels == 1 else 'colour'}, {settings.view}"
    elif not isinstance(settings, DonkeyConfig):
        return run.task
    elif settings.sensor == "camera":
        camera = settings.camera
        seen = f"{camera.width}x{camera.height} {'colour' if camera.colour else 'gray'} camera"
    elif settings.sensor == "lidar":
        seen = f"lidar of {settings.lidar.beams} beams"
    else:
        seen = settings.sensor
    stack, every = run.interface.stack, run.interface.stack_every
    apart = "" if every == 1 else f", {every} steps apart"
    return seen if stack == 1 else f"{seen}, the last {stack}{apart}"


def by_groups(evaluation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Figures of an evaluation by groups of tracks: the mean over those that have one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, row in evaluation.get("tracks", {}).items():
        group = next((word for word, names in GROUPS.items() if name in names), "others")
        groups.setdefault(group, []).append(row)
    return {
        group: {"tracks": len(rows)} | {figure: _mean(rows, figure) for figure in FIGURES}
        for group, rows in groups.items()
    }


def _mean(rows: list[dict[str, Any]], figure: str) -> float | None:
    known = [row[figure] for row in rows if row.get(figure) is not None]
    return sum(known) / len(known) if known else None


def _show(name: str) -> dict[str, Any]:
    champion = read_champion(name, zoo_folder(name))
    answer = facts(champion) | {
        "command": champion.entry.get("command"),
        "seed": champion.run.seed,
        "files": {
            str(path.relative_to(champion.folder)): path.stat().st_size
            for path in sorted(champion.folder.rglob("*"))
            if path.is_file()
        },
        "groups": [by_groups(told) for told in champion.evaluations],
    }
    readme = champion.folder / README
    if readme.is_file():
        print(readme.read_text(encoding="utf-8"))
    else:
        print(json.dumps(answer, indent=2))
    print(f"in {champion.folder}; drive with it: hotlap evaluate zoo:{name}", flush=True)
    return answer


def _print_rows(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("name", "task", "agent", "sees", "trained on"):
        table.add_column(title, no_wrap=title == "name")
    for title in ("lap rate", "laps", "x limit", "score", "size"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        if "damaged" in row:
            table.add_row(row["name"], "damaged:", "", row["damaged"])
            continue
        table.add_row(
            row["name"], row["task"], row["agent"], row["sees"], ", ".join(row["trained_on"]),
            percent(row["lap_rate"]), percent(row["laps_finished"]), ratio(row["mean_lap_ratio"]),
            row["score"] or "-",
            f"{row['bytes'] / 1e6:.2f} MB",
        )  # fmt: skip
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)


def score(told: dict[str, Any]) -> str | None:
    """The mean return of an evaluation and where it lies, to read."""
    if told.get("mean_return") is None:
        return None
    ends = told.get("interval")
    within = "" if ends is None else f" ({ends[0]:.1f} to {ends[1]:.1f})"
    return f"{told['mean_return']:.1f}{within}"


def percent(value: float | None) -> str:
    """A share, to read."""
    return "-" if value is None else f"{value:.1%}"


def ratio(value: float | None) -> str:
    """A lap time over the least possible, to read."""
    return "-" if value is None else f"{value:.3f}"
