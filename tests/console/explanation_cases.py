"""Life cycles of events, and their explanations as in explanations/."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from fairwarning.core.commands import Configure, CreateScope
from fairwarning.core.model import Machine, Rules, ScopeKind
from fairwarning.store.store import Store
from tests.fixtures.console import ConsoleHarness

Case = Callable[["Transcript"], None]


class Transcript:
    """Drives a console and writes down its explanations."""

    def __init__(self, console: ConsoleHarness) -> None:
        self.console = console
        self.text: list[str] = []

    def write(self, *lines: str) -> None:
        """Write a paragraph."""
        self.text += [*lines, ""]

    def explain(self, kind: str, name: str, when: str) -> None:
        """Write an explanation."""
        explanation = self.console.ok("GET", f"/api/{kind}/{quote(name)}/explain")
        assert explanation["kind"] == kind.removesuffix("s")
        self.write(f"## {explanation['kind']} {name}, {when}", *_lines(explanation))

    def explain_event(self, machine: str, when: str) -> str:
        """Explain the machine's only event, and return its id."""
        (event,) = self.console.ok("GET", f"/api/machines/{quote(machine)}")["events"]
        self.explain("events", event["id"], when)
        name: str = event["id"]
        return name


def _lines(explanation: dict[str, Any]) -> list[str]:
    delivered = [f"{entry['machine']} {entry['at'][11:19]}" for entry in explanation["deliveries"]]
    approved = [f"{entry['by']} {entry['at'][11:19]}" for entry in explanation["approvals"]]
    phases = {phase: explanation[f"{phase}_seconds"] for phase in ("notice", "waited", "impact")}
    took = [f"{phase} {seconds:g} s" for phase, seconds in phases.items() if seconds is not None]
    return [
        f"title:    {explanation['title']}",
        f"summary:  {explanation['summary']}",
        f"awaits:   {explanation['awaits'] or '-'}",
        *(
            f"  {step['at'][11:19]} +{step['after_seconds']:g}  {step['text']}"
            for step in explanation["steps"]
        ),
        f"told:     {', '.join(delivered) or '-'}",
        f"approved: {', '.join(approved) or '-'}",
        f"took:     {', '.join(took) or '-'}",
    ]


def approved(transcript: Transcript) -> None:
    """A user restarts a machine, which approves after a minute."""
    console = transcript.console
    console.polling("vm")
    console.act("vm", "restart", key="op")
    console.advance(5)
    transcript.explain_event("vm", "before its delivery")
    console.poll("vm")
    console.advance(55)
    name = transcript.explain_event("vm", "while it waits for approval")
    console.approve("vm", name)
    console.advance(20)
    transcript.explain_event("vm", "in progress")
    console.advance(60)
    transcript.explain("events", name, "after its end")
    transcript.explain("operations", "op", "after its end")
    transcript.explain("machines", "vm", "after the event")


def timed_out(transcript: Transcript) -> None:
    """A redeploy that is not approved starts at NotBefore."""
    console = transcript.console
    console.polling("vm")
    console.act("vm", "redeploy", key="op")
    console.poll("vm")
    console.advance(599.5)
    name = transcript.explain_event("vm", "half a second before NotBefore")
    console.advance(3600)
    transcript.explain("events", name, "after its end")
    transcript.explain("operations", "op", "after its end")


def cancelled(transcript: Transcript) -> None:
    """The platform cancels a freeze."""
    console = transcript.console
    console.polling("vm")
    console.act("vm", "freeze", key="op", duration_seconds=30)
    console.poll("vm")
    name = transcript.explain_event("vm", "scheduled")
    console.advance(90)
    console.ok("POST", f"/api/events/{name}/cancel")
    transcript.explain("events", name, "after its cancellation")
    transcript.explain("operations", "op", "after its cancellation")
    transcript.explain("machines", "vm", "after the event")


def failed_impact(transcript: Transcript) -> None:
    """The driver cannot reboot one of two machines."""
    console = transcript.console
    console.make("av", 2)
    console.driver.failing["av_1"] = "the host did not come back"
    console.poll("av_0", "av_1")
    console.act("av_1", "restart", key="op")
    console.poll("av_0", "av_1")
    name = transcript.explain_event("av_1", "delivered to both")
    console.approve("av_0", name)
    console.advance(3600)
    transcript.explain("events", name, "after its failure")
    transcript.explain("operations", "op", "after its failure")
    transcript.explain("machines", "av_1", "after the event")


def sudden_failure(transcript: Transcript) -> None:
    """The hardware fails: no notice at all."""
    console = transcript.console
    console.polling("vm")
    console.act("vm", "fail", key="op")
    name = transcript.explain_event("vm", "in progress")
    console.poll("vm")
    console.advance(3600)
    transcript.explain("events", name, "after its end")
    transcript.explain("operations", "op", "after its end")


def wave(transcript: Transcript) -> None:
    """Machines of two scopes on one host are frozen together: both scopes must approve."""
    console = transcript.console
    for name in ("left", "right"):
        console.polling(name, host="rack")
    console.ok("POST", "/api/rollouts", {"id": "r", "by_host": True})
    console.poll("left")
    console.advance(10)
    console.poll("right")
    left = transcript.explain_event("left", "scheduled")
    console.approve("left", left)
    console.advance(10)
    transcript.explain("events", left, "approved in one scope only")
    right = transcript.explain_event("right", "still to be approved")
    console.approve("right", right)
    console.advance(60)
    transcript.explain("events", left, "after its end")
    operation = console.ok("GET", f"/api/events/{left}")["operation"]
    transcript.write(f"# the operation is {operation}")


def terminate_queue(transcript: Transcript) -> None:
    """An approved delete waits for an earlier one of the set (T6)."""
    console = transcript.console
    console.created("sets", name="web", capacity=3, terminate_notice="PT5M")
    console.poll("web_0", "web_1", "web_2")
    console.ok("POST", "/api/sets/web/delete", {"instances": [0]}, key="first")
    console.advance(60)
    console.ok("POST", "/api/sets/web/delete", {"instances": [1]}, key="second")
    console.poll("web_0", "web_1", "web_2")
    first = transcript.explain_event("web_0", "the first delete")
    second = transcript.explain_event("web_1", "the second delete")
    console.approve("web_1", second)
    console.advance(30)
    transcript.explain("events", second, "approved, behind the first")
    console.approve("web_0", first)
    console.advance(60)
    transcript.explain("events", first, "after its end")
    transcript.explain("events", second, "after its end")
    transcript.explain("operations", "second", "after its end")


def delete_set(transcript: Transcript) -> None:
    """A whole set is deleted, each instance with its notice."""
    console = transcript.console
    console.created("sets", name="web", capacity=2, terminate_notice="PT10M")
    console.poll("web_0", "web_1")
    console.ok("DELETE", "/api/sets/web", key="op")
    console.poll("web_0", "web_1")
    transcript.explain("operations", "op", "scheduled")
    console.advance(3600)
    transcript.explain("operations", "op", "after its end")


def stop_without_notice(transcript: Transcript) -> None:
    """A user stops a machine: no event is sent."""
    console = transcript.console
    console.polling("vm")
    console.act("vm", "stop", key="op")
    transcript.explain("operations", "op", "in progress")
    console.advance(60)
    transcript.explain("operations", "op", "after its end")
    transcript.explain("machines", "vm", "while it is stopped")


def rollout_step(transcript: Transcript) -> None:
    """A host rollout freezes the update domains of an availability set, one after the other."""
    console = transcript.console
    machines = tuple(Machine(name=f"av{n}", update_domain=n, host=f"h{n}") for n in range(2))
    console.create(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    console.poll("av0", "av1")
    console.ok("POST", "/api/rollouts", {"id": "r", "scopes": ["av"]})
    console.poll("av0", "av1")
    name = transcript.explain_event("av0", "the first step")
    console.approve("av1", name)
    console.advance(60)
    transcript.explain("events", name, "after its end")
    operation = console.ok("GET", f"/api/events/{name}")["operation"]
    transcript.write(f"# its operation is {operation}")
    transcript.explain_event("av1", "the second step")


def maintenance_window(transcript: Transcript) -> None:
    """An approval waits for the maintenance window, which opens at one o'clock."""
    console = transcript.console
    console.polling("vm")
    console.create(Configure(scope="vm", rules=Rules(maintenance_window="Daily 13:00Z PT1H")))
    console.ok("POST", "/api/rollouts", {"id": "r", "scopes": ["vm"]})
    console.advance(45 * 60)
    console.poll("vm")
    name = transcript.explain_event("vm", "scheduled")
    console.approve("vm", name)
    transcript.explain("events", name, "approved")
    console.advance(15 * 60 + 30)
    transcript.explain("events", name, "after its end")


def recommendation(transcript: Transcript) -> None:
    """A Spot machine gets a recommendation to leave, without impact."""
    console = transcript.console
    console.polling("spot", priority="Spot")
    console.act("spot", "recommend", key="op")
    console.poll("spot")  # at a version that does not show it
    name = transcript.explain_event("spot", "scheduled")
    console.advance(3600)
    transcript.explain("events", name, "after it has expired")


def eviction(transcript: Transcript) -> None:
    """A Spot machine is evicted; a client with an old API version does not see the event."""
    console = transcript.console
    console.polling("spot", priority="Spot", eviction="Delete")
    console.act("spot", "restart", key="before")
    console.poll("spot")
    console.act("spot", "evict", key="op")
    console.advance(3)
    console.poll("spot", version="2017-08-01")
    name = transcript.explain_event("spot", "after a poll with an old API version")
    console.advance(60)
    transcript.explain("events", name, "after its end")
    transcript.explain("operations", "op", "after its end")
    transcript.explain("operations", "before", "replaced by the eviction")


CASES: tuple[Case, ...] = (
    approved, timed_out, cancelled, failed_impact, sudden_failure, wave, terminate_queue,
    delete_set, stop_without_notice, rollout_step, maintenance_window, recommendation, eviction,
)  # fmt: skip


def render(case: Case, store: Store | None = None) -> str:
    """Return the whole text of a case."""
    with ConsoleHarness(store=store) as console:
        transcript = Transcript(console)
        transcript.write(f"# {case.__doc__}")
        case(transcript)
    return "\n".join(transcript.text)
