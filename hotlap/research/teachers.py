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


def find_teacher(config: RunConfig, agent: PPOConfig, task: Task) -> Teacher:
    """The teacher that a run's learner asks for, with eyes for the worlds that it drives in."""
    assert agent.teacher is not None
    model = open_model(agent.teacher, config.device)
    taught = None if model.run is None else model.run.settings
    if not isinstance(task, DonkeyTask) or not isinstance(taught, DonkeyConfig):
        raise ValueError(f"only drivers of donkey tasks teach or are taught, not {agent.teacher}")
    assert model.run is not None
    if taught.sensor == "camera" or model.run.interface.stack > 1:
        raise ValueError(
            f"{agent.teacher} sees pictures or several moments; a teacher sees the moment in "
            "numbers: train one with `hotlap train donkey-state`"
        )
    if config.interface.actions == "discrete" or model.run.interface.actions == "discrete":
        raise ValueError(
            f"advice is a steering angle and a throttle: {agent.teacher} and this run both need "
            "continuous actions; leave --actions out"
        )
    if taught.vehicle != task.config.vehicle:
        raise ValueError(
            f"{agent.teacher} drives the car {taught.vehicle!r} and this run "
            f"{task.config.vehicle!r}; a teacher knows its own car only"
        )
    eyes = DonkeyTask(
        replace(taught, randomise=RandomisationConfig()), task.device, tracks=task.roads.tracks
    )
    if eyes.action_space != task.action_space:
        raise ValueError(
            f"{agent.teacher} steers and drives within other bounds than this run: "
            f"{_bounds(eyes)}, here {_bounds(task)}; set the same steer_limit, throttle_min and "
            "throttle_max"
        )
    return Teacher(model.driver(), eyes, agent.teacher_weight, agent.teacher_until)


def _bounds(task: DonkeyTask) -> str:
    """What a driver of a task may do, in words."""
    (left, least), (right, most) = task.lowest.tolist(), task.highest.tolist()
    return f"steering {left:g} to {right:g}, throttle {least:g} to {most:g}"
