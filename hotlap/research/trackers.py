"""Experiment trackers that people already use; each needs its own package, and none is needed."""

import importlib
from pathlib import Path
from typing import Any

PROJECT = "hotlap"


class Trackers:
    """Reports numbers to every tracker asked for.

    Args:
        names: wandb, trackio or mlflow.
        run: The run's name.
        config: Its settings.
        folder: Where what they write locally goes.
    """

    def __init__(
        self, names: tuple[str, ...], run: str, config: dict[str, Any], folder: Path
    ) -> None:
        self._log: list[Any] = []
        self._finish: list[Any] = []
        for name in names:
            try:
                module = importlib.import_module(name)
            except ImportError:
                raise ValueError(
                    f"tracker {name} is not installed; try: pip install 'hotlap[trackers]'"
                ) from None
            if name == "mlflow":
                module.set_tracking_uri(f"sqlite:///{folder.absolute() / 'mlflow.db'}")
                module.set_experiment(PROJECT)
                module.start_run(run_name=run)
                module.log_params({"config": str(config)[:500]})
                self._log.append(lambda row, step, m=module: m.log_metrics(row, step=step))
                self._finish.append(module.end_run)
            else:
                more = {"dir": str(folder)} if name == "wandb" else {}
                module.init(project=PROJECT, name=run, config=config, **more)
                self._log.append(lambda row, step, m=module: m.log(row, step=step))
                self._finish.append(module.finish)

    def log(self, row: dict[str, float], step: int) -> None:
        """Report numbers at a step."""
        for log in self._log:
            log(row, step)

    def finish(self) -> None:
        """Say that it is over."""
        for finish in self._finish:
            finish()
