"""The agent's hook: pauses work.py at a checkpoint before an event, and resumes it afterwards."""

import os
import time
from pathlib import Path

PAUSE, PAUSED = Path("pause"), Path("paused")
CHECK_SECONDS = 0.05

PAUSE.mkdir(exist_ok=True)
request = PAUSE / os.environ["FAIRWARNING_EVENT_ID"]
if os.environ["FAIRWARNING_PHASE"] == "scheduled":
    request.touch()
    while not PAUSED.exists():  # the agent ends this hook after its timeout
        time.sleep(CHECK_SECONDS)
else:
    request.unlink(missing_ok=True)
