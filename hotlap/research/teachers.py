"""Teachers by name: models that know more of the same worlds than the learner sees."""

from dataclasses import replace

from hotlap.config.learners import PPOConfig
from hotlap.config.randomisation import RandomisationConfig
from hotlap.config.runs import RunConfig
from hotlap.config.tasks import DonkeyConfig
from hotlap.learning.teaching import Teacher
from hotlap.research.models import open_model
from hotlap.tasks.donkey import DonkeyTask
from hotlap.tasks.task import Task


def make_eyes(task: DonkeyTask, settings: DonkeyConfig) -> DonkeyTask:
    """A task that sees the worlds of another as these settings say; it begins none of its own."""
    plain = replace(settings, randomise=RandomisationConfig())
    return DonkeyTask(plain, task.device, tracks=task.roads.tracks)


def find_teacher(config: RunConfig, agent: PPOConfig, task: Task) -> Teacher:
    """The teacher that a run's learner asks for, with eyes for the worlds that it drives in."""
    assert agent.teacher is not None
    model = open_model(agent.teacher, config.device)
    refuse_unfit(model.run, config, agent.teacher)
    assert model.run is not None and isinstance(model.run.settings, DonkeyConfig)
    assert isinstance(task, DonkeyTask)
    eyes = make_eyes(task, model.run.settings)
    weights = (agent.teacher_weight, agent.teacher_until, agent.teacher_fade)
    return Teacher(model.driver(), eyes, *weights)


def refuse_unfit(teacher: RunConfig | None, run: RunConfig, name: str) -> None:
    """Stop where a teacher of this name, trained like this, cannot teach a run."""
    taught, own = None if teacher is None else teacher.settings, run.settings
    if not isinstance(own, DonkeyConfig) or not isinstance(taught, DonkeyConfig):
        raise ValueError(f"only drivers of donkey tasks teach or are taught, not {name}")
    assert teacher is not None
    if taught.sensor == "camera" or teacher.interface.stack > 1:
        raise ValueError(
            f"{name} sees pictures or several moments; a teacher sees the moment in "
            "numbers: train one with `hotlap train donkey-state`"
        )
    if "discrete" in (run.interface.actions, teacher.interface.actions):
        raise ValueError(
            f"advice is a steering angle and a throttle: {name} and this run both need "
            "continuous actions; leave --actions out"
        )
    if taught.vehicle != own.vehicle:
        raise ValueError(
            f"{name} drives the car {taught.vehicle!r} and this run "
            f"{own.vehicle!r}; a teacher knows its own car only"
        )
    if _bounds(taught) != _bounds(own):
        raise ValueError(
            f"{name} steers and drives within other bounds than this run: "
            f"{_bounds(taught)}, here {_bounds(own)}; set the same steer_limit, throttle_min and "
            "throttle_max"
        )


def _bounds(config: DonkeyConfig) -> str:
    """What a driver may do, in words."""
    side, least, most = config.steer_limit, config.throttle_min, config.throttle_max
    return f"steering {-side:g} to {side:g}, throttle {least:g} to {most:g}"
