"""The zoo: champions are added slim, found by name, told of, driven with, refused if damaged."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch

from hotlap.cli import main
from hotlap.config.carracing import CarRacingConfig
from hotlap.config.runs import RunConfig
from hotlap.learning.factory import make_learner
from hotlap.research import zoo, zoo_adding
from hotlap.research.contestants import tracks_ever
from hotlap.research.models import open_model, save_model
from hotlap.research.twins import with_twins, without_twins
from hotlap.research.worlds import make_training_env
from hotlap.research.zoo import zoo_folder, zoo_names
from hotlap.store.bundle import load_bundle, save_bundle
from hotlap.store.plain import DamagedFile

from .tiny import ROAD, tiny_run

torch.set_num_threads(1)
Captured = pytest.CaptureFixture[str]
Add = Callable[..., int]


def make_bundle(folder: Path, config: RunConfig) -> Path:
    """A model whose optimiser has stepped."""
    env = make_training_env(config)
    learner = make_learner(config.agent, env, "cpu", config.seed, config.timesteps)
    learner.learn_segment(seed=0, segment=0, steps=32)
    save_model(folder, config, learner, env.observation_space, None)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny camera model; tests read it."""
    config = tiny_run(sensor="camera", encoder="small", features=128)
    config = replace(config, settings=replace(ROAD, sensor="camera", tracks=("circuit:0-2",)))
    return make_bundle(tmp_path_factory.mktemp("trained") / "model", config)


@pytest.fixture(autouse=True)
def own_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo of the test's own, and no other."""
    monkeypatch.setenv(zoo.VARIABLE, str(tmp_path / "zoo"))
    monkeypatch.setattr(zoo, "CHECKOUT", tmp_path / "checkout" / "zoo")
    monkeypatch.setattr(zoo_adding, "CHECKOUT", tmp_path / "checkout" / "zoo")
    monkeypatch.setattr(zoo, "INSTALLED", tmp_path / "installed" / "zoo")
    return tmp_path / "zoo"


@pytest.fixture
def add(trained: Path, tmp_path: Path) -> Add:
    """Adds the tiny model, and says with which exit code."""

    def call(name: str = "tiny", *words: str, run: Path | str = trained) -> int:
        root = ["--root", str(tmp_path / "root"), "--json"]
        return main(["zoo", "add", name, str(run), *words, *root])

    return call


def last_line(output: str) -> dict[str, Any]:
    answer = json.loads(output.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


def evaluation(folder: Path) -> Path:
    """What an evaluation on three tracks printed."""
    row = {
        "lap_rate": 1.0, "laps_finished": 0.9, "mean_lap_ratio": 1.2, "flying_lap_ratio": 1.1,
        "over_edge": 0.02, "trained": False, "crashes": {"count": 3}, "sets": [1, 2],
    }  # fmt: skip
    tracks = {"warren": row, "circuit:90000": row, "hills:90000": row | {"lap_rate": 0.5}}
    told = {
        "mean_return": 5.0, "count": 9, "lap_rate": 0.8, "mean_lap_ratio": 1.25, "tracks": tracks,
        "episodes": [{}] * 9, "asked": {"track": ["all", "unseen"], "sets": 3, "stochastic": True},
    }  # fmt: skip
    path = folder / "evaluation.txt"
    path.write_text(f"words for people\n{json.dumps(told)}\n")
    return path


def test_an_added_champion_is_listed_with_how_it_did(
    add: Add, tmp_path: Path, capsys: Captured
) -> None:
    more = ("--evaluation", str(evaluation(tmp_path)), "--command", "hotlap train donkey --seed 3")
    assert add("tiny", *more) == 0
    capsys.readouterr()
    assert main(["zoo", "--json"]) == 0
    printed = capsys.readouterr().out
    assert "44x36 gray camera" in printed and "80.0%" in printed and "1.250" in printed
    (row,) = last_line(printed)["champions"]
    assert (row["name"], row["task"], row["agent"]) == ("tiny", "donkey", "ppo")
    assert row["trained_on"] == ["circuit:0-2"] and row["lap_rate"] == 0.8
    assert row["bytes"] < zoo_adding.LARGEST


def test_carracing_is_told_of_by_its_score_the_first_evaluation_first(
    add: Add, tmp_path: Path, capsys: Captured
) -> None:
    settings = CarRacingConfig(tracks=("carracing:3",), repeat=4)
    run = make_bundle(tmp_path / "model", tiny_run(task="carracing", settings=settings))
    files = []
    today = {"interval": [860.0, 891.0], "iqm_interval": [890.0, 895.0]}
    earlier = {"mean_interval": [860.0, 891.0], "interval": [890.0, 895.0]}
    for backend, mean, within in (("gymnasium", 880.12, today), ("twin", 876.7, earlier)):
        told = {
            "model": "/home/somebody/run", "mean_return": mean, **within,
            "std_return": 62.3, "iqm": 893.7, "lap_rate": 0.39, "count": 100, "backend": backend,
            "look": "plain", "tracks": {"carracing:10000": {"lap_rate": 0.0}},
            "asked": {"backend": backend},
        }  # fmt: skip
        files.append(tmp_path / f"{backend}.txt")
        files[-1].write_text(json.dumps(told))
    assert add("racer", run=run) == 0
    assert "--backend gymnasium --episodes 100 --seed 10000 --json" in capsys.readouterr().out
    words = ("--replace", "--command", "hotlap train --recipe carracing-small --seed 1")
    assert add("racer", "--evaluation", *map(str, files), *words, run=run) == 0
    capsys.readouterr()
    assert main(["zoo", "--json"]) == 0
    printed = capsys.readouterr().out
    (row,) = last_line(printed)["champions"]
    assert row["score"] == "880.1 (860.0 to 891.0)" and row["lap_rate"] == 0.39
    assert row["sees"] == "84x84 gray, crop" and row["trained_on"] == ["carracing:3"]
    page = (zoo_folder("racer") / "README.md").read_text()
    assert page.index("880.1 (860.0 to 891.0)") < page.index("876.7 (860.0 to 891.0)")
    assert "| driven in | gymnasium |" in page and "carracing:10000" not in page
    assert "`hotlap train --recipe carracing-small --init-from zoo:racer`" in page
    assert "somebody" not in (zoo_folder("racer") / "evaluation.json").read_text()
    kept = json.loads((zoo_folder("racer") / "evaluation-2.json").read_text())
    assert today.items() <= kept.items() and "mean_interval" not in kept


def test_the_score_of_a_champion_added_earlier_lies_where_its_mean_does(
    add: Add, tmp_path: Path
) -> None:
    assert add("tiny", "--evaluation", str(evaluation(tmp_path))) == 0
    file = zoo_folder("tiny") / "evaluation.json"
    told = {"mean_return": 9.0, "interval": [9.5, 9.9], "mean_interval": [8.0, 9.6]}
    file.write_text(json.dumps(told))
    (read,) = zoo.read_champion("tiny", zoo_folder("tiny")).evaluations
    assert zoo.score(read) == "9.0 (8.0 to 9.6)"


@pytest.mark.parametrize("words", [["zoo", "show", "tiny"], ["zoo", "tiny"], ["zoo", "zoo:tiny"]])
def test_one_champion_is_told_in_full(
    words: list[str], add: Add, tmp_path: Path, capsys: Captured
) -> None:
    add("tiny", "--evaluation", str(evaluation(tmp_path)), "--command", "hotlap train x")
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    printed = capsys.readouterr().out
    assert "hotlap train x" in printed
    assert "`hotlap evaluate zoo:tiny --track all unseen --sets 3 --stochastic`" in printed
    assert "| unseen | 2 | 75.0% | 90.0% | 1.200 | 1.100 | 2.0% |" in printed
    answer = last_line(printed)
    assert answer["groups"][0]["scenes"]["tracks"] == 1
    assert answer["groups"][0]["unseen"]["lap_rate"] == 0.75
    assert {"model/weights.safetensors", "README.md", "evaluation.json"} <= set(answer["files"])
    kept = json.loads((zoo_folder("tiny") / "evaluation.json").read_text())
    assert "episodes" not in kept and "sets" not in kept["tracks"]["warren"]


def test_what_only_training_needs_is_left_out_and_stock_sb3_still_loads_it(
    add: Add, trained: Path
) -> None:
    assert add() == 0
    slim, whole = zoo_folder("tiny") / "model" / "model.zip", trained / "model.zip"
    assert slim.stat().st_size < 0.5 * whole.stat().st_size
    loaded = stable_baselines3.PPO.load(slim, device="cpu")
    before = stable_baselines3.PPO.load(whole, device="cpu")
    assert before.policy.optimizer.state and not loaded.policy.optimizer.state
    for name, value in before.policy.state_dict().items():
        assert torch.equal(value, loaded.policy.state_dict()[name])
    seen = np.full(loaded.observation_space.shape, 90, dtype=np.uint8)
    expected = before.predict(seen, deterministic=True)[0]
    assert np.array_equal(loaded.predict(seen, deterministic=True)[0], expected)


def test_a_champion_drives_as_the_model_it_was_made_from(add: Add, trained: Path) -> None:
    assert add() == 0
    ours, theirs = open_model("zoo:tiny"), open_model(str(trained))
    assert ours.run == theirs.run
    for name, value in theirs.policy.state_dict().items():
        assert torch.equal(value, ours.policy.state_dict()[name])


def test_half_the_room_is_taken_by_16_bit_weights(add: Add, trained: Path) -> None:
    assert add() == 0 and add("half", "--half") == 0
    sizes = [(zoo_folder(n) / "model" / "weights.safetensors").stat().st_size for n in zoo_names()]
    assert list(zoo_names()) == ["half", "tiny"] and sizes[0] < 0.6 * sizes[1]
    ours, theirs = (open_model(n).policy.state_dict() for n in ("zoo:half", str(trained)))
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype
        torch.testing.assert_close(ours[name], value, rtol=1e-3, atol=1e-6)
    loaded = stable_baselines3.PPO.load(zoo_folder("half") / "model" / "model.zip", device="cpu")
    name = "features_extractor.linear.0.weight"
    assert torch.equal(loaded.policy.state_dict()[name], ours[name])


def test_a_champion_is_accepted_wherever_a_model_is(
    add: Add, tmp_path: Path, capsys: Captured
) -> None:
    assert add() == 0
    root = ["--root", str(tmp_path / "root"), "--json"]
    assert main(["evaluate", "zoo:tiny", "--episodes", "1", *root]) == 0
    assert last_line(capsys.readouterr().out)["asked"] == {"episodes": 1}
    words = ["--track", "waveshare", "--episodes", "2", "--seconds", "1"]
    assert main(["race", "zoo:tiny", "scripted:pure_pursuit", *words, *root]) == 0
    assert main(["watch", "zoo:tiny", "--seconds", "0.2", "--track", "waveshare", *root]) == 0


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", "model.zip"])
def test_a_damaged_champion_is_refused_and_the_list_says_so(
    name: str, add: Add, capsys: Captured
) -> None:
    assert add() == 0 and add("whole") == 0
    path = zoo_folder("tiny") / "model" / name
    path.write_bytes(path.read_bytes()[:-3] + b"???")
    with pytest.raises(DamagedFile, match=name):
        open_model("zoo:tiny")
    capsys.readouterr()
    assert main(["zoo", "--json"]) == 0
    rows = last_line(capsys.readouterr().out)["champions"]
    assert name in rows[0]["damaged"] and "damaged" not in rows[1]
    assert main(["zoo", "show", "tiny"]) == 1


def test_an_unknown_name_is_answered_with_the_nearest_first(add: Add, capsys: Captured) -> None:
    assert add("alpha") == 0 and add("donkey") == 0
    assert main(["zoo", "donky"]) == 2
    assert "there is no zoo:donky; the zoo has donkey, alpha" in capsys.readouterr().err
    assert main(["evaluate", "zoo:donky"]) == 2
    assert "the zoo has donkey, alpha" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "Upper", "x" * 41])
def test_a_name_cannot_lead_out_of_the_zoo(name: str, add: Add, capsys: Captured) -> None:
    with pytest.raises(ValueError, match="small letters, digits and dashes"):
        open_model(f"zoo:{name}")
    assert add(name) == 2


def test_the_environment_comes_before_the_checkout_and_that_before_the_installed_place(
    add: Add, own_zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert add("one") == 0 and add("two") == 0 and add("three") == 0
    for place, names in (("checkout", ("one", "two")), ("installed", ("one", "two", "three"))):
        for name in names:
            shutil.copytree(own_zoo / name, tmp_path / place / "zoo" / name)
    for name in ("two", "three"):
        shutil.rmtree(own_zoo / name)
    places = {name: folder.parent for name, folder in zoo_names().items()}
    assert places == {
        "one": own_zoo,
        "two": tmp_path / "checkout" / "zoo",
        "three": tmp_path / "installed" / "zoo",
    }
    monkeypatch.delenv(zoo.VARIABLE)
    assert zoo_folder("one") == tmp_path / "checkout" / "zoo" / "one"
    assert add("new") == 2  # neither a checkout nor a place that was named


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--evaluation", "FOLDER/none.json"], "write it by: hotlap evaluate --json > FILE"),
        (["--evaluation", "FOLDER/words.json"], "does not end with a line of JSON"),
        (["--evaluation", "FOLDER/other.json"], "is not what hotlap evaluate --json prints"),
        ([], "zoo:tiny is there already; --replace takes its place"),
    ],
)
def test_what_cannot_be_added_is_refused_and_the_old_one_stays(
    words: list[str], answer: str, add: Add, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "words.json").write_text("words for people")
    (tmp_path / "other.json").write_text('{"fine": true}')
    assert add() == 0
    before = (zoo_folder("tiny") / "entry.json").read_bytes()
    given = [word.replace("FOLDER", str(tmp_path)) for word in words]
    assert add("tiny", *(["--replace", *given] if given else [])) == 2
    assert answer in capsys.readouterr().err
    assert (zoo_folder("tiny") / "entry.json").read_bytes() == before
    assert add("tiny", "--replace", "--about", "other") == 0
    assert (zoo_folder("tiny") / "entry.json").read_bytes() != before


def test_a_champion_that_is_too_large_is_refused_with_what_is_how_large(
    add: Add, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo_adding, "LARGEST", 10_000)
    assert add() == 2
    told = capsys.readouterr().err
    assert "weights.safetensors" in told and "try --half, or train a smaller net" in told
    assert zoo_names() == {}
    assert add("tiny", "--half") == 2
    assert "train a smaller net" in capsys.readouterr().err


def test_tracks_of_models_it_began_with_are_known_without_them(add: Add, tmp_path: Path) -> None:
    first = tiny_run(settings=replace(ROAD, tracks=("hills:1-2",)))
    make_bundle(tmp_path / "first", first)
    second = tiny_run(init_from=str(tmp_path / "first"))
    make_bundle(tmp_path / "second", second)
    assert add("heir", run=tmp_path / "second") == 0
    shutil.rmtree(tmp_path / "first")
    heir = open_model("zoo:heir")
    assert tracks_ever(heir) == {"generated_track", "hills:1", "hills:2"}


# --- tensors under several names -----------------------------------------------------------------


def test_tensors_with_several_names_are_written_once_and_read_under_all_of_them() -> None:
    shared, other = torch.ones(3), torch.ones(3)
    tensors = {"a": shared, "b": shared, "c": other, "none": torch.empty(0), "no": torch.empty(0)}
    once = without_twins(tensors)
    assert list(once) == ["a", "c", "none", "no"]
    back = with_twins({name: value + 1 for name, value in once.items()}, tensors)
    assert list(sorted(back)) == sorted(tensors) and back["b"] is back["a"]


@pytest.mark.parametrize(("agent", "slow"), [("dqn", "q_net_target"), ("sac", "critic_target")])
def test_slow_copies_are_left_out_and_have_caught_up_when_opened(
    add: Add, agent: str, slow: str, tmp_path: Path
) -> None:
    run = make_bundle(tmp_path / "model", tiny_run(agent))
    before = open_model(str(run)).policy.state_dict()
    assert any(name.startswith(slow) for name in load_bundle(run).weights)
    assert add("mine", run=run) == 0
    folder = zoo_folder("mine") / "model"
    assert not any(name.startswith(slow) for name in load_bundle(folder).weights)
    stock = {"dqn": stable_baselines3.DQN, "sac": stable_baselines3.SAC}[agent]
    loaded = stock.load(folder / "model.zip", device="cpu").policy.state_dict()
    opened = open_model("zoo:mine").policy.state_dict()
    assert opened.keys() == loaded.keys() == before.keys()
    for name in before:
        fast = before[name.replace(slow, slow.removesuffix("_target"))]
        assert torch.equal(opened[name], fast) and torch.equal(loaded[name], fast)
    assert any(not torch.equal(before[n], opened[n]) for n in before), "they had lagged behind"


def test_a_bundle_holds_a_shared_encoder_once_and_older_ones_are_still_read(
    trained: Path, tmp_path: Path
) -> None:
    bundle = load_bundle(trained, with_zip=True)
    assert not any(name.startswith("vf_features_extractor") for name in bundle.weights)
    opened = open_model(str(trained)).policy.state_dict()
    save_bundle(tmp_path / "old", replace(bundle, weights=dict(opened)))
    older = load_bundle(tmp_path / "old").weights
    assert "vf_features_extractor.linear.0.weight" in older
    again = open_model(str(tmp_path / "old")).policy.state_dict()
    assert all(torch.equal(value, again[name]) for name, value in opened.items())


def test_weights_that_16_bits_cannot_hold_are_refused() -> None:
    large = torch.full((zoo_adding.WORTH_HALVING,), 1e6)
    with pytest.raises(ValueError, match=r"w is too large for 16-bit numbers; leave --half out"):
        zoo_adding.halved({"w": large})
    assert zoo_adding.halved({"count": torch.tensor([1e6])})["count"].dtype == torch.float32


def test_small_tensors_are_halved_without_the_piece_that_they_are_views_of() -> None:
    piece = torch.rand(zoo_adding.WORTH_HALVING + 8)
    halved = zoo_adding.halved({"w": piece[8:], "b": piece[:8]})
    assert halved["w"].dtype == torch.float16 and torch.equal(halved["b"], piece[:8])
    assert halved["b"].untyped_storage().nbytes() == 8 * 4


def test_nothing_in_a_zip_is_run_while_it_is_made_slim() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        evil = io.BytesIO()
        torch.save({"state": print}, evil)  # needs code to be unpickled
        archive.writestr("policy.optimizer.pth", evil.getvalue())
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        zoo_adding.slim_zip(file.getvalue())
