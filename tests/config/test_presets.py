import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from hotlap.config.commands import BenchSimConfig, TracksConfig, WatchConfig
from hotlap.config.presets import dump_json, from_table, load_json, load_preset


@dataclass(frozen=True)
class Ppo:
    clip: float = 0.2
    epochs: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.clip < 1:
            raise ValueError(f"clip must lie between 0 and 1, got {self.clip}")


@dataclass(frozen=True)
class Sac:
    tau: float = 0.005


@dataclass(frozen=True)
class Run:
    task: str
    learner: Ppo | Sac = Ppo()
    warm_up: Ppo | None = None
    sizes: tuple[int, ...] = (64, 64)
    span: tuple[float, float] = (0.0, math.inf)
    rewards: dict[str, float] = field(default_factory=dict)
    look: Literal["day", "night", 3] = "day"
    out: Path = Path("runs")
    rate: int | float = 1
    layers: tuple[Ppo, ...] = ()
    dry: bool = False


FULL = Run(
    task="donkey",
    learner=Sac(tau=0.1 + 0.2),
    warm_up=Ppo(clip=1 / 3),
    sizes=(),
    span=(-math.inf, 1e-300),
    rewards={"progress": 1.0, "off_track": -5.0},
    look=3,
    out=Path("a/b"),
    rate=0.5,
    layers=(Ppo(epochs=1), Ppo()),
    dry=True,
)


@pytest.mark.parametrize("run", [FULL, Run("donkey")])
def test_settings_survive_json_exactly(run: Run) -> None:
    text = dump_json(run)
    json.loads(text, parse_constant=pytest.fail)  # no Infinity, no NaN: plain JSON
    back = load_json(Run, text)
    assert back == run
    assert type(back.rate) is type(run.rate)


@pytest.mark.parametrize(
    "config",
    [
        TracksConfig(("warren",), draw=Path("maps")),
        WatchConfig("scripted:pure_pursuit", video=Path("lap.mp4"), seconds=0.1),
        BenchSimConfig(batch=(1, 64), json=True),
    ],
)
def test_the_commands_survive_json_exactly(config: object) -> None:
    assert load_json(type(config), dump_json(config)) == config


def test_a_preset_fills_nested_dataclasses_and_leaves_defaults(tmp_path: Path) -> None:
    (tmp_path / "night.toml").write_text(
        """
        task = "donkey"
        look = "night"
        sizes = [32]
        span = [0, inf]
        [learner]
        kind = "Ppo"
        clip = 0.1
        [rewards]
        progress = 2
        """
    )
    wanted = Run("donkey", Ppo(0.1), look="night", sizes=(32,), rewards={"progress": 2.0})
    assert load_preset(Run, "night", folder=tmp_path) == wanted
    assert load_preset(Run, tmp_path / "night.toml") == wanted


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({}, "f: task is missing"),
        ({"task": "x", "siezs": []}, "f: unknown setting of Run 'siezs'; did you mean 'sizes'?"),
        ({"task": 3}, "f: task must be str, got 3"),
        ({"task": "x", "dry": 1}, "f: dry must be bool, got 1"),
        ({"task": "x", "sizes": [1, "2"]}, r"f: sizes\[1\] must be int, got '2'"),
        ({"task": "x", "sizes": 1}, r"f: sizes must be tuple\[int, ...\], got 1"),
        ({"task": "x", "span": [1.0]}, "f: span must be tuple"),
        ({"task": "x", "span": [math.nan, 1]}, r"f: span\[0\] must be float, got nan"),
        ({"task": "x", "look": "dusk"}, "f: look must be one of 'day', 'night', 3, got 'dusk'"),
        ({"task": "x", "rewards": {"fun": "much"}}, "f: rewards.fun must be float"),
        ({"task": "x", "rate": "fast"}, "f: rate must be int or float, got 'fast'"),
        ({"task": "x", "warm_up": {"clp": 1}}, "f: warm_up: unknown setting of Ppo 'clp'"),
        ({"task": "x", "warm_up": {"clip": 2}}, "f: warm_up: clip must lie between 0 and 1"),
        ({"task": "x", "warm_up": 5}, "f: warm_up must be Ppo or None, got 5"),
        ({"task": "x", "learner": {"kind": "Pqo"}}, "f: learner.kind: unknown kind 'Pqo'"),
        ({"task": "x", "learner": {"tau": 1.0}}, "f: learner.kind is missing"),
        ([], r"f: expected a table for Run, got \[\]"),
    ],
)
def test_what_cannot_be_understood_names_file_and_key(table: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{complaint}"):
        from_table(Run, table, "f")


def test_files_that_are_missing_or_broken_are_named(tmp_path: Path) -> None:
    (tmp_path / "day.toml").write_text("task = ")
    with pytest.raises(ValueError, match=r"day\.toml: not valid TOML"):
        load_preset(Run, "day", folder=tmp_path)
    with pytest.raises(KeyError, match="unknown preset 'dya'; did you mean 'day'"):
        load_preset(Run, "dya", folder=tmp_path)
    with pytest.raises(ValueError, match=r"no\.toml: there is no such"):
        load_preset(Run, tmp_path / "no.toml")
    with pytest.raises(ValueError, match=r"config\.json: not valid JSON"):
        load_json(Run, "{", "config.json")
