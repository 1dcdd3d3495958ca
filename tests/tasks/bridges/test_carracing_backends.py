"""What the real CarRacing can be driven in, and what is said where it is missing."""

import subprocess
import sys

import pytest

from hotlap.config.carracing import CarRacingConfig

pytest.importorskip("Box2D")
from hotlap.tasks.bridges.carracing_backends import version_line
from hotlap.tasks.bridges.carracing_env import CarRacingEnv


def test_the_version_line_names_what_was_driven_in() -> None:
    import Box2D
    import gymnasium

    assert gymnasium.__version__ in version_line()
    assert Box2D.__version__ in version_line()
    assert CarRacingEnv(CarRacingConfig(backend="gymnasium")).version_line == version_line()


@pytest.mark.parametrize(
    ("module", "backend", "advice"),
    [
        ("Box2D", "gymnasium", "pip install 'hotlap[carracing]'"),
        ("envpool", "envpool", "pip install 'hotlap[envpool]'"),
    ],
)
def test_what_is_missing_is_told_when_it_is_needed(module: str, backend: str, advice: str) -> None:
    script = f"""
import sys
sys.modules[{module!r}] = None
from hotlap.config.carracing import CarRacingConfig
from hotlap.tasks.bridges.carracing_env import CarRacingEnv
assert "torch" not in sys.modules
try:
    CarRacingEnv(CarRacingConfig(backend={backend!r}))
except ImportError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert advice in told.stdout


def test_the_twin_is_not_driven_here() -> None:
    with pytest.raises(ValueError, match="twin"):
        CarRacingEnv(CarRacingConfig(backend="twin"))
