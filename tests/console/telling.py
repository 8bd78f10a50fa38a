"""Life cycles of events, and what `explain` says of them: the texts in stories/."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Machine, ScopeKind
from fairwarning.store.store import Store
from tests.fixtures.console import ConsoleHarness

Life = Callable[["Teller"], None]


class Teller:
    """Lets things happen, and writes down how they are explained."""

    def __init__(self, console: ConsoleHarness) -> None:
        self.console = console
        self.text: list[str] = []

    def say(self, *lines: str) -> None:
        """A paragraph."""
        self.text += [*lines, ""]

    def explain(self, kind: str, name: str, when: str) -> None:
        """A story, as text."""
        story = self.console.ok("GET", f"/api/{kind}/{quote(name)}/explain")
        assert story["kind"] == kind.removesuffix("s")
        self.say(f"## {story['kind']} {name}, {when}", *_told(story))

    def event(self, machine: str, when: str) -> str:
        """The story of the machine's one event; its id."""
        (event,) = self.console.ok("GET", f"/api/machines/{quote(machine)}")["events"]
        self.explain("events", event["id"], when)
        name: str = event["id"]
        return name


def _told(story: dict[str, Any]) -> list[str]:
    told = [f"{one['machine']} {one['at'][11:19]}" for one in story["told"]]
    approved = [f"{one['by']} {one['at'][11:19]}" for one in story["approved"]]
    spans = ("notice", "waited", "impact")
    known = {span: story[f"{span}_seconds"] for span in spans}
    took = [f"{span} {lasted:g} s" for span, lasted in known.items() if lasted is not None]
    return [
        f"title:    {story['title']}",
        f"summary:  {story['summary']}",
        f"awaits:   {story['awaits'] or '-'}",
        *(f"  {step['at'][11:19]} +{step['after']:g}  {step['text']}" for step in story["steps"]),
        f"told:     {', '.join(told) or '-'}",
        f"approved: {', '.join(approved) or '-'}",
        f"took:     {', '.join(took) or '-'}",
    ]


def approved(teller: Teller) -> None:
    """A user restarts a machine, which approves after a minute."""
    console = teller.console
    console.created("machines", name="vm")
    console.poll("vm")
    console.act("vm", "restart", key="op")
    console.advance(5)
    teller.event("vm", "before anybody was told")
    console.poll("vm")
    console.advance(55)
    name = teller.event("vm", "while it waits")
    console.approve("vm", name)
    console.advance(20)
    teller.event("vm", "under way")
    console.advance(60)
    teller.explain("events", name, "when it is over")
    teller.explain("operations", "op", "when it is over")
    teller.explain("machines", "vm", "when it is over")


def timed_out(teller: Teller) -> None:
    """Nobody approves a redeploy; it starts at NotBefore."""
    console = teller.console
    console.created("machines", name="vm")
    console.poll("vm")
    console.act("vm", "redeploy", key="op")
    console.poll("vm")
    console.advance(599.5)
    name = teller.event("vm", "half a second before NotBefore")
    console.advance(3600)
    teller.explain("events", name, "when it is over")
    teller.explain("operations", "op", "when it is over")


def cancelled(teller: Teller) -> None:
    """The platform takes a freeze back."""
    console = teller.console
    console.created("machines", name="vm")
    console.poll("vm")
    console.act("vm", "freeze", key="op", duration_seconds=30)
    console.poll("vm")
    name = teller.event("vm", "announced")
    console.advance(90)
    console.ok("POST", f"/api/events/{name}/cancel")
    teller.explain("events", name, "when it is cancelled")
    teller.explain("operations", "op", "when it is cancelled")
    teller.explain("machines", "vm", "when it is cancelled")


def failed_impact(teller: Teller) -> None:
    """The driver cannot reboot one of two machines."""
    console = teller.console
    console.make("av", 2)
    console.driver.failing["av_1"] = "the host did not come back"
    console.poll("av_0", "av_1")
    console.act("av_1", "restart", key="op")
    console.poll("av_0", "av_1")
    name = teller.event("av_1", "announced to both")
    console.approve("av_0", name)
    console.advance(3600)
    teller.explain("events", name, "when it has failed")
    teller.explain("operations", "op", "when it has failed")
    teller.explain("machines", "av_1", "when it has failed")


def sudden_failure(teller: Teller) -> None:
    """The hardware fails: no notice at all."""
    console = teller.console
    console.created("machines", name="vm")
    console.poll("vm")
    console.act("vm", "fail", key="op")
    name = teller.event("vm", "under way")
    console.poll("vm")
    console.advance(3600)
    teller.explain("events", name, "when it is over")
    teller.explain("operations", "op", "when it is over")


def wave(teller: Teller) -> None:
    """Machines of two scopes on one host are frozen together: one approval is not enough."""
    console = teller.console
    for name in ("left", "right"):
        console.created("machines", name=name, host="rack")
        console.poll(name)
    console.ok("POST", "/api/rollouts", {"id": "r", "by_host": True})
    console.poll("left")
    console.advance(10)
    console.poll("right")
    left = teller.event("left", "announced")
    console.approve("left", left)
    console.advance(10)
    teller.explain("events", left, "approved, but not by the other")
    right = teller.event("right", "which the other side waits for")
    console.approve("right", right)
    console.advance(60)
    teller.explain("events", left, "when it is over")
    operation = console.ok("GET", f"/api/events/{left}")["operation"]
    teller.say(f"# the operation is {operation}")


def terminate_queue(teller: Teller) -> None:
    """An approved delete waits for an earlier one of the set (T6)."""
    console = teller.console
    console.created("sets", name="web", capacity=3, terminate_notice="PT5M")
    console.poll("web_0", "web_1", "web_2")
    console.ok("POST", "/api/sets/web/delete", {"instances": [0]}, key="first")
    console.advance(60)
    console.ok("POST", "/api/sets/web/delete", {"instances": [1]}, key="second")
    console.poll("web_0", "web_1", "web_2")
    first = teller.event("web_0", "the first delete")
    second = teller.event("web_1", "the second delete")
    console.approve("web_1", second)
    console.advance(30)
    teller.explain("events", second, "approved, behind the first")
    console.approve("web_0", first)
    console.advance(60)
    teller.explain("events", first, "when it is over")
    teller.explain("events", second, "when it is over")
    teller.explain("operations", "second", "when it is over")


def delete_set(teller: Teller) -> None:
    """A whole set goes, each instance with its notice."""
    console = teller.console
    console.created("sets", name="web", capacity=2, terminate_notice="PT10M")
    console.poll("web_0", "web_1")
    console.ok("DELETE", "/api/sets/web", key="op")
    console.poll("web_0", "web_1")
    teller.explain("operations", "op", "announced")
    console.advance(3600)
    teller.explain("operations", "op", "when it is over")


def stop_without_notice(teller: Teller) -> None:
    """Stop and start are the user's own wish: no event."""
    console = teller.console
    console.created("machines", name="vm")
    console.poll("vm")
    console.act("vm", "stop", key="op")
    teller.explain("operations", "op", "under way")
    console.advance(60)
    teller.explain("operations", "op", "when it is over")
    teller.explain("machines", "vm", "while it is stopped")


def rollout_step(teller: Teller) -> None:
    """A host rollout freezes the update domains of an availability set, one after the other."""
    console = teller.console
    machines = tuple(Machine(name=f"av{n}", update_domain=n, host=f"h{n}") for n in range(2))
    console.create(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    console.poll("av0", "av1")
    console.ok("POST", "/api/rollouts", {"id": "r", "scopes": ["av"]})
    console.poll("av0", "av1")
    name = teller.event("av0", "the first step")
    console.approve("av1", name)
    console.advance(60)
    teller.explain("events", name, "when it is over")
    operation = console.ok("GET", f"/api/events/{name}")["operation"]
    teller.say(f"# its operation is {operation}")
    teller.event("av1", "the second step")


def recommendation(teller: Teller) -> None:
    """Advice that a Spot machine will be evicted: nothing follows."""
    console = teller.console
    console.created("machines", name="spot", priority="Spot")
    console.poll("spot")
    console.act("spot", "recommend", key="op")
    console.poll("spot")  # at a version that does not show it
    name = teller.event("spot", "advised")
    console.advance(3600)
    teller.explain("events", name, "when it has lapsed")


def eviction(teller: Teller) -> None:
    """A Spot machine is evicted; only a client new enough is told."""
    console = teller.console
    console.created("machines", name="spot", priority="Spot", eviction="Delete")
    console.poll("spot")
    console.act("spot", "restart", key="before")
    console.poll("spot")
    console.act("spot", "evict", key="op")
    console.advance(3)
    console.poll("spot", version="2017-08-01")
    name = teller.event("spot", "a client too old has asked")
    console.advance(60)
    teller.explain("events", name, "when it is over")
    teller.explain("operations", "op", "when it is over")
    teller.explain("operations", "before", "which it took the place of")


LIVES: tuple[Life, ...] = (
    approved, timed_out, cancelled, failed_impact, sudden_failure, wave, terminate_queue,
    delete_set, stop_without_notice, rollout_step, recommendation, eviction,
)  # fmt: skip


def tell(life: Life, store: Store | None = None) -> str:
    """The whole text of a life cycle."""
    with ConsoleHarness(store=store) as console:
        teller = Teller(console)
        teller.say(f"# {life.__doc__}")
        life(teller)
    return "\n".join(teller.text)
