"""How much the episodes of an evaluation differ: as in the driver's own settings, or as asked."""

from dataclasses import replace

from hotlap.config.strengths import find_randomisation, name_of
from hotlap.config.tasks import DonkeyConfig
from hotlap.config.training import EvaluateConfig


def as_asked(settings: DonkeyConfig, config: EvaluateConfig) -> DonkeyConfig:
    """Settings of a driver, randomised as an evaluation asks; said in a line either way."""
    own = name_of(settings.randomise)
    if config.randomise is None:
        print(f"randomised: {own}, as its own settings say", flush=True)
        return settings
    print(f"randomised: {config.randomise}, as asked; its own settings say {own}", flush=True)
    return replace(settings, randomise=find_randomisation(config.randomise))
