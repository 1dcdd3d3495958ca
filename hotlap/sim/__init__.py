"""The world: vehicles, tracks, sensors and randomisation as batched torch functions; no rewards."""
