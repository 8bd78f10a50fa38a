"""Lives a day, then looks at everything a loss of power could have left of it."""

import asyncio
import shutil
from pathlib import Path

from fairwarning.store.store import Store
from tests.crash.power.recording import Image, RecordingVFS, Step, crash_images
from tests.crash.power.workload import Day, State, differs, number_of, scratch, small_store


async def lived(folder: Path, seed: int, batches: int) -> tuple[list[Step], list[State]]:
    """A day on a recording disk: what happened to the files, and the state after each batch."""
    vfs = RecordingVFS(f"recording-{seed}")
    store = small_store(folder / "fleet.db", vfs.name)
    day = Day(seed)
    states = [day.state()]
    await store.open()
    for number in range(batches):
        await store.commit(day.batch(3))
        vfs.steps.append(Step("acknowledge"))
        states.append(day.state())
        if number == batches // 2:
            await store.close()
            await store.open()
    await store.close()
    vfs.unregister()
    return vfs.steps, states


def lay_out(image: Image, folder: Path) -> Path:
    """The files as they are found when the power is back."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    return folder / "fleet.db"


async def check(path: Path, acknowledged: int, states: list[State]) -> None:
    """Open what is left, with the real store, and compare."""
    store = small_store(path)
    await store.open()
    try:
        await compare(store, acknowledged, states)
    finally:
        await store.close()


async def compare(store: Store, acknowledged: int, states: list[State]) -> None:
    """Every acknowledged batch whole, perhaps the one after it, and nothing in between."""
    found = await number_of(store)
    assert acknowledged <= found <= acknowledged + 1
    state, before = states[found], states[acknowledged]
    later = set(states[min(found + 1, len(states) - 1)].entities) - set(state.entities)
    assert await differs(store, state, later) == ""
    for ref in before.entities.keys() & state.entities.keys():  # ID2; 0 is off
        assert state.incarnation(ref) >= before.incarnation(ref) or not state.incarnation(ref)


def all_images(folder: Path, *, seed: int, batches: int) -> str:
    """Live a day, then check whatever a loss of power could have left of it; says how many."""
    steps, states = asyncio.run(lived(folder, seed, batches))
    images = 0
    for acknowledged, image in crash_images(steps, "fleet.db"):
        asyncio.run(check(lay_out(image, folder / "image"), acknowledged, states))
        images += 1
    writes = sum(step.what == "write" for step in steps)
    syncs = sum(step.what == "sync" for step in steps)
    return f"{images} images of {writes} writes and {syncs} syncs in {batches} batches"


def check_all(*, seed: int, batches: int) -> dict[str, int]:
    """Check every image of a day; how many there were."""
    with scratch() as name:
        folder = Path(name)
        steps, states = asyncio.run(lived(folder, seed, batches))
        images = 0
        for acknowledged, image in crash_images(steps, "fleet.db"):
            asyncio.run(check(lay_out(image, folder / "image"), acknowledged, states))
            images += 1
    counts = {what: sum(step.what == what for step in steps) for what in ("write", "sync")}
    return {"images": images, **counts}
