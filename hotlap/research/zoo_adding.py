"""Putting a model into the zoo: what is needed to drive with it, and its evidence beside it."""

import io
import json
import shlex
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hotlap import __version__
from hotlap.config.zoo import ZooAddConfig
from hotlap.records import rename_intervals
from hotlap.research.contestants import words_before
from hotlap.research.models import find_bundle, open_model
from hotlap.research.twins import with_slow_copies, without_slow_copies, without_twins
from hotlap.research.zoo import (
    CHECKOUT,
    ENTRY,
    FIGURES,
    MODEL,
    README,
    Champion,
    by_groups,
    facts,
    percent,
    ratio,
    read_champion,
    score,
    zoo_folders,
)
from hotlap.store.atomic import replace_folder
from hotlap.store.bundle import Bundle, load_bundle, save_bundle
from hotlap.store.plain import pack_json

LARGEST = 6_000_000
"""Bytes that a champion may take, everything together."""
LEFT_OUT = ("episodes", "model", "plots", "video", "sets")
"""Parts of an evaluation that take room or are somebody's own, and are not told of."""
WORTH_HALVING = 1024
"""Numbers in a tensor below which halving saves nothing, and may harm a scale or a count."""
Tensors = dict[str, Tensor]


def add(config: ZooAddConfig) -> dict[str, Any]:
    """Put a model into the zoo, and say what is there now."""
    folder = zoo_home() / config.name
    if folder.exists() and not config.replace:
        raise ValueError(f"zoo:{config.name} is there already; --replace takes its place")
    evaluations = [read_evaluation(path) for path in config.evaluation]
    source = find_bundle(config.run)
    model = open_model(str(source))
    bundle = load_bundle(source, with_zip=True)
    bundle = _slim(bundle, model.policy.state_dict(), config.half)
    bundle = replace(bundle, config=bundle.config | {"before": words_before(model)})
    entry = {
        "format": 1, "hotlap": __version__, "name": config.name, "command": config.command,
        "about": config.about, "half": config.half,
    }  # fmt: skip

    def fill(new: Path) -> None:
        save_bundle(new / MODEL, bundle)
        (new / ENTRY).write_bytes(pack_json(entry, indent=2))
        for number, told in enumerate(evaluations, start=1):
            name = "evaluation.json" if number == 1 else f"evaluation-{number}.json"
            (new / name).write_bytes(pack_json(told))
        champion = read_champion(config.name, new)
        (new / README).write_text(readme(champion), encoding="utf-8")
        _refuse_large(champion, config.half)
        open_model(str(new))  # what cannot be driven with is not kept

    replace_folder(folder, fill)
    champion = read_champion(config.name, folder)
    answer = facts(champion)
    print(f"zoo:{config.name} in {folder}, {answer['bytes'] / 1e6:.2f} MB", flush=True)
    if not evaluations:
        how = (
            "--backend gymnasium --episodes 100 --seed 10000"
            if champion.is_scored
            else "--track all unseen"
        )
        print(
            f"nobody has judged it: hotlap evaluate zoo:{config.name} {how} --json, "
            "and add it again with --evaluation FILE --replace",
            flush=True,
        )
    return answer


def zoo_home() -> Path:
    """Where champions are added: HOTLAP_ZOO, or the zoo of a checkout."""
    first = zoo_folders()[0]
    if first != CHECKOUT or (CHECKOUT.parent / "pyproject.toml").is_file():
        return first
    raise ValueError("this hotlap is installed, not checked out; name a folder by HOTLAP_ZOO")


def read_evaluation(path: Path) -> dict[str, Any]:
    """What `hotlap evaluate --json` printed last, without what takes room."""
    try:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
        told = json.loads(lines[-1] if lines else "")
    except FileNotFoundError:
        raise ValueError(
            f"there is no {path}; write it by: hotlap evaluate --json > FILE"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} does not end with a line of JSON: {error}") from None
    if not isinstance(told, dict) or "mean_return" not in told:
        raise ValueError(f"{path} is not what hotlap evaluate --json prints")
    told = {name: value for name, value in rename_intervals(told).items() if name not in LEFT_OUT}
    rows = told.get("tracks", {})
    told["tracks"] = {
        name: {key: value for key, value in row.items() if key not in LEFT_OUT}
        for name, row in rows.items()
    }
    return told


def _refuse_large(champion: Champion, half: bool) -> None:
    if champion.size <= LARGEST:
        return
    sizes = {p.name: p.stat().st_size for p in (champion.folder / MODEL).iterdir()}
    parts = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sorted(sizes.items()))
    remedy = "train a smaller net" if half else "try --half, or train a smaller net"
    raise ValueError(
        f"a champion may take {LARGEST / 1e6:g} MB, this one takes {champion.size / 1e6:.1f} MB "
        f"({parts}); {remedy} (such as --ppo.encoder small, or fewer --ppo.features)"
    )


# --- only what is needed -------------------------------------------------------------------------


def _slim(bundle: Bundle, own: Tensors, half: bool) -> Bundle:
    """The bundle without what only training needs; `own` are the tensors of its policy."""
    change: Callable[[Tensors], Tensors] = halved if half else dict
    run, judged = bundle.config["run"], bundle.evaluation
    if "teacher" in run["agent"]:  # a folder of whoever trained it
        run = run | {"agent": run["agent"] | {"teacher": None}}
    return replace(
        bundle,
        config=bundle.config | {"run": run},
        evaluation=None if judged is None else rename_intervals(judged),
        weights=change({n: bundle.weights[n] for n in without_slow_copies(without_twins(own))}),
        model_zip=None if bundle.model_zip is None else slim_zip(bundle.model_zip, change),
    )


def slim_zip(zipped: bytes, change: Callable[[Tensors], Tensors] = dict) -> bytes:
    """A Stable-Baselines3 zip without the state of its optimisers, which stock SB3 still loads.

    Slow copies of nets hold what these hold.

    It wants an entry for each optimiser; one that has not stepped yet holds only its settings.
    """
    slim = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(zipped)) as old,
        zipfile.ZipFile(slim, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("optimizer.pth"):
                data = _saved({**_tensors(data), "state": {}})
            elif name == "policy.pth":
                tensors = _tensors(data)  # slow copies have caught up, and are written once
                data = _saved(change(with_slow_copies(without_slow_copies(tensors), tensors)))
            new.writestr(name, data)
    return slim.getvalue()


def halved(tensors: Tensors) -> Tensors:
    """The tensors as 16-bit numbers, but for small ones; those that share memory still do."""
    seen: dict[tuple[int, tuple[int, ...]], Tensor] = {}
    changed = {}
    for name, tensor in tensors.items():
        place = (tensor.data_ptr(), tuple(tensor.shape))
        if place not in seen:
            large = tensor.dtype == torch.float32 and tensor.numel() >= WORTH_HALVING
            # A view of all weights in one piece would be saved with all of that piece.
            seen[place] = tensor.to(torch.float16) if large else tensor.clone()
        if not bool(torch.isfinite(seen[place]).all()):
            raise ValueError(f"{name} is too large for 16-bit numbers; leave --half out")
        changed[name] = seen[place]
    return changed


def _tensors(data: bytes) -> dict[str, Any]:
    """What a .pth file holds; nothing in it is run."""
    loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return dict(loaded)


def _saved(value: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


# --- to read -------------------------------------------------------------------------------------


def _same_settings(champion: Champion) -> str:
    """Words for `hotlap train` that make the net a champion has: its recipe, or its task alone."""
    words = (champion.entry.get("command") or "").split()
    if "--recipe" in words[:-1]:
        return f"--recipe {words[words.index('--recipe') + 1]}"
    return champion.run.task


def readme(champion: Champion) -> str:
    """The page of a champion."""
    run, entry = champion.run, champion.entry
    rows = facts(champion)
    lines = [f"# zoo:{champion.name}", ""]
    if entry.get("about"):
        lines += [entry["about"], ""]
    lines += [
        "| | |",
        "|---|---|",
        f"| task | {run.task} |",
        f"| agent | {run.agent_name}, seed {run.seed}, {run.timesteps:,} steps |",
        f"| sees | {rows['sees']} |",
        f"| trained on | {', '.join(rows['trained_on']) or '-'} |",
        f"| begins with | {run.init_from or 'nothing'} |",
        "",
        "Trained by",
        "",
        f"    {entry.get('command') or 'a command that was not written down'}",
        "",
        f"Drive with it: `hotlap evaluate zoo:{champion.name}`, `hotlap watch zoo:{champion.name} "
        f"--video lap.mp4`, or go on training: `hotlap train {_same_settings(champion)} "
        f"--init-from zoo:{champion.name}`.",
    ]
    lines_of = _score_lines if champion.is_scored else _evaluation_lines
    for told in champion.evaluations:
        lines += ["", *lines_of(champion.name, told)]
    return "\n".join(lines) + "\n"


def _evaluation_lines(name: str, told: dict[str, Any]) -> list[str]:
    heads = ("lap rate", "laps finished", "lap / limit", "flying lap / limit", "over edge")
    lines = [f"Judged by `{_command(name, told)}`, {told.get('count', '?')} episodes:", ""]
    lines += [f"| | tracks | {' | '.join(heads)} |", f"|---|{'---|' * (len(heads) + 1)}"]
    groups = by_groups(told)
    together = {"tracks": len(told.get("tracks", {}))} | {name: told.get(name) for name in FIGURES}
    for group, row in {**groups, "together": together}.items():
        lines.append(f"| {group} | {row['tracks']} | {_cells(row)} |")
    if told.get("tracks"):
        lines += ["", f"| track | trained | {' | '.join(heads)} | crashes |"]
        lines += [f"|---|---|{'---|' * (len(heads) + 1)}"]
    marks = {True: "yes", False: "no", None: "-"}
    for track, row in told.get("tracks", {}).items():
        crashes = (row.get("crashes") or {}).get("count", "-")
        lines.append(f"| {track} | {marks[row.get('trained')]} | {_cells(row)} | {crashes} |")
    return lines


def _score_lines(name: str, told: dict[str, Any]) -> list[str]:
    """An evaluation whose tracks are all alike, and whose score counts."""
    rows = {
        "driven in": told.get("environment") or told.get("backend") or "-",
        "look": told.get("look") or "-",
        "mean score, and where the mean lies (95 %)": score(told) or "-",
        "spread": f"{told['std_return']:.1f}" if "std_return" in told else "-",
        "mean of the middle half": f"{told['iqm']:.1f}" if "iqm" in told else "-",
        "whole laps": percent(told.get("lap_rate")),
    }
    lines = [f"Judged by `{_command(name, told)}`, {told.get('count', '?')} episodes:", ""]
    return [*lines, "| | |", "|---|---|", *(f"| {what} | {told} |" for what, told in rows.items())]


def _cells(row: dict[str, Any]) -> str:
    write = {"mean_lap_ratio": ratio, "flying_lap_ratio": ratio}
    return " | ".join(write.get(figure, percent)(row.get(figure)) for figure in FIGURES)


def _command(name: str, told: dict[str, Any]) -> str:
    """The words that judged it, as far as the answer tells them."""
    words = ["hotlap", "evaluate", f"zoo:{name}"]
    for flag, value in told.get("asked", {}).items():
        values = value if isinstance(value, list) else [] if value is True else [value]
        words += [f"--{flag.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)
