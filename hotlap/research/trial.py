"""One trial as a command on a folder: `python -m hotlap.research.trial FOLDER`.

Reads FOLDER/trial.json, trains in FOLDER/run and leaves FOLDER/result.json. Run again after it was
killed, it goes on from its last checkpoint; with its result there, it has nothing to do.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from hotlap.research.engines.job import promise_stacks, read_result, write_result

TRIAL = "trial.json"


def main(folder: Path) -> None:
    """Make the run that the folder asks for."""
    promise_stacks(folder)
    if read_result(folder) is not None:
        return
    table = json.loads((folder / TRIAL).read_text(encoding="utf-8"))
    write_result(folder, _told(_train(folder / "run", table)))


def _train(run: Path, table: dict[str, Any]) -> dict[str, Any]:
    from hotlap.config.training import TrainConfig
    from hotlap.research.commands import train
    from hotlap.research.space import apply
    from hotlap.store.manifest import DamagedFile

    if (run / "config.json").is_file():
        try:
            return train(TrainConfig(resume=run), helpers=False)
        except DamagedFile as error:
            print(f"{error}; nothing whole is left of the run, it begins anew", flush=True)
            shutil.rmtree(run)
    settings = table["settings"] | table["params"]
    settings |= {"seed": table["seed"], "save_dir": str(run)}
    return train(apply(TrainConfig, settings, TRIAL), helpers=False)


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "mean_reward": answer["mean_reward"],
        "std_reward": answer["std_reward"],
        "rewards": answer["rewards"],
        "lap_rate": answer["lap_rate"],
        "timesteps": answer["timesteps"],
        "seconds": answer["seconds"],
        "model": "run/model",
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
