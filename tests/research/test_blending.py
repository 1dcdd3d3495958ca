"""A blended model lies between two models, knows the tracks of both, and is a model like any."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import stable_baselines3
import torch

from hotlap.cli import main
from hotlap.learning.factory import make_learner
from hotlap.research.blending import likeness
from hotlap.research.contestants import tracks_ever
from hotlap.research.models import open_model, save_model
from hotlap.research.worlds import make_training_env

from .tiny import AGENTS, ROAD, tiny_run

torch.set_num_threads(1)


def make(
    folder: Path, agent: str, track: str, begun_with: Path | None = None, seed: int = 0
) -> Path:
    """A tiny model that has learned for a moment."""
    more = {} if begun_with is None else {"init_from": str(begun_with)}
    config = tiny_run(agent, "telemetry", seed=seed, normalise_observations=True, **more)
    config = replace(config, settings=replace(ROAD, tracks=(track,)))
    env = make_training_env(config)
    learner = make_learner(config.agent, env, "cpu", config.seed, config.timesteps)
    if begun_with is not None:
        learner.policy.load_state_dict(open_model(str(begun_with)).policy.state_dict())
    learner.learn_segment(seed=seed, segment=0, steps=32)
    save_model(folder, config, learner, env.observation_space, None)
    return folder


def blend(a: Path, b: Path, folder: Path, *words: str) -> int:
    root = ["--root", str(folder.parent / "root"), "--json"]
    return main(["blend", str(a), str(b), "--save-dir", str(folder), *words, *root])


@pytest.mark.parametrize("agent", AGENTS)
def test_weights_lie_between_and_scales_are_those_of_the_later_one(
    agent: str, tmp_path: Path
) -> None:
    a = make(tmp_path / "a", agent, "warren")
    b = make(tmp_path / "b", agent, "circuit:3", a, seed=1)
    assert blend(a, b, tmp_path / "c", "--share", "0.25") == 0
    first, second, between = (open_model(str(tmp_path / name)).policy for name in "abc")
    parameters = {name for name, _ in between.named_parameters()}
    moved = 0
    for name, tensor in between.state_dict().items():
        one, other = (policy.state_dict()[name] for policy in (first, second))
        expected = 0.75 * one + 0.25 * other if name in parameters else other
        torch.testing.assert_close(tensor, expected)
        moved += int(not torch.equal(one, other))
    assert moved > 2
    zipped = {"ppo": stable_baselines3.PPO, "dqn": stable_baselines3.DQN}.get(agent)
    if zipped is not None:
        stock = zipped.load(io.BytesIO((tmp_path / "c" / "model.zip").read_bytes()))
        for name, tensor in stock.policy.state_dict().items():
            assert torch.equal(tensor, between.state_dict()[name])


def test_tracks_of_both_count_as_trained(tmp_path: Path) -> None:
    a = make(tmp_path / "a", "ppo", "warren")
    b = make(tmp_path / "b", "ppo", "circuit:3", a)
    assert blend(a, b, tmp_path / "c") == 0
    assert tracks_ever(open_model(str(tmp_path / "c"))) == {"warren", "circuit:3"}


def test_strangers_and_other_nets_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = make(tmp_path / "a", "ppo", "warren")
    stranger = make(tmp_path / "stranger", "ppo", "warren", seed=1)
    assert blend(a, stranger, tmp_path / "c") == 2
    assert "none came from the other" in json.loads(capsys.readouterr().out)["error"]
    assert blend(a, make(tmp_path / "sac", "sac", "warren"), tmp_path / "c") == 2
    assert "have other nets" in json.loads(capsys.readouterr().out)["error"]
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("share", ["0", "1", "1.5"])
def test_a_share_lies_between(share: str, tmp_path: Path) -> None:
    assert blend(tmp_path, tmp_path, tmp_path / "c", "--share", share) == 2


def test_a_model_is_like_itself(tmp_path: Path) -> None:
    a = open_model(str(make(tmp_path / "a", "ppo", "warren"))).policy
    assert likeness(a, a) == pytest.approx(1)
