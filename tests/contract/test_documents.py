"""What a machine reads: fields, spellings, versions, incarnations, scopes (M6 to M11, M16)."""

import json
import re

import pytest

from fairwarning.core.commands import (
    Approve,
    CreateScope,
    Delete,
    Evict,
    Maintain,
    Recommend,
    Restart,
)
from fairwarning.core.document import VERSIONS
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import EventStatus, Machine, Priority, ScopeKind
from tests.contract.shortcuts import (
    MINUTE,
    approve,
    cancel,
    hits,
    of,
    operate,
    polled,
    set_of,
    shown,
)
from tests.fixtures.fleet import NEWEST, NOON, FleetHarness

FIRST = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"]
FIELDS = {
    "2017-03-01": FIRST,
    "2017-08-01": FIRST,
    "2017-11-01": FIRST,
    "2019-01-01": FIRST,
    "2019-04-01": [*FIRST, "Description"],
    "2019-08-01": [*FIRST, "Description", "EventSource"],
    "2020-07-01": [*FIRST, "Description", "EventSource", "DurationInSeconds"],
    "2024-07-09": [*FIRST, "Description", "EventSource", "DurationInSeconds"],
}
GUID = re.compile(r"[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}")


@pytest.mark.spec("M6")
@pytest.mark.parametrize("version", FIELDS)
def test_the_fields_of_a_version_and_their_order(version: str) -> None:
    """Each version shows the fields it brought and those before it, always in one order."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Maintain, "vm", "vm", duration_seconds=30)
        document = harness.poll("vm", version)
        assert list(document) == ["DocumentIncarnation", "Events"]
        (event,) = document["Events"]
        assert list(event) == FIELDS[version]
        assert GUID.fullmatch(event["EventId"])
        assert (event["EventType"], event["ResourceType"]) == ("Freeze", "VirtualMachine")
        assert event.get("EventSource", "Platform") == "Platform"
        assert event.get("DurationInSeconds", 30) == 30


@pytest.mark.spec("M6")
def test_every_version_of_the_contract_is_there() -> None:
    """The seven documented versions and the one that is not."""
    assert list(VERSIONS) == list(FIELDS)


@pytest.mark.spec("M6")
def test_a_document_is_compact_json() -> None:
    """The bytes hold no space, and a duration or an incarnation is a number."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Restart, "vm", "vm")
        body = harness._runner.run(harness.fleet.poll("vm")).body(NEWEST)
        name = of(harness, "vm", "vm").id
        assert (
            body
            == (
                '{"DocumentIncarnation":2,"Events":[{"EventId":"' + name + '",'
                '"EventStatus":"Scheduled","EventType":"Reboot","ResourceType":"VirtualMachine",'
                '"Resources":["vm"],"NotBefore":"Fri, 09 Jan 2026 12:15:00 GMT",'
                '"Description":"Virtual machine is going to be restarted as requested by '
                'authorized user.","EventSource":"User","DurationInSeconds":-1}]}'
            ).encode()
        )


@pytest.mark.spec("M7")
@pytest.mark.parametrize("version", FIELDS)
@pytest.mark.parametrize("kind", [ScopeKind.AVAILABILITY_SET, ScopeKind.CLOUD_SERVICE])
def test_names_of_the_preview_carry_an_underscore(version: str, kind: ScopeKind) -> None:
    """On 2017-03-01 names of IaaS machines begin with `_`; those of roles never do."""
    with FleetHarness() as harness:
        machines = (Machine(name="FrontEnd_IN_0"), Machine(name="FrontEnd_IN_1"))
        harness.do(CreateScope(scope="s", kind=kind, machines=machines))
        harness.poll("s")
        operate(harness, Restart, "s", "FrontEnd_IN_0", "FrontEnd_IN_1")
        preview = version == "2017-03-01" and kind is not ScopeKind.CLOUD_SERVICE
        prefix = "_" if preview else ""
        (event,) = harness.poll("s", version)["Events"]
        assert event["Resources"] == [f"{prefix}FrontEnd_IN_{n}" for n in (0, 1)]


@pytest.mark.spec("M7")
def test_instances_of_a_set_go_by_their_resource_names() -> None:
    """Resources holds `web_0`, never the host name."""
    with FleetHarness() as harness:
        set_of(harness, 1)
        operate(harness, Restart, "web/0", "web_0")
        assert harness.poll("web/0")["Events"][0]["Resources"] == ["web_0"]
        assert harness.poll("web/0", "2017-03-01")["Events"][0]["Resources"] == ["_web_0"]


@pytest.mark.spec("M8")
@pytest.mark.parametrize("version", FIELDS)
def test_not_before_as_the_version_writes_it(version: str) -> None:
    """ISO 8601 on 2017-03-01, RFC 1123 in GMT after it, the empty string once Started."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Restart, "vm", "vm")
        (event,) = harness.poll("vm", version)["Events"]
        iso = version == "2017-03-01"
        assert event["NotBefore"] == (
            "2026-01-09T12:15:00Z" if iso else "Fri, 09 Jan 2026 12:15:00 GMT"
        )
        approve(harness, "vm")
        (event,) = harness.poll("vm", version)["Events"]
        assert event["NotBefore"] == ""


def _one_of_each(harness: FleetHarness) -> None:
    """A set's group with a Freeze, a Preempt, a Terminate and an advice event."""
    machines = (
        Machine(name="freeze"),
        Machine(name="spot", priority=Priority.SPOT),
        Machine(name="advised", priority=Priority.SPOT),
        Machine(name="leaving", terminate_seconds=300),
    )
    harness.do(CreateScope(scope="s", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    harness.poll("s")


@pytest.mark.spec("M9")
def test_a_version_shows_the_types_it_knows() -> None:
    """Preempt from 2017-11-01, Terminate from 2019-01-01, advice on 2024-07-09 only."""
    old, spot, terminate = {"freeze"}, {"freeze", "spot"}, {"freeze", "spot", "leaving"}
    visible = {
        "2017-03-01": {"_freeze"},
        "2017-08-01": old,
        "2017-11-01": spot,
        "2024-07-09": terminate | {"advised"},
    }
    with FleetHarness() as harness:
        _one_of_each(harness)
        operate(harness, Maintain, "s", "freeze", name="1")
        operate(harness, Evict, "s", "spot", name="2")
        operate(harness, Recommend, "s", "advised", name="3")
        operate(harness, Delete, "s", "leaving", name="4")
        for version in VERSIONS:
            document = harness.poll("s", version)
            names = {name for event in document["Events"] for name in event["Resources"]}
            assert names == visible.get(version, terminate)
            assert document["DocumentIncarnation"] == 5


@pytest.mark.spec("M9", "M11")
def test_the_incarnation_is_the_scopes() -> None:
    """A version that does not show an event still counts its changes."""
    with FleetHarness() as harness:
        _one_of_each(harness)
        operate(harness, Evict, "s", "spot")
        assert harness.poll("s", "2017-08-01") == {"DocumentIncarnation": 2, "Events": []}
        harness.advance(30)
        assert harness.poll("s", "2017-08-01") == {"DocumentIncarnation": 3, "Events": []}
        harness.advance(10)
        assert harness.poll("s", "2017-08-01") == {"DocumentIncarnation": 4, "Events": []}


@pytest.mark.spec("M10")
@pytest.mark.parametrize("end", ["carried out", "cancelled", "failed"])
def test_what_is_over_is_simply_gone(end: str) -> None:
    """A document knows Scheduled and Started; nothing is ever shown as completed or cancelled."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Restart, "vm", "vm")
        if end == "cancelled":
            cancel(harness, "vm", "vm")
        else:
            harness.driver.fail = "no" if end == "failed" else ""
            approve(harness, "vm")
            harness.advance(60)
        assert harness.poll("vm")["Events"] == []


@pytest.mark.spec("M11")
def test_the_incarnation_counts_visible_changes() -> None:
    """One more for each visible change; nothing else moves it, and equal means equal."""
    with FleetHarness() as harness:
        harness.availability_set(machines=2, domains=1)
        seen = [harness.poll("av")]
        operate(harness, Restart, "av", "av0", "av1")
        seen.append(harness.poll("av"))
        for quiet in (60, 10 * MINUTE):
            harness.advance(quiet)
            assert harness.poll("av") == seen[-1]
        harness.restart()
        assert harness.poll("av") == seen[-1]
        harness.advance(4 * MINUTE)
        seen.append(harness.poll("av"))
        harness.advance(60)
        seen.append(harness.poll("av"))
        assert [document["DocumentIncarnation"] for document in seen] == [1, 2, 3, 4]
        statuses = [[event["EventStatus"] for event in document["Events"]] for document in seen]
        assert statuses == [[], ["Scheduled"], ["Started"], []]


@pytest.mark.spec("M11", "E4")
def test_an_operation_over_three_domains_is_one_change() -> None:
    """What comes to be in one decision is seen at once, under one new number."""
    with FleetHarness() as harness:
        harness.availability_set()
        harness.poll("av")
        operate(harness, Restart, "av", "av0", "av1", "av2")
        document = harness.poll("av")
        assert (document["DocumentIncarnation"], len(document["Events"])) == (2, 3)


@pytest.mark.spec("M11", "T6")
def test_an_approval_that_starts_nothing_is_not_seen() -> None:
    """Waiting for others is invisible: the document stays as it was."""
    with FleetHarness() as harness:
        set_of(harness, 2)
        operate(harness, Delete, "web/0", "web_0", name="1")
        harness.advance(1)
        operate(harness, Delete, "web/0", "web_1", name="2")
        before = harness.poll("web/0")
        approve(harness, "web/0", "web_1")
        assert harness.poll("web/0") == before


@pytest.mark.spec("M16")
def test_all_machines_of_a_scope_see_all_its_events_and_no_others() -> None:
    """A scope's document holds what is planned for any of its machines, and nothing else."""
    with FleetHarness() as harness:
        for scope in ("x", "y"):
            harness.availability_set(scope, machines=2, domains=2)
            harness.poll(scope)
        operate(harness, Restart, "x", "x0", name="1")
        operate(harness, Restart, "y", "y1", name="2")
        for scope, machine in (("x", "x0"), ("y", "y1")):
            assert [e["Resources"] for e in harness.poll(scope)["Events"]] == [[machine]]


@pytest.mark.spec("M16")
def test_no_scope_approves_anothers_event() -> None:
    """An id of another scope is as unknown as one that never was, and changes nothing."""
    with FleetHarness() as harness:
        polled(harness, "a", "b")
        operate(harness, Restart, "a", "a")
        event = of(harness, "a", "a").id
        strange = _refused(harness, event)
        assert _refused(harness, "F" * 36).code == strange.code
        assert strange.message.replace(event, "F" * 36) == _refused(harness, "F" * 36).message
        assert shown(harness, "a") == {"a": EventStatus.SCHEDULED}
        assert hits(harness) == []


def _refused(harness: FleetHarness, event: str) -> FairwarningError:
    return harness.refusal(Approve(scope="b", events=(event,)))


@pytest.mark.spec("M8")
def test_dates_do_not_depend_on_the_locale() -> None:
    """Names of days and months are English, and times GMT, wherever the server stands."""
    with FleetHarness(start=NOON + 31 * 24 * 3600) as harness:
        polled(harness, "vm")
        operate(harness, Restart, "vm", "vm")
        text = json.dumps(harness.poll("vm"))
        assert "Mon, 09 Feb 2026 12:15:00 GMT" in text
