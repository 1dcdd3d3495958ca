"""hotlap: an autonomous research lab for driving agents."""

__version__ = "0.1.0"
