"""A process that is cut off from its database, while another is not."""

import asyncio
import time
from pathlib import Path

import pytest

from fairwarning.core.commands import CreateScope, Restart
from fairwarning.core.model import Machine, ScopeKind
from tests.cluster.cluster import Cluster, Life, Nursery
from tests.cluster.history import History
from tests.cluster.proxy import Proxy
from tests.cluster.worker import Setting
from tests.fixtures.postgres.server import shared

LEASE_SECONDS = 0.6
STALENESS_SECONDS = 4.0
# Far less than a time-out of the database's, and enough for a busy machine.
AT_ONCE_SECONDS = 3.0
RECOVERY_SECONDS = 20.0
MACHINES = tuple(Machine(name=f"web{number}") for number in range(6))


class Story:
    """One process behind a proxy, one beside it."""

    def __init__(self, proxy: Proxy, cut_off: Life, free: Life) -> None:
        self.proxy = proxy
        self.cut_off = cut_off
        self.free = free
        self.history = History()
        self.count = 0

    async def change(self, life: Life) -> str:
        """Restart another machine; what came of it."""
        self.count += 1
        command = Restart(
            scope="web", machines=(f"web{self.count}",), operation=f"restart{self.count}"
        )
        return (await self.history.submit(life, command)).outcome

    async def version(self, life: Life) -> int | None:
        """What is shown; None when that is refused."""
        read = await self.history.poll(life, "web")
        return read.version if read else None

    async def begin(self) -> None:
        """A scope that both show."""
        command = CreateScope(scope="web", kind=ScopeKind.AVAILABILITY_SET, machines=MACHINES)
        assert (await self.history.submit(self.cut_off, command)).outcome == "done"
        for life in (self.cut_off, self.free):
            await life.ask(poll="web")

    async def memory_lasts(self) -> None:
        """Return when the process that is cut off stops answering from memory, always the same."""
        began = time.monotonic()
        known = await self.version(self.cut_off)
        assert known is not None, "nothing is answered from memory"
        while (shown := await self.version(self.cut_off)) is not None:
            assert shown == known
            assert time.monotonic() < began + 2 * STALENESS_SECONDS, "memory has no limit"
            await asyncio.sleep(0.02)


async def cut_off_and_back(url: str, folder: Path, nursery: Nursery, *, silently: bool) -> None:
    """The whole story."""
    async with Proxy(shared().port) as proxy:
        setting = Setting("", url, str(folder), LEASE_SECONDS, STALENESS_SECONDS)
        through = Setting(
            "", url.replace(f":{shared().port}/", f":{proxy.port}/"), str(folder / "proxy"),
            LEASE_SECONDS, STALENESS_SECONDS,
        )  # fmt: skip
        (folder / "proxy").mkdir()
        async with Cluster(nursery, through, 1) as one, Cluster(nursery, setting, 1) as other:
            story = Story(proxy, one.present[0], other.present[0])
            await story.begin()
            cut_at = time.monotonic()
            proxy.cut(silently=silently)
            assert await story.change(story.free) == "done", "the other goes on"
            await story.memory_lasts()
            lasted = time.monotonic() - cut_at
            assert STALENESS_SECONDS - LEASE_SECONDS < lasted
            await refused_at_once(story)
            proxy.mend()
            await resumes(story)


async def refused_at_once(story: Story) -> None:
    """A command is refused, and nobody waits for that."""
    began = time.monotonic()
    outcome = await story.change(story.cut_off)
    assert outcome not in {"done", "lost"}
    assert story.history.asked[-1].status == 503
    assert time.monotonic() - began < AT_ONCE_SECONDS


async def resumes(story: Story) -> None:
    """By itself: what others did meanwhile is shown, and commands are taken."""
    newest = await story.version(story.free)
    give_up = time.monotonic() + RECOVERY_SECONDS
    while await story.version(story.cut_off) != newest:
        assert time.monotonic() < give_up, "it does not come back"
        await asyncio.sleep(0.02)
    assert await story.change(story.cut_off) == "done"


@pytest.mark.spec("X3")
@pytest.mark.parametrize("silently", [False, True])
def test_reads_go_on_from_memory_up_to_a_limit(
    database_url: str, tmp_path: Path, silently: bool
) -> None:
    """IK3: cut off, a process answers polls from memory, then 503, and comes back by itself."""
    with Nursery() as nursery:
        asyncio.run(cut_off_and_back(database_url, tmp_path, nursery, silently=silently))
