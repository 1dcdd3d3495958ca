"""The champion on disk, at a path that stays: its model, and a manifest that says what it is.

champion/manifest.json   trial, timestamp, params, mean_reward, model_path, and what is claimed
champion/model/          the model, a bundle; opens and drives without training
"""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

from hotlap.research.race import gather
from hotlap.research.study import Study
from hotlap.store.atomic import read_folder, replace_folder

FOLDER, MANIFEST, MODEL = "champion", "manifest.json", "model"


def save_champion(study: Study, folder: Path) -> bool:
    """Put the champion in its place if it changed; whether it has.

    The title is the configuration's; the model is that of its best run.
    """
    if study.champion is None:
        return False
    claim = study.claim()
    runs = gather(study.runs)[study.champion].runs
    best = max((r for r in runs if r.score is not None), key=lambda run: (run.score, -run.trial))
    record = next(r for r in study.book.records("trial") if r["trial"] == best.trial)
    manifest = {
        "trial": best.trial,
        "timestamp": record["timestamp"],
        "params": best.params,
        "config": study.champion,
        "seed": best.seed,
        "mean_reward": best.score,
        "model_path": record["model_path"],
        "claimed": None if claim is None else claim.mean,
        "interval": None if claim is None else list(claim.interval()),
        "fresh_seeds": None if claim is None else claim.runs,
    }
    with contextlib.suppress(ValueError):  # a damaged one is written anew
        if read_champion(folder) == manifest:
            return False

    def fill(new: Path) -> None:
        if record["model_path"] is not None and (folder / record["model_path"]).is_dir():
            model = folder / record["model_path"]
            shutil.copytree(model, new / MODEL, ignore_dangling_symlinks=True)
        (new / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")

    replace_folder(folder / FOLDER, fill)
    return True


def read_champion(folder: Path) -> dict[str, Any] | None:
    """The manifest of a study's champion; None where there is none yet."""

    def read(path: Path) -> dict[str, Any] | None:
        try:
            table = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            table = error
        if not isinstance(table, dict):
            raise ValueError(
                f"{path / MANIFEST} is damaged ({table!s:.60}); the study writes it anew when its "
                "command is given again"
            )
        return table

    return read_folder(folder / FOLDER, read)


def find_study(name: str | None, root: Path) -> Path:
    """The folder of a study: by its name, its path, or whichever changed last."""
    if name is not None:
        for folder in (Path(name), root / name):
            if (folder / "ledger.jsonl").is_file():
                return folder
        raise ValueError(f"no study at {name} or {root / name}: expected a ledger.jsonl there")
    found = sorted(root.glob("*/ledger.jsonl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ValueError(f"there is no study under {root} yet; begin one with: hotlap research")
    return found[-1].parent
