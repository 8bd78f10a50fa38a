"""A long computation with checkpoints: pi by Leibniz's series, one block of terms at a time.

It saves a checkpoint and pauses while the folder `pause` has files, one for each event; the agent's
hook creates and removes them (hook.py). After a restart it resumes from the checkpoint. No block is
lost, and none is computed twice.
"""

import json
import os
import time
from pathlib import Path

SAVED, PAUSE, PAUSED = Path("saved.json"), Path("pause"), Path("paused")
TERMS = 20_000
CHECK_SECONDS = 0.05


def load() -> tuple[int, float]:
    """Return the number of blocks done, and their sum."""
    if not SAVED.exists():
        return 0, 0.0
    saved = json.loads(SAVED.read_text())
    return saved["blocks"], saved["sum"]


def save(blocks: int, total: float) -> None:
    """Write the checkpoint atomically and durably."""
    new = SAVED.with_suffix(".new")
    with new.open("w") as file:
        json.dump({"blocks": blocks, "sum": total}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(SAVED)
    folder = os.open(SAVED.parent, os.O_RDONLY)
    os.fsync(folder)  # a power loss must not bring the old file back
    os.close(folder)


def pause(blocks: int, total: float) -> None:
    """Save a checkpoint, create `paused`, and wait until the event is over."""
    save(blocks, total)
    print(f"saved after {blocks} blocks", flush=True)
    PAUSED.touch()
    while any(PAUSE.iterdir()):
        time.sleep(CHECK_SECONDS)
    PAUSED.unlink(missing_ok=True)


def main() -> None:
    """Compute forever."""
    PAUSE.mkdir(exist_ok=True)
    blocks, total = load()
    print(f"resuming after {blocks} blocks", flush=True)
    while True:
        while any(PAUSE.iterdir()):
            pause(blocks, total)
        terms = range(blocks * TERMS, (blocks + 1) * TERMS)
        total += sum((-1) ** n / (2 * n + 1) for n in terms)
        blocks += 1
        print(f"block {blocks}: pi is about {4 * total:.9f}", flush=True)


if __name__ == "__main__":
    main()
