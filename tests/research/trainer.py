"""A trainer without a car, for tests of nights: `python trainer.py FOLDER`.

It scores by the learning rate, best at 1e-3, with a little luck of the seed. What else it does is
in the file `mood` beside it: `slow`, `fragile`, `broken`, `linked`, `fifo`, or nothing.
"""

import json
import math
import os
import random
import sys
import time
from pathlib import Path

from hotlap.research.engines.job import write_result

folder = Path(sys.argv[1])
trial = json.loads((folder / "trial.json").read_text())
mood_file = folder.parents[1] / "mood"
mood = mood_file.read_text() if mood_file.exists() else ""
if mood == "slow":
    time.sleep(600)
if mood == "broken" or (mood == "fragile" and trial["params"]["learning_rate"] > 3e-3):
    raise SystemExit("the wheels came off")
off = math.log10(trial["params"]["learning_rate"]) + 3
score = 100 - 20 * off**2 + random.Random(trial["seed"]).gauss(0, 1)
(folder / "model").mkdir(exist_ok=True)
(folder / "model" / "weights.txt").write_text(f"{score}\n")
if mood == "linked":
    (folder / "model" / "latest").symlink_to("nowhere")
if mood == "fifo":
    os.mkfifo(folder / "model" / "pipe")
write_result(folder, {"mean_reward": score, "std_reward": 1.0, "timesteps": 10, "model": "model"})
