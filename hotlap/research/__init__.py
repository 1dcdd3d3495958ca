"""Research: propose, try, judge and remember, for `hotlap research` and for functions of your own.

A study needs a space and a function of params and a seed that gives a score, larger being better:

    import math

    from hotlap.research import StudyConfig, make_space, optimise

    space = make_space({
        "method": {"choices": ["plain", "careful"]},
        "rate": {"low": 1e-4, "high": 1e-1, "log": True},
        "patience": {"low": 1, "high": 9, "when": {"method": "careful"}},    # whole numbers
    })

    def objective(params, seed):
        luck = math.sin(1000 * seed + 7 * math.log(params["rate"]))
        bonus = 0.05 * params.get("patience", 0)
        return bonus - (math.log10(params["rate"]) + 2) ** 2 + 0.2 * luck

    result = optimise(objective, space, StudyConfig(trials=24, test_runs=3))
    print(result.champion)    # the configuration that holds the title
    print(result.claimed)     # its mean score, by runs on seeds that did not nominate it
    print(result.optimism)    # how much more that is than untouched seeds give

With `folder=` the study is kept on disk, and the same call goes on with it after a crash. With
`earlier=` it begins with what is known, from `read_earlier` or as `Seen`.

What was recorded is studied without a function: params, each with its score for every seed, None
where a run failed. Some seeds are kept for the last test:

    from hotlap.research import optimise_table

    recorded = []
    for tenths in range(-40, -9):
        params = {"method": "plain", "rate": 10 ** (tenths / 10)}
        recorded.append((params, [objective(params, seed) for seed in range(10)]))

    found = optimise_table(space, recorded, StudyConfig(trials=40))
    print(found.champion)     # as it stands in the table
    print(found.claimed, found.interval, found.tested)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.config.study import RaceConfig, SeedLists, StopConfig, StudyConfig
    from hotlap.research.earlier import read_earlier
    from hotlap.research.optimiser import StudyResult, optimise, optimise_table
    from hotlap.research.proposer import Seen
    from hotlap.research.space import identity, load_space, make_space

__all__ = [
    "RaceConfig",
    "SeedLists",
    "Seen",
    "StopConfig",
    "StudyConfig",
    "StudyResult",
    "identity",
    "load_space",
    "make_space",
    "optimise",
    "optimise_table",
    "read_earlier",
]

_HOMES = {
    "RaceConfig": "hotlap.config.study",
    "SeedLists": "hotlap.config.study",
    "Seen": "hotlap.research.proposer",
    "StopConfig": "hotlap.config.study",
    "StudyConfig": "hotlap.config.study",
    "StudyResult": "hotlap.research.optimiser",
    "identity": "hotlap.research.space",
    "load_space": "hotlap.research.space",
    "make_space": "hotlap.research.space",
    "optimise": "hotlap.research.optimiser",
    "optimise_table": "hotlap.research.optimiser",
    "read_earlier": "hotlap.research.earlier",
}


def __getattr__(name: str) -> Any:
    """Fetch a name when it is first used: a trial's process needs none of them, nor SciPy."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
