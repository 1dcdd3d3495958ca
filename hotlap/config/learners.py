"""Settings of the learners."""

from dataclasses import dataclass, field, replace
from typing import Literal

from hotlap.config.augmentation import AugmentationConfig
from hotlap.config.naming import nearest
from hotlap.config.tasks import DONKEY_REWARDS

AGENTS = ("ppo", "dqn", "sac", "tqc")
ENCODERS = ("auto", "flat", "small", "nature")
SCHEDULES = ("constant", "linear")
POLICIES = ("gaussian", "squashed", "beta")


@dataclass(frozen=True)
class AgentConfig:
    """What every learner can be told."""

    envs: int = 64
    """Environments driven at once."""
    learning_rate: float = 3e-4
    """Step size of the optimiser at the start."""
    schedule: Literal["constant", "linear"] = "constant"
    """Whether the learning rate stays, or falls to nothing in a straight line."""
    gamma: float = 0.99
    """Discount per control step."""
    net: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of actor and critic."""
    layer_norm: bool = False
    """Normalise each hidden layer of the critics."""
    encoder: Literal["auto", "flat", "small", "nature"] = "auto"
    """How pictures become features: a small or the usual (nature) CNN; auto chooses by device."""
    features: int = 0
    """Features a picture becomes; 0 takes the encoder's own number."""
    standardise: bool = False
    """Give every picture mean 0 and spread 1 before it is looked at."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the nets (with a replay, of their look at pictures); auto takes bfloat16 where
    pictures are seen on a GPU. A CPU takes it when told to, if it can."""
    stack: int = 1
    """How many of the latest observations are seen together."""
    normalise_observations: bool = False
    """Scale numbers that are seen (not pictures) to mean 0 and spread 1, as seen so far."""
    augment: AugmentationConfig = field(default_factory=AugmentationConfig)
    """How pictures are changed at random when they are learned from."""

    def __post_init__(self) -> None:
        """Refuse what cannot learn."""
        for name in ("envs", "stack"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.learning_rate < 1:
            raise ValueError(
                f"learning_rate must lie between 0 and 1, got {self.learning_rate}; "
                "1e-4 to 1e-3 is usual"
            )
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must lie in 0..1, got {self.gamma}")
        if min(self.net, default=1) < 1:
            raise ValueError(f"net must hold widths of 1 or more, got {self.net}")
        if self.features < 0:
            raise ValueError(f"features must be 0 or more, got {self.features}")
        if self.encoder not in ENCODERS:
            raise ValueError(nearest(self.encoder, ENCODERS, "encoder"))
        if self.schedule not in SCHEDULES:
            raise ValueError(nearest(self.schedule, SCHEDULES, "schedule"))


@dataclass(frozen=True)
class PPOConfig(AgentConfig):
    """Proximal policy optimisation: learns from what it just drove, then forgets it."""

    envs: int = 128
    """Environments driven at once."""
    learning_rate: float = 1e-3
    """Step size of the optimiser at the start."""
    gamma: float = 0.98
    """Discount per control step."""
    stack: int = 2
    """How many of the latest observations are seen together."""
    stack_every: int = 1
    """Control steps between two of those."""
    steps: int = 32
    """Steps that every environment drives between two updates."""
    batch_size: int = 512
    """Samples per gradient step."""
    epochs: int = 4
    """How often every sample is learned from."""
    gae_lambda: float = 0.95
    """Decay of the generalised advantages."""
    clip: float = 0.2
    """How far the action probability ratio may move before the update stops paying for it."""
    entropy: float = 0.0
    """Weight of the policy's entropy."""
    value_weight: float = 0.5
    """Weight of the value's error."""
    max_grad_norm: float = 0.5
    """Longest gradient; longer ones are shortened to it."""
    target_kl: float = 0.0
    """Stop an update early when the policy has moved this far; 0 never does."""
    policy: Literal["gaussian", "squashed", "beta"] = "gaussian"
    """How actions are spread: cut off at their bounds, squashed between them, or a beta."""
    log_std: float = -0.5
    """Logarithm of the spread of the actions at the start (gaussian and squashed)."""
    spread_anew: bool = False
    """Whether a run that begins with a model takes that spread and not the model's, which has
    narrowed: to learn what the model never met, it has to try something."""
    normalise_rewards: bool = False
    """Scale rewards so that returns have spread 1, as seen so far."""
    teacher: str | None = None
    """Model whose advice is learned from at first; it may see what the learner does not."""
    teacher_weight: float = 20.0
    """Weight of the distance to the teacher's actions at the start."""
    teacher_until: float = 0.6
    """Share of the training over which that weight falls to nothing."""
    teacher_fade: float = 1.0
    """Power by which it falls: 1 is evenly; with 4 a third is left after a quarter of the way."""
    knowing: bool = False
    """Whether values are told by a net that knows the state in numbers; the policy does not."""
    describing: float = 0.0
    """Weight of how well the encoder can tell that state from what it sees; 0 does not ask."""
    ramp: tuple[float, float] = (0.0, 0.0)
    """Shares of the training at which randomised episodes set in, and are as many as the task's
    settings say; 0 and 0 is from the start."""
    finish: str | None = None
    """Named reward that the training's own turns into; where it does, policies are judged by it."""
    finish_between: tuple[float, float] = (0.4, 0.8)
    """Shares of the training at which it begins to turn, and has."""
    average_over: int = 1
    """Rollouts over which the weights are averaged before they are judged and kept; 1 takes the
    latest alone."""
    augment_weight: float = 0.1
    """Weight of the pull of policy and value on changed pictures towards those on real ones."""
    augment_share: float = 0.25
    """Part of every minibatch that is changed and judged again, where `augment` says how."""

    def __post_init__(self) -> None:
        """Refuse what cannot learn."""
        super().__post_init__()
        for name in ("steps", "batch_size", "epochs", "average_over", "stack_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.batch_size < 2:
            raise ValueError("batch_size must be at least 2: advantages are normalised in it")
        if not 0 < self.clip < 1:
            raise ValueError(f"clip must lie between 0 and 1, got {self.clip}")
        if not 0 <= self.gae_lambda <= 1:
            raise ValueError(f"gae_lambda must lie in 0..1, got {self.gae_lambda}")
        for name in ("entropy", "value_weight", "target_kl", "describing"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be positive, got {self.max_grad_norm}")
        if not self.augment_weight > 0:
            raise ValueError(
                f"augment_weight must be positive, got {self.augment_weight}; "
                "leave augment out to change no pictures"
            )
        if not 0 < self.augment_share <= 1:
            raise ValueError(f"augment_share must lie in (0, 1], got {self.augment_share}")
        if not (self.ramp == (0.0, 0.0) or 0 <= self.ramp[0] < self.ramp[1] <= 1):
            raise ValueError(f"ramp must rise within 0..1, or be 0 and 0, got {self.ramp}")
        if self.spread_anew and self.policy == "beta":
            raise ValueError(
                "spread_anew is for gaussian and squashed: a beta's is told by its net"
            )
        if self.finish is not None and self.finish not in DONKEY_REWARDS:
            raise ValueError(nearest(self.finish, DONKEY_REWARDS, "reward"))
        if not 0 <= self.finish_between[0] < self.finish_between[1] <= 1:
            raise ValueError(f"finish_between must rise within 0..1, got {self.finish_between}")
        if self.describing and not self.knowing:
            raise ValueError("describing needs the state in numbers, which knowing has: set both")
        for name in ("teacher_weight", "teacher_fade"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 < self.teacher_until <= 1:
            raise ValueError(f"teacher_until must lie in (0, 1], got {self.teacher_until}")
        if self.policy not in POLICIES:
            raise ValueError(nearest(self.policy, POLICIES, "policy"))


@dataclass(frozen=True)
class ReplayConfig(AgentConfig):
    """What the learners share that learn from a replay of all they drove."""

    envs: int = 8
    """Environments driven at once."""
    replay_size: int = 100_000
    """Steps that the replay holds, all environments together."""
    batch_size: int = 256
    """Samples per gradient step."""
    warm_up: int = 1000
    """Steps driven at random before the first update, all environments together."""
    updates_per_step: float = 0.25
    """Gradient steps per environment step."""
    max_updates_per_step: float = 6.0
    """Cap on `updates_per_step`: learning much more often from the same data makes values drift."""
    n_step: int = 1
    """Rewards added up before the rest is estimated."""
    tau: float = 0.005
    """Share of the net that its slow copy takes over at every update."""
    critic_grad_norm: float = 10.0
    """Longest gradient of the critics; 0 is no limit."""
    backup_clip: float = 0.0
    """Largest size of what a critic is taught; 0 is no limit."""
    reward_scale: float = 1.0
    """What rewards are multiplied by before they are learned from; returns are told without it."""
    shift: int = 0
    """Short for `augment.shift`; 0 leaves it to that."""

    def __post_init__(self) -> None:
        """Refuse what cannot learn."""
        super().__post_init__()
        for name in ("replay_size", "batch_size", "n_step"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        not_negative = ("warm_up", "critic_grad_norm", "backup_clip", "shift")
        for name in not_negative:
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        for name in ("updates_per_step", "max_updates_per_step", "reward_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.shift and self.augment.shift not in (0, self.shift):
            raise ValueError(
                f"shift is {self.shift} and augment.shift {self.augment.shift}, which is the same "
                "setting; leave one out"
            )
        if not 0 < self.tau <= 1:
            raise ValueError(f"tau must lie in (0, 1], got {self.tau}")
        if self.replay_size < self.envs * (self.n_step + self.stack + 1):
            raise ValueError(
                f"replay_size of {self.replay_size} is too small for {self.envs} environments; "
                f"at least {self.envs * (self.n_step + self.stack + 1)}"
            )

    @property
    def augmentation(self) -> AugmentationConfig:
        """How pictures are changed, whichever way it was set."""
        return replace(self.augment, shift=self.shift or self.augment.shift)


@dataclass(frozen=True)
class DQNConfig(ReplayConfig):
    """Deep Q-learning on discretised actions."""

    learning_rate: float = 5e-4
    """Step size of the optimiser at the start."""
    exploration_fraction: float = 0.3
    """Share of the training over which random actions become rare."""
    exploration_final: float = 0.05
    """Share of random actions after that."""
    double: bool = True
    """Let the net choose the next action and its slow copy judge it."""
    target_every: int = 0
    """Steps between copies of the net into its slow copy, which then ignores `tau`; 0 obeys it."""
    huber: float = 1.0
    """Error beyond which a sample pulls no harder. Where errors are larger, values become medians,
    to which a rare loss is nothing: choose it about as large as the largest rewards."""

    def __post_init__(self) -> None:
        """Refuse what cannot learn."""
        super().__post_init__()
        if self.target_every < 0:
            raise ValueError(f"target_every must be 0 or more, got {self.target_every}")
        if not self.huber > 0:
            raise ValueError(f"huber must be positive, got {self.huber}")
        for name in ("exploration_fraction", "exploration_final"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in 0..1, got {getattr(self, name)}")


@dataclass(frozen=True)
class SACConfig(ReplayConfig):
    """Soft actor-critic: values and a policy that stays as random as it can afford."""

    net: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critic."""
    learn_entropy: bool = True
    """Learn the weight of the entropy, towards `target_entropy`; else it stays at `entropy`."""
    entropy: float = 0.1
    """Weight of the entropy, at the start if it is learned."""
    target_entropy: float | None = None
    """Entropy to keep; none takes minus the number of actions."""
    entropy_rate: float = 0.0
    """Step size of the entropy's weight; 0 takes the learning rate."""
    entropy_bounds: tuple[float, float] = (1e-4, 1.0)
    """Least and greatest weight of the entropy."""
    actor_grad_norm: float = 10.0
    """Longest gradient of the actor; 0 is no limit."""

    def __post_init__(self) -> None:
        """Refuse what cannot learn."""
        super().__post_init__()
        low, high = self.entropy_bounds
        if not 0 < low <= self.entropy <= high:
            raise ValueError(
                f"entropy must lie within entropy_bounds, got {self.entropy} and {low}..{high}"
            )
        for name in ("entropy_rate", "actor_grad_norm"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")


@dataclass(frozen=True)
class TQCConfig(SACConfig):
    """SAC whose critics learn the spread of returns, the rosiest of which are left out."""

    quantiles: int = 25
    """Quantiles that each critic learns."""
    critics: int = 2
    """Number of critics."""
    drop: int = 2
    """Highest quantiles left out, per critic."""

    def __post_init__(self) -> None:
        """Refuse what cannot learn."""
        super().__post_init__()
        if self.critics < 1 or not 0 <= self.drop < self.quantiles:
            raise ValueError(
                f"critics must be at least 1 and drop less than quantiles, "
                f"got {self.critics}, {self.drop} and {self.quantiles}"
            )
