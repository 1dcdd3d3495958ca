"""The batch engine: many environments of one task, stepped together.

    B environments, S seats. Where a task has one seat its axis is dropped: rewards are (B,),
    observations (B, ...), actions (B, A); otherwise (B, S), (B, S, ...), (B, S, A).

An environment that ends is begun anew within the same step: the observation returned is the first
of its next episode, and the last of the ended one can still be had (`final_observation`), drawn
only when asked for. `terminated` (the task ended) and `truncated` (the clock did) stay apart.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hotlap.tasks.graph import GraphedTurn
from hotlap.tasks.memory import refuse_if_too_large
from hotlap.tasks.task import (
    State,
    Task,
    choose_tree,
    clone_tree,
    compiled,
    leaves,
    map_tree,
)

COMPILED_AT_ONCE = 64
"""Compiled steps that one process may keep, for batches of several tasks and sizes."""
AHEAD_OF_TIME = 1024
"""Largest batch on a CPU whose next episodes are begun ahead of time."""
CHECK_EVERY = 64
"""On a GPU, steps between looks for actions that are not numbers: looking makes it wait."""


@dataclass(frozen=True)
class Step:
    """What a step of the batch returns."""

    observation: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    terms: dict[str, Tensor]
    """The reward by name."""
    metrics: dict[str, Tensor]
    """Of the step just made, before any new beginning."""
    episode_return: Tensor
    """Sum of rewards of the episode so far, this step included."""
    episode_length: Tensor
    """Control steps of the episode so far, this one included (B,)."""

    @property
    def done(self) -> Tensor:
        """Whether the episode ended, either way (B,)."""
        return self.terminated | self.truncated


class BatchEnv:
    """B environments of a task.

    Args:
        task: What is played; its device is where everything lives.
        num_envs: B.
        seed: With an environment's identity, decides all its episodes.
        who: Identities (B,); 0, 1, 2, ... unless given. The same seed and identity give the same
            episodes in any batch.
        borrow: Hand out what a step returns without copying it first: a little faster, but it is
            the batch's own, and on a GPU the next step overwrites it.
        captured: On a GPU, launch all of a step's kernels at once; None does where the task is
            compiled. Without compiling this is slower, but ready at once.
    """

    def __init__(
        self,
        task: Task,
        num_envs: int,
        seed: int = 0,
        who: Tensor | None = None,
        borrow: bool = False,
        captured: bool | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        needed = num_envs * task.bytes_per_env
        refuse_if_too_large(num_envs, "environments", needed, task.device)
        self.task = task
        self.observation_space, self.action_space = task.observation_space, task.action_space
        self.num_envs = num_envs
        self.seed = seed
        # A captured step reads the seed here: as a Python number, it would be captured too.
        self._seed = torch.tensor(seed, dtype=torch.int64, device=task.device)
        self.who = torch.arange(num_envs) if who is None else torch.as_tensor(who)
        self.who = self.who.to(task.device, torch.int64)
        if self.who.shape != (num_envs,):
            raise ValueError(f"who must have shape ({num_envs},), got {tuple(self.who.shape)}")
        self._play_out: Callable[[State, Tensor], Played] = self._play
        self._begin: Callable[[Tensor, Tensor], State] = self._fresh
        self._begin_ended: Callable[[State, Tensor], State] = self._begun_anew
        self._pass_on: Callable[[State, Tensor], tuple[Played, State]] = self._play_and_begin
        self._observe: Callable[[State], Tensor] = task.observe
        self._turn: Callable[[State, Tensor], tuple[Played, State, Tensor]] = self._take_turn
        self._borrow = borrow
        self.overwrites = False
        self._on_cpu = task.device.type == "cpu"
        if self._on_cpu:
            self._pass_on = self._play_and_begin_some
        if task.compiled:
            dynamo = torch._dynamo.config
            dynamo.recompile_limit = max(dynamo.recompile_limit, COMPILED_AT_ONCE)
            if not task.staged:
                self._observe = compiled(task.observe)
            if self._on_cpu and not task.stages_steps:
                self._play_out, self._begin = compiled(self._play), compiled(self._fresh)
            elif not task.stages_steps:
                # As one they would run as fast, and be compiled in twice the time of the longer.
                self._play_out = compiled(self._play)
                self._begin_ended = compiled(self._begun_anew)
        if not self._on_cpu and (task.compiled if captured is None else captured):
            self._turn = GraphedTurn(self._take_turn)
            self.overwrites = True
        self._next: State | None = None
        self._steps = 0
        self._bad = torch.zeros(num_envs, dtype=torch.bool, device=task.device)
        self._state: State | None = None
        self._ended: State | None = None

    # --- beginning -----------------------------------------------------------------------------

    def reset(self, seed: int | None = None, mask: Tensor | None = None) -> Tensor:
        """Begin anew: everything, or with a mask (B,) only those, at their next episode."""
        if mask is None:
            self._sow(self.seed if seed is None else seed, steps=0)
            # No two parts in one place, as in every later state, or a step would be compiled twice.
            self._state = clone_tree(self._fresh(self.who, torch.zeros_like(self.who)))
        else:
            if seed is not None:
                raise ValueError(
                    "a masked reset goes on with the same seed; reset all to change it"
                )
            state = self._running
            fresh = self._fresh(self.who, state["episode"] + 1)
            self._state = choose_tree(mask.to(self.task.device), fresh, state)
        self._ended = None
        return self._seen(self._observe(self._running["world"]))

    def _sow(self, seed: int, steps: int) -> None:
        """Take a seed and a count of steps, and forget refused actions."""
        self.seed, self._steps, self._next = seed, steps, None
        self._seed.fill_(seed)
        self._bad.zero_()

    def _fresh(self, who: Tensor, episode: Tensor) -> State:
        """Fresh episodes with their clocks at zero."""
        zero = torch.zeros_like(who)
        earned = torch.zeros(len(who), self.task.seats, device=who.device)
        world = self.task.begin(self._seed, who, episode)
        return {"who": who, "episode": episode, "clock": zero, "earned": earned, "world": world}

    # --- stepping ------------------------------------------------------------------------------

    def step(self, action: Tensor) -> Step:
        """Advance every environment by one control step."""
        state = self._running
        action = self._checked(action)
        played, self._state, observation = self._turn(state, action)
        self._ended = played.state
        self._steps += 1
        if self._borrow:
            return self._step_of(played, observation)
        if self.overwrites:  # pictures are copied while they are packed
            observation = observation.clone()
        step = vars(self._step_of(played, observation))
        rest = {name: value for name, value in step.items() if name != "observation"}
        return Step(step["observation"], **clone_tree(rest))

    def compile_play(self) -> None:
        """Have a step compiled, without making one and without looking at anything."""
        self._play_out(*self._rehearsal())

    def compile_beginnings(self) -> None:
        """Have compiled how ended episodes begin anew."""
        played = self._play(*self._rehearsal())
        self._begin_ended(played.state, played.terminated | played.truncated)

    def _rehearsal(self) -> tuple[State, Tensor]:
        """A state and actions for a step that is not made."""
        state = clone_tree(self._fresh(self.who, torch.zeros_like(self.who)))
        return state, torch.zeros(self._acted, device=self.task.device)

    def _step_of(self, played: "Played", observation: Tensor) -> Step:
        """What the caller is told of a turn."""
        return Step(
            observation=self._seen(observation),
            reward=self._squeezed(played.reward),
            terminated=played.terminated,
            truncated=played.truncated,
            terms={name: self._squeezed(term) for name, term in played.terms.items()},
            metrics=played.metrics,
            episode_return=self._squeezed(played.state["earned"]),
            episode_length=played.state["clock"],
        )

    def _play(self, state: State, action: Tensor) -> "Played":
        """Advance, and keep the books of the episodes; nothing begins anew yet."""
        outcome = self.task.advance(state["world"], action)
        reward = torch.stack(list(outcome.terms.values())).sum(0)
        clock = state["clock"] + 1
        late = (clock >= self.task.max_steps) | outcome.cut
        books = {"clock": clock, "earned": state["earned"] + reward, "world": outcome.state}
        return Played(
            state=state | books,
            reward=reward,
            terminated=outcome.terminated,
            truncated=late & ~outcome.terminated,
            terms=outcome.terms,
            metrics=outcome.metrics,
        )

    def _take_turn(self, state: State, action: Tensor) -> tuple["Played", State, Tensor]:
        """Play, begin ended episodes anew, observe."""
        if not self._on_cpu:
            # Noted and left out: refusing here would make the GPU wait, and a step under a number
            # that is none would read beyond its tables.
            finite = torch.isfinite(action)
            self._bad |= ~finite.flatten(1).all(1)
            action = torch.where(finite, action, 0.0)
        played, begun = self._pass_on(state, action)
        return played, begun, self._observe(begun["world"])

    def _play_and_begin(self, state: State, action: Tensor) -> tuple["Played", State]:
        """Play, and begin ended episodes anew: static shapes, so it can be compiled."""
        played = self._play_out(state, action)
        return played, self._begin_ended(played.state, played.terminated | played.truncated)

    def _begun_anew(self, ended: State, over: Tensor) -> State:
        """The state with the next episode of those (B,) whose last is over."""
        fresh = self._fresh(ended["who"], ended["episode"] + 1)
        return map_tree(torch.Tensor.contiguous, choose_tree(over, fresh, ended))

    def _play_and_begin_some(self, state: State, action: Tensor) -> tuple["Played", State]:
        """The same, with the work of beginning done only for those that ended."""
        played = self._play_out(state, action)
        ended = played.state
        over = (played.terminated | played.truncated).nonzero().squeeze(-1)
        if not len(over):
            return played, ended
        fresh = self._next_episodes(ended, over)
        return played, map_tree(lambda old, new: old.index_copy(0, over, new), ended, fresh)

    def _next_episodes(self, ended: State, over: Tensor) -> State:
        """The beginnings that follow the ended episodes of `over` (K,).

        What begins next is decided long before, and beginning all at once takes hardly longer than
        beginning one: so a small batch begins everybody's next episode ahead of time, and again
        only when one that was handed out is asked for a second time.
        """
        episode = ended["episode"][over] + 1
        if self.num_envs > AHEAD_OF_TIME:
            return self._fresh(ended["who"][over], episode)
        if self._next is None or not torch.equal(self._next["episode"][over], episode):
            self._next = self._begin(ended["who"], ended["episode"] + 1)
        return map_tree(lambda leaf: leaf[over], self._next)

    def forget_beginnings(self) -> None:
        """Begin nothing that was prepared ahead of time: the task begins otherwise from now on."""
        self._next = None

    def final_observation(self, index: Tensor) -> Tensor:
        """What environments `index` (K,) saw last before the latest step began them anew."""
        return self.look(map_tree(lambda leaf: leaf[index], self.ended_world))

    @property
    def ended_world(self) -> State:
        """The task's state after the latest step, before anything began anew.

        Where `overwrites` is true, the next step overwrites it.
        """
        if self._ended is None:
            raise RuntimeError("there is no step to look back on; call step first")
        return self._ended["world"]

    def look(self, world: State) -> Tensor:
        """What is seen in any number of worlds."""
        if len(leaves(world)[0]) == self.num_envs:
            observed = self._observe(world)
            return self._seen(observed.clone() if self.overwrites else observed)
        with torch.compiler.set_stance("force_eager"):  # or it would compile for every number
            return self._seen(self.task.observe(world))

    # --- saving --------------------------------------------------------------------------------

    def save_state(self) -> State:
        """A copy of everything that decides the future."""
        self._refuse_bad()
        copy = map_tree(torch.clone, self._running)
        return {"seed": self.seed, "steps": self._steps, "envs": copy}

    def load_state(self, saved: State) -> Tensor:
        """Go on from a saved state; returns what is seen there."""
        if len(saved["envs"]["who"]) != self.num_envs:
            raise ValueError(
                f"the saved state holds {len(saved['envs']['who'])} environments, "
                f"this batch {self.num_envs}"
            )
        self._sow(saved["seed"], saved["steps"])
        self._state = map_tree(lambda leaf: leaf.to(self.task.device).clone(), saved["envs"])
        self.who = self._running["who"]
        self._ended = None
        return self._seen(self._observe(self._running["world"]))

    # --- checking ------------------------------------------------------------------------------

    @property
    def world(self) -> State:
        """The task's own state, as it is now."""
        return self._running["world"]

    @property
    def _running(self) -> State:
        if self._state is None:
            raise RuntimeError("the batch has not begun; call reset first")
        return self._state

    @property
    def _acted(self) -> tuple[int, ...]:
        """Shape of all actions of a step: (B, S, A)."""
        return (self.num_envs, self.task.seats, *self.task.action_space.shape)

    def _checked(self, action: Tensor) -> Tensor:
        """Actions as (B, S, A) float32, refused where they are not numbers."""
        wanted = self._acted
        action = action.to(self.task.device, torch.float32)
        if action.numel() != math.prod(wanted) or len(action) != self.num_envs:
            shape = wanted if self.task.seats > 1 else (wanted[0], *wanted[2:])
            raise ValueError(f"actions must have shape {shape}, got {tuple(action.shape)}")
        action = action.reshape(wanted)
        if self._on_cpu:
            self._bad |= ~torch.isfinite(action).flatten(1).all(1)
        if self._on_cpu or self._steps % CHECK_EVERY == 0:
            self._refuse_bad()
        return action

    def _refuse_bad(self) -> None:
        """Stop if any action was not a number, naming the first environment and when."""
        if not bool(self._bad.any()):
            return
        bad = self._bad.nonzero().squeeze(-1)
        self._bad.zero_()  # told once; whoever goes on starts clean
        place = int(bad[0])
        when = f"step {self._steps}"
        if not self._on_cpu:
            when = f"one of the steps {max(0, self._steps - CHECK_EVERY)} to {self._steps}"
        raise ValueError(
            f"action of environment {int(self.who[place])} (place {place} in the batch) at {when} "
            f"is not a finite number; {len(bad)} of {self.num_envs} are bad. "
            "Look for a diverged policy or a division by zero before this step."
        )

    def _seen(self, observed: Tensor) -> Tensor:
        """What a task observed, as the caller gets it."""
        return self._squeezed(self.task.present(observed))

    def _squeezed(self, value: Tensor) -> Tensor:
        """Without the seats' axis, where there is one seat."""
        return value.squeeze(1) if self.task.seats == 1 else value


@dataclass(frozen=True)
class Played:
    """A step with the books kept, before anything begins anew; tensors as in `Step`, seats kept."""

    state: State
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    terms: dict[str, Tensor]
    metrics: dict[str, Tensor]
