"""What the last test, on seeds that nothing has touched, says of what was claimed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hotlap.evaluation.statistics import interquartile_mean, mean_interval
from hotlap.research.race import Estimate, RunSeen, gather


def tested(
    runs: Sequence[RunSeen],
    claims: Mapping[str, Estimate | None],
    worst: float,
    champion: str | None,
    seed: int,
) -> list[dict[str, Any]]:
    """A row for each finalist, the champion first.

    Args:
        runs: The runs of the last test.
        claims: What was claimed of each configuration before it.
        worst: What a run without a score counts as.
        champion: Who holds the title.
        seed: Of the interval's resampling.
    """
    rows: list[dict[str, Any]] = []
    for name, entrant in gather(runs).items():
        scores = [worst if run.score is None else run.score for run in entrant.runs]
        claimed, mean = claims[name], float(np.mean(scores))
        low, high = None, None
        if len(scores) > 1:  # one seed alone says nothing about others
            low, high = mean_interval([scores], seed)
        rows.append(
            {
                "config": name,
                "params": entrant.params,
                "champion": name == champion,
                "claimed": None if claimed is None else claimed.mean,
                "tested": mean,
                "iqm": float(interquartile_mean(np.array(scores))),
                "low": low,
                "high": high,
                "runs": len(scores),
                "optimism": None if claimed is None else claimed.mean - mean,
            }
        )
    return sorted(rows, key=lambda row: (not row["champion"], -row["tested"]))
