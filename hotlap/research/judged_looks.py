"""How much the episodes of an evaluation differ: as in the driver's own settings, or as asked.

Either way in looks that no training has: a driver that has learned pictures by heart shows it.
"""

from dataclasses import replace

from hotlap.config.judging import EvaluateConfig
from hotlap.config.strengths import find_randomisation, name_of
from hotlap.config.tasks import DonkeyConfig

JUDGED_PAINT = 1_000_000
"""Added to the number of a set of looks for judging."""


def as_asked(settings: DonkeyConfig, config: EvaluateConfig) -> DonkeyConfig:
    """Settings of a driver, randomised as an evaluation asks; said in a line either way."""
    ranges, own = settings.randomise, name_of(settings.randomise)
    if config.randomise is None:
        print(f"randomised: {own}, as its own settings say", flush=True)
    else:
        print(f"randomised: {config.randomise}, as asked; its own settings say {own}", flush=True)
        ranges = find_randomisation(config.randomise)
    if ranges.looks > 1:
        ranges = replace(ranges, paint=ranges.paint + JUDGED_PAINT)
    return replace(settings, randomise=ranges)
