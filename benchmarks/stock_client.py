"""A trained camera driver through the unmodified gym_donkeycar client.

    hotlap serve --port 9091 &
    python benchmarks/stock_client.py zoo:donkey --env donkey-minimonaco-track-v0 --laps 3

Needs gym_donkeycar (github.com/tawnkramer/gym-donkeycar). Tells laps, lap times, steps per second,
and how long a step took, most of which is waiting for the next frame of the simulator.
"""

import argparse
import json
import logging
import time
import warnings

import gymnasium
import numpy as np
import torch

from hotlap.config.tasks import DonkeyConfig
from hotlap.research.models import open_model
from hotlap.tasks.bridges.pictures import LUMINANCE, camera_command
from hotlap.tasks.interface import Reel


def main() -> None:
    """Drive until the laps are done, the car has crashed, or time is up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="a run's folder, a bundle, or zoo:NAME")
    parser.add_argument("--env", default="donkey-generated-track-v0", help="of gym_donkeycar")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9091)
    parser.add_argument("--laps", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3000, help="most of them")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    import gym_donkeycar  # noqa: F401  (registers its environments)

    model = open_model(asked.model)
    settings = None if model.run is None else model.run.settings
    if not isinstance(settings, DonkeyConfig) or settings.sensor != "camera":
        raise SystemExit(f"{asked.model} does not drive by a camera")
    assert model.run is not None
    driver, camera = model.driver(), settings.camera
    reel = Reel(model.run.interface.stack, model.run.interface.stack_every)
    told = vars(camera_command(camera, "PNG"))
    lens = {name: told[name] for name in ("fov", "offset_y", "offset_z", "rot_x")}
    size = {"img_w": camera.width, "img_h": camera.height, "img_d": 3, "img_enc": "PNG"}
    env = gymnasium.make(
        asked.env,
        conf={
            "host": asked.host,
            "port": asked.port,
            "log_level": logging.WARNING,
            "cam_resolution": (camera.height, camera.width, 3),
            "cam_config": lens | size,
            "throttle_min": settings.throttle_min,
            "throttle_max": settings.throttle_max,
            "steer_limit": settings.steer_limit,
        },
    )

    def frame(seen: np.ndarray) -> torch.Tensor:
        if not camera.colour:
            seen = np.rint(seen @ LUMINANCE).astype(np.uint8)[..., None]
        return torch.as_tensor(seen).unsqueeze(0)

    seen, info = env.reset()
    shown = reel.begin(frame(seen))
    laps: list[float] = []
    took: list[float] = []
    thinking: list[float] = []
    speeds: list[float] = []
    crashed = False
    while len(laps) < asked.laps and len(took) < asked.steps and not crashed:
        began = time.perf_counter()
        action = driver(shown)[0].numpy()
        thinking.append(time.perf_counter() - began)
        seen, _, crashed, _, info = env.step(action)
        took.append(time.perf_counter() - began)
        shown = reel.add(frame(seen), torch.tensor([False]))
        speeds.append(info["speed"])
        if info["lap_count"] > len(laps):
            laps.append(info["last_lap_time"])
    env.close()
    answer = {
        "env": asked.env,
        "laps": len(laps),
        "lap_times": [round(seconds, 2) for seconds in laps],
        "crashed": bool(crashed),
        "steps": len(took),
        "steps_per_s": round(len(took) / sum(took), 1),
        "step_ms_p50_p95": [round(1000 * q, 1) for q in np.quantile(took, [0.5, 0.95])],
        "thinking_ms_p50_p95": [round(1000 * q, 1) for q in np.quantile(thinking, [0.5, 0.95])],
        "mean_speed": round(float(np.mean(speeds)), 2),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
