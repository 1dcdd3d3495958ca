"""Vehicle models as batched torch functions; `model.py` is the way in."""
