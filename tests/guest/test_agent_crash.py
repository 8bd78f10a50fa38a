"""kill -9 at every step of the journal: all is made good after a start (G6, IG1 to IG5)."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fixtures.waiting import wait_until
from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, agent_folders

pytestmark = [pytest.mark.spec("G4", "G5", "G6")]

# The lines of a whole event: seen, two hooks begun and done, approving, approved; seen, one hook
# begun and done; over, one hook begun and done, forgotten.
LINES = 14


class Victim:
    """An agent that dies once, and the one that follows it."""

    def __init__(self, home: AgentFolder, die: str) -> None:
        self.home = home
        self.die = die
        self.deaths = 0
        self._agent = AgentProcess(home, die=die)

    def tend(self) -> None:
        """Start it again if it has died."""
        code = self._agent.process.poll()
        if code is None:
            return
        assert (code, self.deaths) == (-9, 0), (self.die, self._agent.said())
        self.deaths += 1
        self._agent.__exit__(None, None, None)
        self._agent = AgentProcess(self.home)

    def end(self) -> None:
        """Whatever is left of it."""
        self._agent.__exit__(None, None, None)


def together(victims: list[Victim], hook: str) -> None:
    """Wait until each of them has done with a hook, through deaths and starts."""

    def are_done() -> bool:
        for one in victims:
            one.tend()
        return all(hook in one.home.ran() for one in victims)

    wait_until(are_done, lambda: str({v.die: (v.home.log(), v.home.steps()) for v in victims}))


def forgotten(victims: list[Victim]) -> None:
    """Wait until nothing is left to do."""

    def are_done() -> bool:
        for one in victims:
            one.tend()
        return not any(one.home.steps() for one in victims)

    wait_until(are_done)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_agent_that_is_killed_at_any_line(tmp_path: Path, when: str) -> None:
    """Every hook runs, again only if it was cut off, for the same event; nothing is approved early.

    Fourteen machines, each of whose agents dies at another line.
    """
    with AgentEndpoint() as it, ExitStack() as stack:
        names = [f"db{line}" for line in range(1, LINES + 1)]
        for name in names:
            it.make_enabled(name)
        events = {f"{name}_0": it.restart(f"{name}_0").id for name in names}
        made = stack.enter_context(agent_folders(it, tmp_path, *events))
        it.observe = lambda: {home.folder.name: home.ran() for home in made}
        for home in made:
            home.usual_hooks()
        victims = [Victim(home, f"{when}:{line}") for line, home in enumerate(made, 1)]
        for victim in victims:
            stack.callback(victim.end)
        together(victims, "flush")
        for name in names:
            it.finish(name)
        together(victims, "back")
        forgotten(victims)
        assert [victim.deaths for victim in victims] == [1] * LINES
        for home in made:
            judge(home, events[home.folder.name])
        for (machine, approved), ran in zip(it.approvals, it.observed, strict=True):
            assert approved == (events[machine],)
            assert "drain" in ran[machine], "IG1"
        assert {machine for machine, _ in it.approvals} == set(events)


def judge(home: AgentFolder, event: str) -> None:
    """What one machine's hooks noted over both lives of its agent."""
    assert {line.split()[3] for line in home.log()} == {event}, "IG2"
    begun = Counter(home.ran("+"))
    # An optional hook does not hold approval up: what begins at once may leave it no time.
    assert {"drain", "flush", "back"} <= set(begun) <= {"drain", "note", "flush", "back"}
    assert sum(begun.values()) <= 4 + 2, "only what was cut off runs again"
    order = home.ran("+")
    assert order.index("back") > max(order.index("drain"), order.index("flush"))


def test_the_machine_itself_is_rebooted(tmp_path: Path) -> None:
    """The agent is gone with it; afterwards what was prepared is recovered."""
    with AgentEndpoint() as it:
        it.make_enabled("db")
        with agent_folders(it, tmp_path, "db_0") as (home,):
            home.usual_hooks()
            with AgentProcess(home) as agent:
                it.restart("db_0")
                agent.wait_until(lambda: "approved" in home.steps())
                agent.kill()
            it.finish("db")
            with AgentProcess(home) as agent:
                agent.wait_until(lambda: "back" in home.ran() and not home.steps())
            begun = Counter(home.ran("+"))
            assert (begun["drain"], begun["back"]) == (1, 1)


def test_an_agent_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """Each life gets one line farther; in the end all is done."""
    with AgentEndpoint() as it:
        it.make_enabled("db")
        it.restart("db_0")
        with agent_folders(it, tmp_path, "db_0") as (home,):
            home.usual_hooks()
            for _ in range(4):
                with AgentProcess(home, die="before:3") as agent:
                    wait_until(lambda a=agent: a.process.poll() is not None or it.approvals)  # type: ignore[misc]
            with AgentProcess(home) as agent:
                agent.wait_until(lambda: "flush" in home.ran())
                it.finish("db")
                agent.wait_until(lambda: "back" in home.ran() and not home.steps())
            assert len({line.split()[3] for line in home.log()}) == 1
            assert home.ran("+").count("back") == 1
