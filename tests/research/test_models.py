"""Models are opened as they were saved, or refused with a sentence that says why."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hotlap.config.runs import RunConfig
from hotlap.learning.driver import Driver
from hotlap.learning.factory import make_learner
from hotlap.learning.learner import Learner
from hotlap.learning.zips import algorithm_of, settings_in
from hotlap.records import EpisodeResult, EvalResult
from hotlap.research.models import add_evaluation, load_weights, open_model, save_model
from hotlap.research.worlds import make_training_env
from hotlap.store.bundle import load_bundle, save_bundle
from hotlap.store.plain import DamagedFile

from .tiny import AGENTS, tiny_run

torch.set_num_threads(1)
every_agent = pytest.mark.parametrize("agent", AGENTS)


def learner(config: RunConfig) -> Learner:
    env = make_training_env(config)
    return make_learner(config.agent, env, "cpu", config.seed, config.timesteps)


def saved(
    folder: Path, agent: str = "ppo", sensor: str = "telemetry", **settings: Any
) -> tuple[RunConfig, Learner]:
    config = tiny_run(agent, sensor, **settings)
    model = learner(config)
    assert model.env is not None
    save_model(folder, config, model, make_training_env(config).observation_space, None)
    return config, model


def seen_by(config: RunConfig) -> torch.Tensor:
    return torch.as_tensor(make_training_env(config).reset())


def result(value: float) -> EvalResult:
    row = EpisodeResult(identity=0, seed=1, episode_return=value, length=3, end="time")
    return EvalResult(
        count=1, mean_return=value, std_return=0.0, iqm=value, interval=None, iqm_interval=None,
        episodes=(row,),
    )  # fmt: skip


# --- bundles -------------------------------------------------------------------------------------

VARIANTS: list[tuple[str, str, dict[str, Any]]] = [
    *((agent, "telemetry", {}) for agent in AGENTS),
    *((agent, "telemetry", {"normalise_observations": True, "stack": 2}) for agent in AGENTS),
    *((agent, "telemetry", {"layer_norm": True}) for agent in ("ppo", "dqn")),
    ("sac", "telemetry", {"layer_norm": True}),
    ("ppo", "telemetry", {"policy": "beta"}),
    ("ppo", "telemetry", {"policy": "squashed"}),
    *((agent, "camera", {"encoder": "small", "stack": 2}) for agent in AGENTS),
    *((agent, "camera", {"encoder": "nature", "features": 8}) for agent in ("ppo", "sac")),
    *((agent, "camera", {"encoder": "flat"}) for agent in AGENTS),
]


@pytest.mark.parametrize(("agent", "sensor", "settings"), VARIANTS)
def test_a_saved_model_drives_as_the_learner_does(
    agent: str, sensor: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    config, model = saved(tmp_path / "model", agent, sensor, **settings)
    opened = open_model(str(tmp_path / "model"))
    assert opened.run == config
    assert opened.seen == make_training_env(config).observation_space
    seen = seen_by(config)
    own = Driver(model.policy, opened.seen)
    assert torch.equal(opened.driver()(seen), own(seen))
    expected, _ = model.predict(seen.numpy(), deterministic=True)
    np.testing.assert_allclose(opened.driver()(seen).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_a_run_is_opened_by_its_own_folder(tmp_path: Path) -> None:
    config, _ = saved(tmp_path / "run" / "model")
    assert open_model(str(tmp_path / "run")).run == config


def test_the_scales_of_a_model_lie_beside_it_and_among_its_weights(tmp_path: Path) -> None:
    config = tiny_run(normalise_observations=True, normalise_rewards=True)
    model = learner(config)
    model.learn_segment(seed=0, segment=0, steps=32)
    save_model(tmp_path / "model", config, model, make_training_env(config).observation_space, None)
    table = load_bundle(tmp_path / "model").normaliser
    assert table is not None and table["count"] == 32
    assert set(table) == {"mean", "spread", "count"} | {
        f"reward_scale.{name}" for name in ("mean", "variance", "count")
    }
    opened = open_model(str(tmp_path / "model"))
    mean = opened.policy.features_extractor.mean  # type: ignore[union-attr]
    assert torch.allclose(mean, torch.tensor(table["mean"]))  # type: ignore[arg-type]


def test_an_evaluation_is_added_and_nothing_else_is_changed(tmp_path: Path) -> None:
    saved(tmp_path / "model")
    before = load_bundle(tmp_path / "model", with_zip=True)
    add_evaluation(tmp_path / "model", result(4.5))
    after = load_bundle(tmp_path / "model", with_zip=True)
    assert before.evaluation is None and after.evaluation is not None
    assert EvalResult.from_table(after.evaluation) == result(4.5)
    assert after.config == before.config and after.model_zip == before.model_zip
    assert all(torch.equal(after.weights[name], before.weights[name]) for name in before.weights)


def flip_a_bit(data: bytes) -> bytes:
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json"])
@pytest.mark.parametrize("edit", [flip_a_bit, lambda data: data[:-9], lambda data: b""])
def test_an_edited_file_is_refused_by_name(name: str, edit: Any, tmp_path: Path) -> None:
    saved(tmp_path / "model")
    path = tmp_path / "model" / name
    path.write_bytes(edit(path.read_bytes()))
    with pytest.raises(DamagedFile, match=rf"{name} is damaged: expected .* found .*restore it"):
        open_model(str(tmp_path / "model"))


def test_a_format_from_the_future_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "model")
    bundle = load_bundle(tmp_path / "model")
    bundle.config["format"] = 99
    save_bundle(tmp_path / "model", bundle)
    with pytest.raises(ValueError, match="has format 99, this hotlap reads 1"):
        open_model(str(tmp_path / "model"))


def test_weights_that_do_not_fit_are_refused_naming_both_shapes(tmp_path: Path) -> None:
    small, wide = learner(tiny_run(net=(8,))), learner(tiny_run(net=(12,)))
    pattern = r"weights of elsewhere do not fit: .* is \(2, 12\) there and \(2, 8\) here"
    with pytest.raises(ValueError, match=pattern):
        load_weights(small.policy, wide.policy.state_dict(), "elsewhere")
    more = learner(tiny_run(net=(8, 8)))
    with pytest.raises(ValueError, match=r"is \(8,\) there and None here"):
        load_weights(small.policy, more.policy.state_dict(), "elsewhere")


# --- zips ----------------------------------------------------------------------------------------


@every_agent
@pytest.mark.parametrize("sensor", ["telemetry", "camera"])
def test_a_zip_is_opened_with_trust_and_its_algorithm_is_read_from_it(
    agent: str, sensor: str, tmp_path: Path
) -> None:
    config, _ = saved(tmp_path / "model", agent, sensor, encoder="small")
    path = tmp_path / "model" / "model.zip"
    with pytest.raises(ValueError, match=r"is a pickle, which can run any code.*say --trust"):
        open_model(str(path))
    assert algorithm_of(settings_in(path)) == agent
    zipped, bundled = open_model(str(path), trust=True), open_model(str(tmp_path / "model"))
    assert zipped.run is None and zipped.seen == bundled.seen
    seen = seen_by(config)
    torch.testing.assert_close(zipped.driver()(seen), bundled.driver()(seen))
    named = open_model(str(path), trust=True, algorithm=agent)
    torch.testing.assert_close(named.driver()(seen), bundled.driver()(seen))


def test_nothing_of_a_zip_is_unpickled_without_trust(tmp_path: Path) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "sprung",)

    with zipfile.ZipFile(tmp_path / "trap.zip", "w") as file:
        file.writestr("data", json.dumps({"clip_range": {":serialized:": "x"}}))
        file.writestr("policy.pth", pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="--trust"):
        open_model(str(tmp_path / "trap.zip"))
    assert settings_in(tmp_path / "trap.zip") == ["clip_range"]
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "not json"])
def test_a_zip_that_is_no_model_is_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    if damage == "cut":
        saved(tmp_path / "model")
        whole = (tmp_path / "model" / "model.zip").read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("data" if damage == "not json" else "readme", "{")
    with pytest.raises(ValueError, match="is not a whole Stable-Baselines3 model"):
        open_model(str(path), trust=True)


def test_a_zip_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a2c.zip", "w") as file:
        file.writestr("data", json.dumps({"gae_lambda": 1.0}))
    with pytest.raises(ValueError, match="made by none of ppo, dqn, sac, tqc; say which"):
        open_model(str(tmp_path / "a2c.zip"), trust=True)


# --- names ---------------------------------------------------------------------------------------


def test_where_nothing_is_it_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "empty", "nowhere.zip"):
        with pytest.raises(ValueError, match=rf"no model at .*{name}: expected a run's folder"):
            open_model(str(tmp_path / name))
    with pytest.raises(ValueError, match="there is no zoo:nobody; the zoo has"):
        open_model("zoo:nobody")
