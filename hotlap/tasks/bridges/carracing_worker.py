"""Life of a process full of real CarRacing cars."""

import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection

import numpy as np

from hotlap.config.carracing import CarRacingConfig
from hotlap.sim.carracing.tile_track import TileTrack
from hotlap.tasks.bridges.carracing_env import CarRacingEnv


def serve(pipe: Connection, config: CarRacingConfig, count: int) -> None:
    """Do what comes through a pipe until that closes.

    A word of its own when it is there; then come tracks, and it answers when its cars are there.
    `[(place, seed, track), ...]` begins episodes and answers their pictures; where `track` is not
    None it is one of the given. An array of actions (count, A) drives all cars and answers their
    steps. What goes wrong is answered as words.
    """
    # A user's Ctrl-C reaches every process: the one that was asked closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            pipe.send(None)
            tracks: tuple[TileTrack, ...] = pipe.recv()
            envs = [CarRacingEnv(config) for _ in range(count)]
            pipe.send(None)
            while True:
                told = pipe.recv()
                if isinstance(told, np.ndarray):
                    pipe.send([env.step(act) for env, act in zip(envs, told, strict=True)])
                else:
                    pipe.send([
                        envs[place].reset(
                            seed=seed, options={"track": None if track is None else tracks[track]}
                        )[0]
                        for place, seed, track in told
                    ])  # fmt: skip
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except BaseException:
            pipe.send(traceback.format_exc())
