"""A long computation that can be interrupted: pi by Leibniz's series, a block of terms at a time.

It saves and stands still while there are files in `pause`, one for each event; the agent's hook
puts them there and takes them away (hook.py). After a restart it goes on from what it saved. No
block is lost, and none is computed twice.
"""

import json
import os
import time
from pathlib import Path

SAVED, PAUSE, PAUSED = Path("saved.json"), Path("pause"), Path("paused")
TERMS = 20_000
LOOK_SECONDS = 0.05


def load() -> tuple[int, float]:
    """The number of blocks done, and their sum."""
    if not SAVED.exists():
        return 0, 0.0
    saved = json.loads(SAVED.read_text())
    return saved["blocks"], saved["sum"]


def save(blocks: int, total: float) -> None:
    """All of it or nothing, and on the disk before anybody hears of it."""
    new = SAVED.with_suffix(".new")
    with new.open("w") as file:
        json.dump({"blocks": blocks, "sum": total}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(SAVED)


def stand_still(blocks: int, total: float) -> None:
    """Save, say so, and wait until the event is over."""
    save(blocks, total)
    print(f"saved after {blocks} blocks", flush=True)
    PAUSED.touch()
    while any(PAUSE.iterdir()):
        time.sleep(LOOK_SECONDS)
    PAUSED.unlink(missing_ok=True)


def main() -> None:
    """Compute for ever."""
    PAUSE.mkdir(exist_ok=True)
    blocks, total = load()
    print(f"goes on after {blocks} blocks", flush=True)
    while True:
        while any(PAUSE.iterdir()):
            stand_still(blocks, total)
        terms = range(blocks * TERMS, (blocks + 1) * TERMS)
        total += sum((-1) ** n / (2 * n + 1) for n in terms)
        blocks += 1
        print(f"block {blocks}: pi is about {4 * total:.9f}", flush=True)


if __name__ == "__main__":
    main()
