"""The command line: what it answers, and with which exit code."""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hotlap
from hotlap.cli import VERBS, main, read_config
from hotlap.config.carracing import CarRacingConfig
from hotlap.config.commands import BenchSimConfig, TracksConfig, WatchConfig
from hotlap.config.presets import SHIPPED
from hotlap.config.training import TrainConfig
from hotlap.research.worlds import judged_tracks, known_tasks, tracks_of
from hotlap.sim.carracing.catalogue import refuse_held_out
from hotlap.sim.tracks.families import FAMILIES
from hotlap.sim.tracks.named import NAMES
from hotlap.sim.tracks.selection import kept_apart

Captured = pytest.CaptureFixture[str]


def last_line(output: str) -> dict[str, Any]:
    answer = json.loads(output.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The configs that reach the verbs `watch` and `bench sim`, which answer at once."""
    configs: list[object] = []

    def answer(cfg: object) -> dict[str, Any]:
        configs.append(cfg)
        print("words for people")
        return {"fine": True}

    for module, function in (("watching", "watch"), ("sim_benchmark", "bench_sim")):
        fake = ModuleType(module)
        setattr(fake, function, answer)
        monkeypatch.setitem(sys.modules, f"hotlap.evaluation.{module}", fake)
        monkeypatch.setattr(f"hotlap.evaluation.{module}", fake, raising=False)
    return configs


def fail_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def action(cfg: TracksConfig) -> dict[str, Any]:
        raise error

    verb = VERBS["tracks"]
    monkeypatch.setitem(VERBS, "tracks", type(verb)(verb.config, action, verb.positional))


def test_words_become_the_frozen_config(seen: list[object]) -> None:
    assert main(["watch", "scripted:pure_pursuit", "--track", "warren", "--video", "a.mp4"]) == 0
    assert main(["bench", "sim", "--batch", "1", "64", "--compiled", "off"]) == 0
    assert seen == [
        WatchConfig("scripted:pure_pursuit", track="warren", video=Path("a.mp4")),
        BenchSimConfig(batch=(1, 64), compiled="off"),
    ]


@pytest.mark.parametrize("words", ["watch scripted:x --json", "bench sim --json"])
def test_the_last_line_is_json_when_asked(words: str, seen: list[object], capsys: Captured) -> None:
    assert main(words.split()) == 0
    output = capsys.readouterr().out
    assert output.startswith("words for people")
    assert last_line(output) == {"fine": True}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("", "usage: hotlap VERB"),
        ("trakcs", "unknown verb 'trakcs'; did you mean 'tracks'?"),
        ("bench", "did you mean 'bench sim'?"),
        ("bench simm", "unknown verb 'bench simm'; did you mean 'bench sim'?"),
        ("--jsn", "unknown verb '--jsn'"),
        ("tracks --jsn", "--json"),
        ("watch", "MODEL"),
        ("watch scripted:x --sed 3", "--seed"),
        ("watch scripted:x --seed many", "invalid literal for int"),
        ("watch scripted:x --laps 0", "laps must be 1 or more, got 0"),
        ("bench sim --compiled maybe", "auto"),
        ("bench sim --device gpu", "device must be auto, cpu, cuda or cuda:N"),
        ("research donkey --trails 5", "--trials"),
        ("research donkey --sampler gpucb", "gp-ucb"),
        ("research donkey --hours -1", "hours must be 0 or more, got -1.0"),
        ("research --study Night", "a study's name has small letters"),
        ("research chess", "there is no search space for chess yet; name a TOML file by --space"),
        ("champion --episodes 0", "episodes must be at least 1, got 0"),
        ("champion nobody --root /nowhere", "no study at nobody or /nowhere/nobody"),
        ("tracks generated_trak", "did you mean 'generated_track'?"),
        ("tracks circuit:first", "whole number"),
    ],
)
def test_wrong_words_are_answered_with_what_was_meant(
    words: str, answer: str, capsys: Captured
) -> None:
    assert main(words.split()) == 2
    output = capsys.readouterr()
    assert answer in output.err
    assert "Traceback" not in output.err
    assert output.out == ""


@pytest.mark.parametrize("words", ["trakcs --json", "watch --json", "tracks nowhere --json"])
def test_wrong_words_end_in_json_too(words: str, capsys: Captured) -> None:
    assert main(words.split()) == 2
    assert last_line(capsys.readouterr().out)["exit_code"] == 2


@pytest.mark.parametrize(
    "error", [RuntimeError("out of road"), KeyError("speed"), ValueError("shapes differ")]
)
def test_a_failure_says_where_its_evidence_is(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    fail_with(error, monkeypatch)
    assert main(["tracks", "--json", "--root", str(tmp_path)]) == 1
    (evidence,) = (tmp_path / "failures").iterdir()
    text = evidence.read_text()
    assert "hotlap tracks --json" in text
    assert "Traceback" in text
    output = capsys.readouterr()
    assert output.err.startswith(f"hotlap: error: {type(error).__name__}: ")
    assert str(evidence) in output.err
    assert "Traceback" not in output.err
    assert last_line(output.out)["exit_code"] == 1


def test_an_unknown_name_found_late_is_still_about_words(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    fail_with(KeyError("unknown vehicle 'cart'; did you mean 'car'?"), monkeypatch)
    assert main(["tracks"]) == 2
    expected = "hotlap: error: unknown vehicle 'cart'; did you mean 'car'?\n"
    assert capsys.readouterr().err == expected


def test_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    fail_with(RuntimeError("out of road"), monkeypatch)
    assert main(["tracks", "--debug", "--root", str(tmp_path)]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interrupting_is_not_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)  # type: ignore[arg-type]
    assert main(["tracks"]) == 130
    assert capsys.readouterr().err == "hotlap: stopped\n"


@pytest.mark.parametrize(
    "words",
    ["--help", "-h", "bench --help", "tracks --help", "watch -h", "research -h", "champion -h"],
)
def test_help_is_given(words: str, capsys: Captured) -> None:
    assert main(words.split()) == 0
    assert "usage: hotlap" in capsys.readouterr().out


def test_help_names_every_verb(capsys: Captured) -> None:
    main(["--help"])
    output = capsys.readouterr().out
    assert all(f"hotlap {verb}" in output for verb in VERBS)


def test_version_is_the_packages(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hotlap {hotlap.__version__}\n"


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, hotlap.cli; hotlap.cli.main(['--help']);"
        "print(sorted({'torch', 'numpy', 'matplotlib', 'rich', 'tyro'} & set(sys.modules)))"
    )
    began = time.perf_counter()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "[]"
    assert time.perf_counter() - began < 5  # about 0.1 s on a quiet machine


def test_tracks_lists_what_is_named(capsys: Captured) -> None:
    assert main(["tracks", "waveshare", "generated_road", "--json"]) == 0
    output = capsys.readouterr().out
    rows = last_line(output)["tracks"]
    assert [row["name"] for row in rows] == ["waveshare", "generated_road"]
    assert [row["closed"] for row in rows] == [True, False]
    assert "waveshare" in output.splitlines()[1]


def test_tracks_draws_maps(tmp_path: Path, capsys: Captured) -> None:
    assert main(["tracks", "waveshare", "--draw", str(tmp_path / "maps"), "--json"]) == 0
    (path,) = last_line(capsys.readouterr().out)["maps"]
    assert Path(path) == tmp_path / "maps" / "waveshare.png"
    assert Path(path).read_bytes().startswith(b"\x89PNG")


# --- recipes -------------------------------------------------------------------------------------


RECIPES = sorted(path.stem for path in (SHIPPED / "recipes").glob("*.toml"))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_run(name: str, device: str) -> None:
    config = read_config("train", ["--recipe", name])
    assert isinstance(config, TrainConfig) and config.recipe == name
    run = config.settle(device, has_compiler=True, known_tasks=known_tasks())
    assert run.timesteps == config.timesteps and run.evaluation.tracks == config.evaluation_track


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_judged_on_tracks_that_are_neither_trained_on_nor_kept_apart(
    name: str,
) -> None:
    config = read_config("train", ["--recipe", name])
    assert isinstance(config, TrainConfig)
    run = config.settle("cpu", has_compiler=False, known_tasks=known_tasks())
    trained, judged = set(tracks_of(run)), set(judged_tracks(run, run.evaluation.episodes))
    assert trained and judged and trained.isdisjoint(judged)
    if isinstance(run.settings, CarRacingConfig):
        refuse_held_out(trained | judged)
        return
    for track in trained | judged:
        assert track in NAMES or track.partition(":")[0] in FAMILIES
        assert not kept_apart(track)


def test_flags_come_on_top_of_a_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'task = "donkey-lidar"\ntimesteps = 7\nevaluation_randomised = false\n'
        "[ppo]\nenvs = 12\nnormalise_rewards = true\n"
    )
    for given in (["--recipe", str(recipe)], [f"--recipe={recipe}"]):
        plain = read_config("train", given)
        assert isinstance(plain, TrainConfig)
        assert (plain.task, plain.timesteps, plain.ppo.envs) == ("donkey-lidar", 7, 12)
        assert plain.ppo.normalise_rewards and not plain.evaluation_randomised
    words = ["donkey", *given, "--timesteps", "9", "--evaluation-randomised",
             "--ppo.no-normalise-rewards", "--seed", "3"]  # fmt: skip
    changed = read_config("train", words)
    assert isinstance(changed, TrainConfig)
    assert (changed.task, changed.timesteps, changed.seed) == ("donkey", 9, 3)
    assert changed.ppo.envs == 12 and not changed.ppo.normalise_rewards
    assert changed.evaluation_randomised


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("timestep = 5", "timesteps"),
        ("[ppo]\nlearning_rat = 1.0", "learning_rate"),
        ("timesteps = -5", "timesteps must be at least 1"),
        ("timesteps = ", "not valid TOML"),
        ('recipe = "any-track"', "cannot name another"),
    ],
)
def test_a_recipe_that_is_wrong_says_what_it_should_be(
    text: str, complaint: str, tmp_path: Path, capsys: Captured
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(text)
    assert main(["train", "--recipe", str(recipe), "--json"]) == 2
    told = capsys.readouterr()
    answer = last_line(told.out)
    assert complaint in answer["error"] and "mine.toml" in answer["error"]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("any-trak", "did you mean 'any-track'?"),
        ("no-such", f"unknown recipe 'no-such'; available: {', '.join(RECIPES)}"),
        ("gone.toml", "no such preset file"),
        ("folder.toml", "cannot be read"),
    ],
)
def test_a_recipe_that_is_not_there(
    name: str, complaint: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.toml").mkdir()
    assert main(["train", "--recipe", name]) == 2
    assert complaint in capsys.readouterr().err


def test_a_recipe_beside_resume_is_what_is_complained_of(tmp_path: Path, capsys: Captured) -> None:
    assert main(["train", "--recipe", "any-track", "--resume", str(tmp_path)]) == 2
    assert "leave --recipe out" in capsys.readouterr().err


def test_help_shows_what_a_recipe_sets(capsys: Captured) -> None:
    assert main(["train", "--recipe", "any-track-teacher", "--help"]) == 0
    assert "donkey-state" in capsys.readouterr().out
