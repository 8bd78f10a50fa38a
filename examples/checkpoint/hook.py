"""The agent's hook: has work.py save and stand still before an event, and go on when it is over."""

import os
import time
from pathlib import Path

PAUSE, PAUSED = Path("pause"), Path("paused")
LOOK_SECONDS = 0.05

PAUSE.mkdir(exist_ok=True)
wish = PAUSE / os.environ["FAIRWARNING_EVENT_ID"]
if os.environ["FAIRWARNING_PHASE"] == "scheduled":
    wish.touch()
    while not PAUSED.exists():  # if it never comes, the agent ends this hook in time
        time.sleep(LOOK_SECONDS)
else:
    wish.unlink(missing_ok=True)
