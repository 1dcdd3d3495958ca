"""Models between two models.

Nets that began with the same weights, and have not gone far, can be averaged: what lies between
them drives too. Nets that learned each by itself cannot, as the same number means another thing in
each.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from hotlap.config.blending import BlendConfig
from hotlap.learning.driver import Policy
from hotlap.research.contestants import words_before
from hotlap.research.models import Model, find_bundle, open_model
from hotlap.research.twins import without_twins
from hotlap.research.worlds import track_words
from hotlap.research.zoo_adding import slim_zip
from hotlap.store.bundle import Bundle, load_bundle, save_bundle

KIN = 0.5
"""Least likeness of models of which one came from the other. Strangers have one of about 0; a
champion after a million steps more had 0.995."""


def blend(config: BlendConfig) -> dict[str, Any]:
    """Write the model that lies between two, and say where."""
    a, b = open_model(config.a), open_model(config.b)
    _refuse_strangers(a, b)
    words = [word for model in (a, b) for word in words_before(model)]
    if a.run is not None:
        words += track_words(a.run)
    move(b.policy, a.policy, config.share)
    state = b.policy.state_dict()
    source = load_bundle(find_bundle(config.b), with_zip=True)
    zipped = source.model_zip
    if zipped is not None:
        zipped = slim_zip(zipped, lambda tensors: {name: state[name] for name in tensors})
    save_bundle(
        config.save_dir,
        Bundle(
            weights={name: tensor.clone() for name, tensor in without_twins(state).items()},
            config=source.config | {"before": list(dict.fromkeys(words))},
            normaliser=source.normaliser,
            model_zip=zipped,
        ),
    )
    print(
        f"{1 - config.share:g} of {config.a} and {config.share:g} of {config.b}: "
        f"{config.save_dir}\nnobody has judged it: hotlap evaluate {config.save_dir}",
        flush=True,
    )
    return {"model": str(config.save_dir), "share": config.share}


@torch.no_grad()
def move(policy: Policy, towards: Policy, share: float) -> None:
    """Give a policy the weights between another one's and `share` of its own.

    How it scales what it sees stays its own.
    """
    for own, other in zip(policy.parameters(), towards.parameters(), strict=True):
        own.copy_(other.lerp(own, share))


def likeness(a: Policy, b: Policy) -> float:
    """Cosine between all weights of one and all of the other."""

    def flat(policy: Policy) -> Tensor:
        return torch.cat([weights.detach().flatten() for weights in policy.parameters()])

    return float(cosine_similarity(flat(a), flat(b), dim=0))


def _refuse_strangers(a: Model, b: Model) -> None:
    """Stop where weights mean different things in both."""
    shapes = [
        [(name, tuple(w.shape)) for name, w in model.policy.named_parameters()] for model in (a, b)
    ]
    interfaces = [model.run and model.run.interface for model in (a, b)]
    if shapes[0] != shapes[1] or a.seen != b.seen or interfaces[0] != interfaces[1]:
        raise ValueError(
            f"{a.name} and {b.name} have other nets, see otherwise or act otherwise; "
            "blend a model with the one that it came from"
        )
    if (found := likeness(a.policy, b.policy)) < KIN:
        raise ValueError(
            f"{a.name} and {b.name} have hardly anything in common (likeness {found:.2f}, at least "
            f"{KIN:g} is needed): none came from the other, and what lies between cannot drive"
        )
