"""Shared by all tests: one thread per process, as the machine may be small and busy."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
