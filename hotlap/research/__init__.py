"""Research: propose, try, judge and remember, for `hotlap research` and for functions of your own.

A study needs a space and a function of params and a seed that gives a score, larger being better:

    import math

    from hotlap.research import StudyConfig, make_space, optimise

    space = make_space({
        "method": {"choices": ["plain", "careful"]},
        "rate": {"low": 1e-4, "high": 1e-1, "log": True},
        "patience": {"low": 1, "high": 9, "when": {"method": "careful"}},
    })

    def objective(params, seed):
        luck = math.sin(1000 * seed + 7 * math.log(params["rate"]))
        bonus = 0.05 * params.get("patience", 0)
        return bonus - (math.log10(params["rate"]) + 2) ** 2 + 0.2 * luck

    result = optimise(objective, space, StudyConfig(trials=24, test_runs=3))
    print(result.champion)    # the configuration that holds the title
    print(result.claimed)     # its mean score, by runs on seeds that did not nominate it
    print(result.optimism)    # how much more that is than untouched seeds give

With `folder=` the study is kept on disk, and the same call goes on with it after a crash.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.config.study import StudyConfig
    from hotlap.research.optimiser import StudyResult, optimise
    from hotlap.research.space import load_space, make_space

__all__ = ["StudyConfig", "StudyResult", "load_space", "make_space", "optimise"]

_HOMES = {
    "StudyConfig": "hotlap.config.study",
    "StudyResult": "hotlap.research.optimiser",
    "load_space": "hotlap.research.space",
    "make_space": "hotlap.research.space",
    "optimise": "hotlap.research.optimiser",
}


def __getattr__(name: str) -> Any:
    """Fetch a name when it is first used: a trial's process needs none of them, nor SciPy."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
