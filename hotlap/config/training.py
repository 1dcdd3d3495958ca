"""What `hotlap train` can be told."""

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from hotlap.config.bridges import SCENES, BridgeConfig, over_the_wire
from hotlap.config.carracing import Backend, CarRacingConfig
from hotlap.config.commands import Command
from hotlap.config.interface import InterfaceConfig
from hotlap.config.learners import (
    AGENTS,
    DQNConfig,
    PPOConfig,
    ReplayConfig,
    SACConfig,
    TQCConfig,
)
from hotlap.config.naming import nearest
from hotlap.config.presets import load_preset
from hotlap.config.runs import Agent, EvaluationConfig, RollbackConfig, RunConfig, Settings
from hotlap.config.schedules import CurriculumConfig, PLRConfig, ScheduleConfig, ScheduleName
from hotlap.config.strengths import find_randomisation
from hotlap.config.tasks import DonkeyConfig, TagConfig

TRACKERS = ("wandb", "trackio", "mlflow")
SHORTEST_SEGMENT = 8192
"""Steps below which a checkpoint and an evaluation are not worth their time."""
SEGMENTS = 20
"""Segments of a training, unless their length is set."""
KnownTasks = dict[str, tuple[type, dict[str, Any]]]
"""Class of settings and preset values of each task by its name."""
CARRACING_VALIDATION = ("carracing:80000-80127",)
"""What CarRacing's checkpoints are chosen by, unless told otherwise."""
REAL_CARS, MOST_REAL_CARS = 8, 256
"""Cars of the real CarRacing that ppo drives at once unless told otherwise, and most that anyone
may: they take a core's time and 4 MB of memory each."""
WORTH_COMPILING = {"cpu": 1_500_000, "cuda": 5_000_000}
"""Steps from which compiling saves more time than it takes."""


@dataclass(frozen=True)
class TrainConfig(Command):
    """Train a driver, judge it on unseen seeds, and keep the best."""

    task: str = "donkey"
    """What is driven: donkey, donkey-lidar, donkey-telemetry, carracing, tag, or a Gymnasium id."""
    env: str | None = None
    """The same as the task, by the name the original tools use for it."""
    agent: Literal["ppo", "dqn", "sac", "tqc"] = "ppo"
    """Who learns."""
    timesteps: int = 100_000
    """Steps to train for, all environments together."""
    seed: int = 0
    """Seed of everything random."""
    eval_episodes: int = 10
    """Episodes of every evaluation."""
    n_steer: int = 5
    """Steering commands to choose from, where actions are discrete."""
    n_throttle: int = 3
    """Throttle commands to choose from, where actions are discrete."""
    actions: Literal["auto", "continuous", "discrete"] = "auto"
    """Kind of actions; auto is discrete for dqn and continuous for the others."""
    learning_rate: float | None = None
    """Step size of the optimiser; none takes the learner's own."""
    envs: int | None = None
    """Environments driven at once; none takes the learner's own."""
    replay_size: int | None = None
    """Steps kept to learn from; none takes the learner's own (ppo keeps none)."""
    reward_shaping: str | None = None
    """Named reward; none is the task's own."""
    track: tuple[str, ...] = ()
    """Tracks to train on: names, ranges such as circuit:0-199 (below 90000) or all; none takes the
    preset's."""
    schedule: ScheduleName = "parallel"
    """Which of several tracks are driven when: all at once, one after another (switch), from easy
    to hard by success (curriculum), or those from which most is to be learned (plr)."""
    host: str | None = None
    """Drive over the wire, in the simulators on this machine; left out, drive in this process."""
    port: tuple[int, ...] = ()
    """Where those simulators listen (9091 if left out); several are driven at once."""
    backend: Backend | None = None
    """Where CarRacing is driven: twin (as if left out), or gymnasium, the real one."""
    recipe: str | None = None
    """Settings of a whole run: a shipped recipe by name, or a TOML file of your own; what is set
    beside it comes on top."""
    preset: str = "auto"
    """Settings of the task: a shipped preset by name, or a TOML file of your own."""
    randomise: str | None = None
    """What differs between episodes: none, light (half of everything), full, or parts of full, such
    as looks,friction,delay (others: image, lens, car, steering); left out it is the preset's."""
    teacher_recipe: str | None = None
    """Train a teacher by this recipe first, while this run is made ready, and be taught by it;
    where ppo.teacher names one, that teaches."""
    save_dir: Path | None = None
    """The run's folder; none makes one under the root."""
    resume: Path | None = None
    """Go on with the run in this folder, with its own settings."""
    init_from: str | None = None
    """Begin with the weights of this model."""
    trust: bool = False
    """Open models that could run code when opened, such as zips from elsewhere."""
    device: str = "auto"
    """Where to run: auto, cpu, cuda, or one card such as cuda:1."""
    compiled: Literal["auto", "on", "off"] = "auto"
    """Whether to compile; auto does where there is a compiler and the run is long enough."""
    threads: int = 1
    """Threads per process; more than one is slower on small machines."""
    segment_steps: int = 0
    """Steps between two checkpoints; 0 makes twenty segments, or fewer if they were short."""
    video: bool = False
    """Film the final policy."""
    trackers: tuple[str, ...] = ()
    """Also report to wandb, trackio or mlflow; each needs its package."""
    evaluation_start: Literal["line", "random"] = "random"
    """Where judged episodes begin: at rest on the line, or anywhere, most of them rolling."""
    evaluation_reward: str | None = None
    """Named reward that judged episodes count; none is the one trained with."""
    evaluation_track: tuple[str, ...] = ()
    """Tracks to judge on, and choose the best policy by; none takes those trained on."""
    evaluation_randomised: bool = True
    """Whether judged episodes are randomised as those of the training are."""
    milestones: int = 0
    """Policies of the latest segments that stay beside the best, each a model of its own."""
    rollback: RollbackConfig = field(default_factory=RollbackConfig)
    """What is done after a collapse."""
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    """Settings of the schedule curriculum."""
    plr: PLRConfig = field(default_factory=PLRConfig)
    """Settings of the schedule plr."""
    bridge: BridgeConfig = field(default_factory=BridgeConfig)
    """How simulators are driven over the wire."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Settings of ppo."""
    dqn: DQNConfig = field(default_factory=DQNConfig)
    """Settings of dqn."""
    sac: SACConfig = field(default_factory=SACConfig)
    """Settings of sac."""
    tqc: TQCConfig = field(default_factory=TQCConfig)
    """Settings of tqc."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        if self.agent not in AGENTS:
            raise ValueError(nearest(self.agent, AGENTS, "agent"))
        if self.timesteps < 1:
            raise ValueError(f"timesteps must be at least 1, got {self.timesteps}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {self.device!r}")
        if self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")
        if self.segment_steps < 0:
            raise ValueError(f"segment_steps must be 0 or more, got {self.segment_steps}")
        if self.agent == "dqn" and self.actions == "continuous":
            raise ValueError(
                "dqn chooses among discrete actions; leave --actions out (they are made discrete "
                "by --n-steer and --n-throttle), or use --agent ppo, sac or tqc"
            )
        if self.agent in ("sac", "tqc") and self.actions == "discrete":
            raise ValueError(
                f"{self.agent} needs continuous actions; leave --actions out, "
                "or use --agent dqn or ppo"
            )
        for name in self.trackers:
            if name not in TRACKERS:
                raise ValueError(nearest(name, TRACKERS, "tracker"))
        if self.env is not None and self.task not in ("donkey", self.env):
            raise ValueError(f"two tasks: {self.task} and --env {self.env}; leave one out")
        if self.teacher_recipe is not None and self.agent != "ppo":
            raise ValueError(f"only ppo is taught, not {self.agent}; leave teacher_recipe out")
        over_the_wire(self.bridge, self.host, self.port)  # refuses an address at once
        self.agent_settings()  # refuses a learning rate or a number of environments at once
        if self.agent == "ppo" and self.ppo.spread_anew:
            if self.init_from is None:
                raise ValueError("ppo.spread_anew is for runs that begin with a model: --init-from")
            if self.actions == "discrete":
                raise ValueError("ppo.spread_anew is for continuous actions; leave it out")

    def agent_settings(self) -> Agent:
        """The chosen learner's settings, with what was set for any."""
        chosen: Agent = getattr(self, self.agent)
        if self.learning_rate is not None:
            chosen = replace(chosen, learning_rate=self.learning_rate)
        if self.envs is not None:
            chosen = replace(chosen, envs=self.envs)
        if self.replay_size is not None:
            if not isinstance(chosen, ReplayConfig):
                raise ValueError(f"{self.agent} keeps no replay; leave --replay-size out")
            chosen = replace(chosen, replay_size=self.replay_size)
        return chosen

    def interface(self, agent: Agent) -> InterfaceConfig:
        """What stands between the task and the learner."""
        discrete = self.agent == "dqn" or self.actions == "discrete"
        return InterfaceConfig(
            actions="discrete" if discrete else "continuous",
            n_steer=self.n_steer,
            n_throttle=self.n_throttle,
            stack=agent.stack,
            stack_every=agent.stack_every if isinstance(agent, PPOConfig) else 1,
        )

    def usual_recipe(self, on_gpu: bool) -> str | None:
        """The recipe that a task has by itself, where nothing else says how it is seen."""
        asks = self.recipe or self.preset != "auto" or self.backend or self.resume
        asks = asks or self.init_from  # which decides what is seen
        if (self.env or self.task) != "carracing" or asks or self.agent == "tqc":
            return None
        if self.agent == "ppo":
            return "carracing" if on_gpu else "carracing-small"
        return f"carracing-{self.agent}"

    def settle(self, device: str, has_compiler: bool, known_tasks: KnownTasks) -> RunConfig:
        """The run that this asks for, on a device that is there.

        Args:
            device: cpu, cuda or cuda:N.
            has_compiler: Whether anything can be compiled at all.
            known_tasks: Class of settings and preset values of each task by its name.
        """
        if (self.env or self.task) in SCENES:
            return self._on_scene().settle(device, has_compiler, known_tasks)
        task, agent, settings = self.env or self.task, self.agent_settings(), None
        bridge = over_the_wire(self.bridge, self.host, self.port)
        outside = bridge is not None
        if task in known_tasks:
            settings = self._task_settings(known_tasks[task], on_gpu=device != "cpu")
            if bridge is not None:
                agent, settings = self._for_simulators(bridge, agent, settings)
            elif isinstance(settings, CarRacingConfig) and settings.outside:
                agent, outside = self._for_real_cars(agent), True
        else:
            self._refuse_for_gym()
            agent = _for_gym(agent)
        reward = self.evaluation_reward or getattr(agent, "finish", None)
        judged = self.evaluation_track
        if isinstance(settings, CarRacingConfig):
            reward = reward or "default"  # a score means Gymnasium's own, whatever was trained with
            judged = judged or CARRACING_VALIDATION
        per_update = agent.envs * (agent.steps if isinstance(agent, PPOConfig) else 1)
        length = self.segment_steps or max(SHORTEST_SEGMENT, -(-self.timesteps // SEGMENTS))
        if agent.encoder == "auto":
            agent = replace(agent, encoder="small" if device == "cpu" else "nature")
        worth = self.timesteps >= WORTH_COMPILING[device.partition(":")[0]]
        compiled = self.compiled == "on" or (self.compiled == "auto" and has_compiler and worth)
        return RunConfig(
            task=task,
            settings=settings,
            agent=agent,
            interface=self.interface(agent),
            timesteps=self.timesteps,
            segment_steps=-(-length // per_update) * per_update,
            seed=self.seed,
            device=device,
            threads=self.threads,
            compiled=compiled and settings is not None and not outside,
            evaluation=EvaluationConfig(
                episodes=self.eval_episodes,
                start=self.evaluation_start,
                reward=reward,
                tracks=judged,
                randomised=self.evaluation_randomised,
            ),
            milestones=self.milestones,
            rollback=self.rollback,
            schedule=ScheduleConfig(self.schedule, self.curriculum, self.plr),
            init_from=self.init_from,
            bridge=bridge,
        )

    def _on_scene(self) -> "TrainConfig":
        """The same by our own names, where gym_donkeycar's name of an environment was given."""
        name = self.env or self.task
        if self.track not in ((), (SCENES[name],)):
            raise ValueError(f"{name} is driven on {SCENES[name]}; leave --track out, or --env")
        return replace(self, task="donkey", env=None, track=(SCENES[name],))

    def _for_simulators(
        self, bridge: BridgeConfig, agent: Agent, settings: Settings
    ) -> tuple[Agent, DonkeyConfig]:
        """Settings for a few simulators over the wire."""
        count = len(bridge.addresses)
        if not isinstance(settings, DonkeyConfig):
            raise ValueError("only donkey is driven over the wire; leave --host and --port out")
        if settings.sensor != "camera":
            raise ValueError(
                f"only the camera can be driven by over the wire, not {settings.sensor}; "
                "write donkey, or leave --host and --port out"
            )
        if self.envs not in (None, count):
            raise ValueError(
                f"an address is one environment: --envs {self.envs} needs as many, got {count}; "
                "write a --port for each (hotlap serve takes several on one port)"
            )
        self._refuse_outside(agent, "--host")
        return _with_few(agent, count, as_usual=True), settings

    def _for_real_cars(self, agent: Agent) -> Agent:
        """Settings of a learner for cars of the real CarRacing."""
        self._refuse_outside(agent, "drive in the twin (--backend twin)")
        for name in ("reward_shaping", "evaluation_reward"):
            if getattr(self, name) not in (None, "default"):
                raise ValueError(
                    f"--{name.replace('_', '-')} {getattr(self, name)} is for the twin: Gymnasium "
                    "pays its own reward only; leave it out, or --backend"
                )
        count = agent.envs
        unsaid = self.recipe is None and self.envs is None
        if unsaid and isinstance(agent, PPOConfig) and count == PPOConfig.envs:
            count = REAL_CARS
        if count > MOST_REAL_CARS:
            raise ValueError(
                f"{count} cars of the real CarRacing are too many, {MOST_REAL_CARS} the most; "
                f"write --envs {REAL_CARS}"
            )
        return _with_few(agent, count, as_usual=self.recipe is None)

    def _refuse_outside(self, agent: Agent, flag: str) -> None:
        """Stop at what needs worlds in this process; `flag` says what to leave out instead."""
        if self.schedule != "parallel":
            raise ValueError(
                f"--schedule {self.schedule} is for worlds in this process; leave it out, or {flag}"
            )
        if self.randomise:
            raise ValueError(f"--randomise is for worlds in this process; leave it out, or {flag}")
        if self.teacher_recipe or (isinstance(agent, PPOConfig) and agent.teacher):
            raise ValueError(f"a teacher needs worlds in this process; leave it out, or {flag}")
        if isinstance(agent, PPOConfig):
            for name, value, without in (
                ("ramp", agent.ramp[1], "ramp 0 0"),
                ("finish", agent.finish, "finish None"),
                ("knowing", agent.knowing, "no-knowing"),
            ):
                if value:
                    raise ValueError(
                        f"ppo.{name} is for worlds in this process; leave it out (beside a recipe: "
                        f"--ppo.{without}), or {flag}"
                    )

    def _refuse_for_gym(self) -> None:
        """Stop at what has no meaning in an environment that is not ours."""
        usual = TrainConfig()
        for name in ("track", "preset", "randomise", "reward_shaping", "actions", "n_steer",
                     "n_throttle", "evaluation_start", "evaluation_reward", "evaluation_track",
                     "evaluation_randomised", "video", "host", "port", "bridge",
                     "backend", "teacher_recipe"):  # fmt: skip
            if getattr(self, name) != getattr(usual, name):
                raise ValueError(
                    f"--{name.replace('_', '-')} is for hotlap's own tasks, and "
                    f"{self.env or self.task} is none of them"
                )

    def refuse_changes(self) -> None:
        """Stop at settings beside --resume: a run goes on with its own."""
        usual = TrainConfig()
        free = {"resume", "json", "debug", "root", "trust", "trackers", "video", "device"}
        # A recipe first: it is what changed all the others.
        for name in ("recipe", *(f.name for f in fields(self) if f.name not in free)):
            if getattr(self, name) != getattr(usual, name):
                raise ValueError(
                    f"a resumed run keeps its own settings; leave --{name.replace('_', '-')} out, "
                    "or begin another run, perhaps with --init-from"
                )

    def _task_settings(self, known: tuple[type, dict[str, Any]], on_gpu: bool) -> Settings:
        """Settings of one of our tasks: its preset's, then what was set here."""
        kind, preset = known
        if self.backend is not None and kind is not CarRacingConfig:
            raise ValueError("--backend is for carracing only; leave it out")
        if kind is TagConfig:
            self._refuse_beside_donkey("track", "reward_shaping", "evaluation_reward",
                                       "evaluation_track")  # fmt: skip
            return TagConfig() if self.preset == "auto" else load_preset(TagConfig, self.preset)
        if kind is CarRacingConfig:
            self._refuse_beside_donkey("evaluation_start")
            return self._carracing_settings()
        name = self.preset
        if name == "auto":
            name = "donkey/learn" if on_gpu else "donkey/learn-small"
        settings = replace(load_preset(DonkeyConfig, name), **preset)
        if self.track:
            settings = replace(settings, tracks=self.track)
        if self.randomise:
            settings = replace(settings, randomise=find_randomisation(self.randomise))
        if self.reward_shaping:
            settings = replace(settings, reward=self.reward_shaping)
        return settings

    def _refuse_beside_donkey(self, *names: str) -> None:
        """Stop at settings that only donkey tasks have: these, and what none but they have."""
        for name in (*names, "randomise", "evaluation_randomised", "teacher_recipe"):
            if getattr(self, name) != getattr(TrainConfig, name):
                raise ValueError(f"--{name.replace('_', '-')} is for donkey tasks only")
        if self.agent == "ppo":
            _refuse_for_others(self.ppo)

    def _carracing_settings(self) -> CarRacingConfig:
        name = "carracing/default" if self.preset == "auto" else self.preset
        settings = load_preset(CarRacingConfig, name)
        backend = self.backend or settings.backend
        if backend == "envpool":
            raise ValueError(
                "training is done in the twin or in gymnasium: EnvPool makes its own tracks, and "
                "nobody could say which of them were judged; use --backend gymnasium"
            )
        settings = replace(settings, backend=backend)
        if settings.outside:  # nothing else is to be had there, whatever the twin was trained with
            settings = replace(settings, reward="default", start="line")
        if self.track:
            settings = replace(settings, tracks=self.track)
        if self.reward_shaping:
            settings = replace(settings, reward=self.reward_shaping)  # type: ignore[arg-type]
        return settings


def _with_few(agent: Agent, count: int, as_usual: bool) -> Agent:
    """Settings of a learner with few environments, every step of which takes its time.

    Where things may be `as_usual`, ppo's own number of steps is taken for one that nobody chose.
    """
    agent = replace(agent, envs=count)
    if as_usual and isinstance(agent, PPOConfig) and agent.steps == PPOConfig.steps:
        steps = max(1024 // count // 128, 1) * 128
        return replace(agent, steps=steps, batch_size=min(agent.batch_size, 128))
    if isinstance(agent, PPOConfig):
        return replace(agent, batch_size=min(agent.batch_size, count * agent.steps))
    return agent


def _refuse_for_others(agent: PPOConfig) -> None:
    """Stop at settings that only donkey tasks know."""
    for name, value in (
        ("teacher", agent.teacher), ("ramp", agent.ramp[1]), ("finish", agent.finish)
    ):  # fmt: skip
        if value:
            raise ValueError(f"ppo.{name} is for donkey tasks only; leave it out")


def _for_gym(agent: Agent) -> Agent:
    """Settings of a learner for an environment that is not ours: driven one by one, seen alone."""
    usual = type(agent)()
    if agent.stack not in (1, usual.stack):
        raise ValueError(
            f"stack is for hotlap's own tasks, got {agent.stack}; "
            "wrap the environment in gymnasium.wrappers.FrameStackObservation"
        )
    agent = replace(agent, stack=1)
    if isinstance(agent, PPOConfig):
        for name in ("normalise_observations", "normalise_rewards", "knowing"):
            if getattr(agent, name):
                raise ValueError(f"ppo.{name} is for hotlap's own tasks only")
        if agent.stack_every != 1:
            raise ValueError(f"stack_every is for hotlap's own tasks, got {agent.stack_every}")
        if agent.augment.active:
            raise ValueError("ppo.augment is for hotlap's own tasks only; use sac, tqc or dqn")
        _refuse_for_others(agent)
        if (agent.envs, agent.steps) == (PPOConfig.envs, PPOConfig.steps):
            agent = replace(agent, envs=8, steps=256, batch_size=min(agent.batch_size, 256))
    return agent
