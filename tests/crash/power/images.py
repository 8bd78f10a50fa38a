"""Runs a workload, then checks every state of the files that a power loss could have left."""

import asyncio
import shutil
from pathlib import Path

from fairwarning.store.store import Store
from tests.crash.power.recording import Image, RecordingVFS, Step, crash_images
from tests.crash.power.workload import State, Workload, differs, number_of, scratch, small_store


async def record(folder: Path, seed: int, batches: int) -> tuple[list[Step], list[State]]:
    """Run a workload on a recording VFS; return its file steps and the state after each batch."""
    vfs = RecordingVFS(f"recording-{seed}")
    store = small_store(folder / "fleet.db", vfs.name)
    workload = Workload(seed)
    states = [workload.state()]
    await store.open()
    for number in range(batches):
        await store.commit(workload.batch(3))
        vfs.steps.append(Step("acknowledge"))
        states.append(workload.state())
        if number == batches // 2:
            await store.close()
            await store.open()
    await store.close()
    vfs.unregister()
    return vfs.steps, states


def write_image(image: Image, folder: Path) -> Path:
    """Write the files as they are after a power loss; return the path of the database."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    return folder / "fleet.db"


async def check(path: Path, acknowledged: int, states: list[State]) -> None:
    """Open an image with the real store, and compare."""
    store = small_store(path)
    await store.open()
    try:
        await compare(store, acknowledged, states)
    finally:
        await store.close()


async def compare(store: Store, acknowledged: int, states: list[State]) -> None:
    """Expect every acknowledged batch, perhaps the next one completely, and nothing else."""
    number = await number_of(store)
    assert acknowledged <= number <= acknowledged + 1
    state, before = states[number], states[acknowledged]
    later = set(states[min(number + 1, len(states) - 1)].entities) - set(state.entities)
    assert await differs(store, state, later) == ""
    for ref in before.entities.keys() & state.entities.keys():  # ID2; 0 is off
        assert state.incarnation(ref) >= before.incarnation(ref) or not state.incarnation(ref)


def check_all(*, seed: int, batches: int) -> dict[str, int]:
    """Check every image of a workload; return how many there were."""
    with scratch() as name:
        folder = Path(name)
        steps, states = asyncio.run(record(folder, seed, batches))
        images = 0
        for acknowledged, image in crash_images(steps, "fleet.db"):
            asyncio.run(check(write_image(image, folder / "image"), acknowledged, states))
            images += 1
    counts = {what: sum(step.what == what for step in steps) for what in ("write", "sync")}
    return {"images": images, **counts}
