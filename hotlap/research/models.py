"""Models by name: saved, opened, and driven with."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium import spaces

from hotlap import __version__
from hotlap.config.presets import from_table, to_table
from hotlap.config.runs import RunConfig
from hotlap.learning.driver import Driver, Policy
from hotlap.learning.encoders import Scaled
from hotlap.learning.factory import make_policy
from hotlap.learning.learner import Learner
from hotlap.learning.zips import open_zip
from hotlap.records import EvalResult
from hotlap.research.twins import with_slow_copies, with_twins, without_twins
from hotlap.research.zoo import PREFIX, zoo_folder
from hotlap.store.bundle import Bundle, is_bundle, load_bundle, save_bundle
from hotlap.tasks.space_tables import describe_space, read_space

FORMAT = 1


@dataclass(frozen=True)
class Model:
    """A trained policy and what it was trained for."""

    name: str
    policy: Policy
    seen: spaces.Space
    """Observations as its environments give them."""
    run: RunConfig | None
    """The run that made it; none for a zip from elsewhere."""
    before: tuple[str, ...] | None = None
    """Words for the tracks of the models that it began with; none where only they know."""

    def driver(self, deterministic: bool = True) -> Driver:
        """Who drives as the policy says."""
        return Driver(self.policy, self.seen, deterministic)


def save_model(
    folder: Path,
    config: RunConfig,
    learner: Learner,
    seen: spaces.Space,
    evaluation: EvalResult | None,
) -> None:
    """Write a learner's policy as a bundle, with the zip for Stable-Baselines3 beside it."""
    zipped = io.BytesIO()
    with learner.at_its_best():
        learner.save(zipped)
        weights = {
            name: value.detach().cpu().clone()
            for name, value in without_twins(learner.policy.state_dict()).items()
        }
    assert learner.action_space is not None
    table = {
        "format": FORMAT,
        "hotlap": __version__,
        "run": to_table(config),
        "observation_space": describe_space(seen),
        "action_space": describe_space(learner.action_space),
    }
    save_bundle(
        folder,
        Bundle(
            weights=weights,
            config=table,
            normaliser=_normaliser(learner),
            model_zip=zipped.getvalue(),
            evaluation=None if evaluation is None else evaluation.to_table(),
        ),
    )


def add_evaluation(folder: Path, evaluation: EvalResult) -> None:
    """Write into a bundle how its policy did."""
    bundle = load_bundle(folder, with_zip=True)
    parts = {name: getattr(bundle, name) for name in ("weights", "config", "normaliser")}
    save_bundle(
        folder, Bundle(**parts, model_zip=bundle.model_zip, evaluation=evaluation.to_table())
    )


def _normaliser(learner: Learner) -> dict[str, Any] | None:
    """How observations and rewards were scaled; the policy's own copy is among its weights."""
    table: dict[str, Any] = dict(learner.extra_state())
    for part in learner.policy.modules():
        if isinstance(part, Scaled):
            table |= {name: value.tolist() for name, value in part.named_buffers()}
    names = ("mean", "spread", "count")
    kept = {k: v for k, v in table.items() if k in names or k.startswith("reward_scale.")}
    return kept or None


def open_model(
    name: str, device: str = "cpu", trust: bool = False, algorithm: str = "auto"
) -> Model:
    """The model of that name: a run's folder, a bundle, `zoo:NAME`, or with trust an SB3 zip."""
    path = Path(name)
    if not name.startswith(PREFIX) and path.suffix == ".zip" and path.is_file():
        return _open_zip(name, path, device, trust, algorithm)
    model = _open_bundle(name, find_bundle(name), device)
    if model.run is not None and algorithm not in ("auto", model.run.agent_name):
        raise ValueError(f"{name} was made by {model.run.agent_name}; leave --algorithm out")
    return model


def find_bundle(name: str) -> Path:
    """The bundle of that name: a run's folder, a bundle itself, or `zoo:NAME`."""
    path = zoo_folder(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else Path(name)
    for folder in (path, path / "model") if path.is_dir() else ():
        if is_bundle(folder):
            return folder
    raise ValueError(
        f"no model at {name}: expected a run's folder, a folder with weights.safetensors and "
        "manifest.json, zoo:NAME, or a Stable-Baselines3 zip"
    )


def _open_bundle(name: str, folder: Path, device: str) -> Model:
    bundle = load_bundle(folder)
    table = bundle.config
    if table.get("format") != FORMAT:
        raise ValueError(
            f"{folder} has format {table.get('format')!r}, this hotlap reads {FORMAT}; "
            "use the version it was made with"
        )
    run = from_table(RunConfig, table["run"], str(folder))
    seen, actions = (read_space(table[f"{n}_space"]) for n in ("observation", "action"))
    policy = make_policy(run.agent, seen, actions)
    load_weights(policy, bundle.weights, str(folder))
    before = table.get("before")
    return Model(name, policy.to(device), seen, run, None if before is None else tuple(before))


def load_weights(policy: Policy, weights: dict[str, Any], source: str) -> None:
    """Give a policy other weights, refused where they do not fit."""
    own = policy.state_dict()
    weights = with_slow_copies(with_twins(weights, own), own)
    for name in sorted(own.keys() | weights.keys()):
        ours, theirs = (tuple(w[name].shape) if name in w else None for w in (own, weights))
        if ours != theirs:
            raise ValueError(
                f"the weights of {source} do not fit: {name} is {theirs} there and {ours} here; "
                "use the task, camera, stack, actions and net it was trained with"
            )
    policy.load_state_dict(weights)


def _open_zip(name: str, path: Path, device: str, trust: bool, algorithm: str) -> Model:
    if not trust:
        raise ValueError(
            f"{path} is a pickle, which can run any code when opened; "
            "if you trust whoever made it, say --trust"
        )
    policy, seen = open_zip(path, device, algorithm)
    return Model(name, policy, seen, None)
