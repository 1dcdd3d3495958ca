"""Does a batch keep its promises?

who     identities of the environments of a batch                                      (B,)
log     observation, reward, endings and books of every step, steps first              (T, B, ...)
exact   equal in every bit: what happens in the same batch, or is drawn
close   within the tolerance: what other batches compute, as processors sum in other orders
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotlap.tasks.batch import BatchEnv
from hotlap.tasks.task import Task, map_tree
from hotlap.testing.batch_play import Log, actions_at, apart, flat, play
from hotlap.testing.contract import expect

MakeBatch = Callable[[int, int, Tensor], BatchEnv]
FEW, MANY = 7, 64


def check_batch_env(
    make_batch: MakeBatch,
    *,
    steps: int = 100,
    seed: int = 7,
    tolerance: float = 1e-5,
    seeds_matter: bool = True,
) -> list[str]:
    """Check a batch with random actions.

        task = make_task("donkey-telemetry", max_steps=60)
        check_batch_env(lambda num_envs, seed, who: BatchEnv(task, num_envs, seed, who))

    Args:
        make_batch: Makes a batch of some size, seed and identities (B,).
        steps: Control steps to play; some episode must end within them.
        seed: What the batches are seeded with.
        tolerance: How far floats may differ between batches, absolute and relative.
        seeds_matter: Whether another seed must give other beginnings.

    Returns:
        What was checked, a sentence each.

    Raises:
        ContractError: With what was expected, what was found and what to try.
    """
    who = torch.arange(FEW)
    batch = make_batch(FEW, seed, who)
    _check_shapes(batch)
    _check_seeding(make_batch, seed, who, seeds_matter)
    log = play(batch, steps)
    _check_books(batch.task, log)
    _check_independence(make_batch, seed, steps, tolerance, log)
    _check_beginnings(make_batch(FEW, seed, who), log, tolerance)
    _check_masked_reset(make_batch, seed, who)
    _check_saving(make_batch, seed, who, steps)
    return [
        "shapes and types",
        "seeding",
        "rewards, returns, lengths and endings add up",
        f"alone, of {FEW} and of {MANY} in another order: the same",
        "what ends begins anew in the same step and its last observation is kept",
        "a masked reset changes no other",
        "what is saved goes on in every bit",
    ]


def _expect_same(one: Any, other: Any, tolerance: float, expected: str, advice: str) -> None:
    found = apart(flat(one), flat(other), tolerance)
    expect(found is None, expected, found, advice)


def _check_shapes(batch: BatchEnv) -> None:
    task = batch.task
    seats = (task.seats,) if task.seats > 1 else ()
    seen = batch.reset()
    wanted = (batch.num_envs, *seats, *task.observation_space.shape)
    kind = torch.from_numpy(np.zeros(0, task.observation_space.dtype)).dtype
    expect(
        tuple(seen.shape) == wanted and seen.dtype == kind,
        f"observations {kind} of shape {wanted}",
        f"{seen.dtype} of shape {tuple(seen.shape)}",
        "Task.present must return what the observation space says.",
    )
    step = batch.step(actions_at(task, batch.who, 0))
    for name, shape in {"reward": seats, "terminated": (), "truncated": ()}.items():
        found = tuple(getattr(step, name).shape)
        expect(found == (batch.num_envs, *shape), f"{name} (B, ...) of {shape}", found, "")


def _check_seeding(make_batch: MakeBatch, seed: int, who: Tensor, seeds_matter: bool) -> None:
    begun = [make_batch(len(who), number, who) for number in (seed, seed, seed + 1)]
    seen = [batch.reset() for batch in begun]
    worlds = [flat(batch.world) | {"observation": o} for batch, o in zip(begun, seen, strict=True)]
    advice = "Draw with keys made of (seed, who, episode) alone."
    found = apart(worlds[0], worlds[1], 0)
    expect(found is None, "the same seed to begin the same in every bit", found, advice)
    drawn = {name: leaf for name, leaf in worlds[0].items() if name.rpartition("/")[2] != "key"}
    other = apart(drawn, worlds[2], 0) is not None
    expect(other or not seeds_matter, "another seed to begin otherwise", "the same", advice)


def _check_books(task: Task, log: Log) -> None:
    """Rewards are their terms' sum, returns the rewards', and nothing ends twice."""
    both = int((log["terminated"] & log["truncated"]).sum())
    expect(both == 0, "an ending to be terminated or truncated", f"{both} that are both", "")
    found = float((log["reward"] - log["sum of terms"]).abs().max())
    expect(found < 1e-4, "the reward to be the sum of its terms", f"{found:.3g} apart", "")
    done = log["terminated"] | log["truncated"]
    expect(
        bool(done.any()),
        f"an episode to end within {len(done)} steps of random actions",
        "none",
        "Pass more steps, or a task with a smaller max_steps.",
    )
    earned = torch.zeros_like(log["reward"][0])
    length = torch.zeros_like(log["episode_length"][0])
    for t in range(len(done)):
        earned, length = earned + log["reward"][t], length + 1
        apart = float((earned - log["episode_return"][t]).abs().max())
        expect(apart < 1e-3, f"the return at step {t} to be the rewards' sum", apart, "")
        right = torch.equal(length, log["episode_length"][t])
        expect(right, f"lengths {length.tolist()} at step {t}", log["episode_length"][t], "")
        expect(int(length.max()) <= task.max_steps, "no more than max_steps", length.max(), "")
        earned[done[t]], length[done[t]] = 0, 0


def _check_independence(
    make_batch: MakeBatch, seed: int, steps: int, tolerance: float, log: Log
) -> None:
    """An environment is the same alone, in a batch of 64 and in any order."""
    order = torch.randperm(MANY, generator=torch.Generator().manual_seed(seed))
    places = torch.argsort(order)[:FEW]
    turned = torch.arange(FEW).flip(0)
    cases: list[tuple[str, Tensor, Tensor]] = [
        (f"in a batch of {MANY} in another order", order, places),
        ("in the opposite order", turned, turned),
        *((f"{i} alone", torch.tensor([i]), torch.tensor([0])) for i in (0, FEW - 1)),
    ]
    advice = "Look for sums over the batch, a shared generator, or state that is not (B, ...)."
    few = make_batch(FEW, seed, torch.arange(FEW))
    few.reset()
    for name, who, rows in cases:
        batch = make_batch(len(who), seed, who)
        batch.reset()
        mine = who[rows]
        here = {path: leaf[mine] for path, leaf in flat(few.world).items()}
        there = {path: leaf[rows] for path, leaf in flat(batch.world).items()}
        _expect_same(here, there, tolerance, f"environments {name} to begin the same", advice)
        there = {key: value[:, rows] for key, value in play(batch, steps).items()}
        here = {key: value[:, mine] for key, value in log.items()}
        _expect_same(here, there, tolerance, f"environments {name} to go the same way", advice)


def _check_beginnings(batch: BatchEnv, log: Log, tolerance: float) -> None:
    """At the first ending: the new episode's first observation, and the old one's last."""
    done = log["terminated"] | log["truncated"]
    t = int(done.any(1).nonzero()[0])
    index = done[t].nonzero().squeeze(-1).to(batch.task.device)
    play(batch, t)
    before, task = batch.world, batch.task
    action = actions_at(task, batch.who, t)
    batch_wide = action.view(len(action), task.seats, *task.action_space.shape)
    outcome = task.advance(before, batch_wide)
    chosen = map_tree(lambda leaf: leaf[index], outcome.state)
    wanted = _present(task, chosen)
    step = batch.step(action)
    _expect_same(
        {"observation": wanted},
        {"observation": batch.final_observation(index)},
        tolerance,
        f"final_observation after step {t} to be what the last action led to",
        "It must look at the world before ended episodes begin anew.",
    )
    episode = batch.save_state()["envs"]["episode"][index]
    # The seed as the batch gives it: a task may hash numbers and tensors differently.
    seed = torch.tensor(batch.seed, device=task.device)
    fresh = task.begin(seed, batch.who[index], episode)
    _expect_same(
        {"observation": _present(task, fresh)},
        {"observation": step.observation[index]},
        tolerance,
        f"the observation at step {t} to be the first of the next episode",
        "begin must be decided by (seed, who, episode) alone.",
    )


def _present(task: Task, world: Any) -> Tensor:
    seen = task.present(task.observe(world))
    return seen.squeeze(1) if task.seats == 1 else seen


def _check_masked_reset(make_batch: MakeBatch, seed: int, who: Tensor) -> None:
    plain, masked = make_batch(len(who), seed, who), make_batch(len(who), seed, who)
    for batch in (plain, masked):
        play(batch, 3)
    masked.reset(mask=who == 2)
    others = who[who != 2]
    logs = [play(batch, 10, first=3) for batch in (plain, masked)]
    here, there = ({k: v[:, others] for k, v in log.items()} for log in logs)
    advice = "Replace only the rows in the mask."
    _expect_same(here, there, 0, "resetting one environment to change no other bit", advice)
    begun = int(masked.save_state()["envs"]["episode"][2])
    behind = int(plain.save_state()["envs"]["episode"][2])
    expect(begun > behind, "the reset environment to be in a later episode", begun, advice)


def _check_saving(make_batch: MakeBatch, seed: int, who: Tensor, steps: int) -> None:
    batch, other = make_batch(len(who), seed, who), make_batch(len(who), seed + 1, who.flip(0))
    play(batch, steps // 3)
    saved = batch.save_state()
    log = play(batch, steps // 2, steps // 3)
    other.reset()
    for again in (batch, other):
        again.load_state(saved)
        advice = "Everything that decides the future must be in the state."
        replay = play(again, steps // 2, steps // 3)
        _expect_same(log, replay, 0, "what was saved to go on the same in every bit", advice)
