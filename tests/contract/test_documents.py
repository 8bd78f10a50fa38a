"""The document: fields, formats, versions, incarnations, scopes (M6 to M11, M16)."""

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
from tests.contract.units import MINUTE
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
    """Each version has its own fields and those of earlier versions, always in one order."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Maintain, "vm", "vm", duration_seconds=30)
        document = harness.poll("vm", version)
        assert list(document) == ["DocumentIncarnation", "Events"]
        (event,) = document["Events"]
        assert list(event) == FIELDS[version]
        assert GUID.fullmatch(event["EventId"])
        assert (event["EventType"], event["ResourceType"]) == ("Freeze", "VirtualMachine")
        assert event.get("EventSource", "Platform") == "Platform"
        assert event.get("DurationInSeconds", 30) == 30


@pytest.mark.spec("M6")
def test_every_version_of_the_contract_is_supported() -> None:
    """All documented versions and the undocumented one are supported."""
    assert list(VERSIONS) == list(FIELDS)


@pytest.mark.spec("M6")
def test_a_document_is_compact_json() -> None:
    """The document has no spaces, and durations and incarnations are numbers."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        body = harness.run(harness.fleet.poll("vm")).body(NEWEST)
        name = harness.event_of("vm", "vm").id
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
        harness.operate(Restart, "s", "FrontEnd_IN_0", "FrontEnd_IN_1")
        preview = version == "2017-03-01" and kind is not ScopeKind.CLOUD_SERVICE
        prefix = "_" if preview else ""
        (event,) = harness.poll("s", version)["Events"]
        assert event["Resources"] == [f"{prefix}FrontEnd_IN_{n}" for n in (0, 1)]


@pytest.mark.spec("M7")
def test_instances_have_their_resource_names() -> None:
    """Resources has the resource name `web_0`, not the host name."""
    with FleetHarness() as harness:
        harness.make_scale_set(1)
        harness.operate(Restart, "web/0", "web_0")
        assert harness.poll("web/0")["Events"][0]["Resources"] == ["web_0"]
        assert harness.poll("web/0", "2017-03-01")["Events"][0]["Resources"] == ["_web_0"]


@pytest.mark.spec("M8")
@pytest.mark.parametrize("version", FIELDS)
def test_not_before_has_the_format_of_the_version(version: str) -> None:
    """ISO 8601 on 2017-03-01, RFC 1123 in GMT after it, the empty string once Started."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        (event,) = harness.poll("vm", version)["Events"]
        iso = version == "2017-03-01"
        assert event["NotBefore"] == (
            "2026-01-09T12:15:00Z" if iso else "Fri, 09 Jan 2026 12:15:00 GMT"
        )
        harness.approve("vm")
        (event,) = harness.poll("vm", version)["Events"]
        assert event["NotBefore"] == ""


def _one_of_each(harness: FleetHarness) -> None:
    """Create a group with a Freeze, a Preempt, a Terminate and a recommendation event."""
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
    """Preempt from 2017-11-01, Terminate from 2019-01-01, recommendations on 2024-07-09 only."""
    old, spot, terminate = {"freeze"}, {"freeze", "spot"}, {"freeze", "spot", "leaving"}
    visible = {
        "2017-03-01": {"_freeze"},
        "2017-08-01": old,
        "2017-11-01": spot,
        "2024-07-09": terminate | {"advised"},
    }
    with FleetHarness() as harness:
        _one_of_each(harness)
        harness.operate(Maintain, "s", "freeze", name="1")
        harness.operate(Evict, "s", "spot", name="2")
        harness.operate(Recommend, "s", "advised", name="3")
        harness.operate(Delete, "s", "leaving", name="4")
        for version in VERSIONS:
            document = harness.poll("s", version)
            names = {name for event in document["Events"] for name in event["Resources"]}
            assert names == visible.get(version, terminate)
            assert document["DocumentIncarnation"] == 5


@pytest.mark.spec("M9", "M11")
def test_the_incarnation_belongs_to_the_scope() -> None:
    """Changes of an event count even at versions that do not show it."""
    with FleetHarness() as harness:
        _one_of_each(harness)
        harness.operate(Evict, "s", "spot")
        assert harness.poll("s", "2017-08-01") == {"DocumentIncarnation": 2, "Events": []}
        harness.advance(30)
        assert harness.poll("s", "2017-08-01") == {"DocumentIncarnation": 3, "Events": []}
        harness.advance(10)
        assert harness.poll("s", "2017-08-01") == {"DocumentIncarnation": 4, "Events": []}


@pytest.mark.spec("M10")
@pytest.mark.parametrize("end", ["carried out", "cancelled", "failed"])
def test_an_ended_event_disappears(end: str) -> None:
    """Documents have Scheduled and Started events only; ended events disappear."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        if end == "cancelled":
            harness.cancel("vm", "vm")
        else:
            harness.driver.fail = "no" if end == "failed" else ""
            harness.approve("vm")
            harness.advance(60)
        assert harness.poll("vm")["Events"] == []


@pytest.mark.spec("M11")
def test_the_incarnation_counts_visible_changes() -> None:
    """Each visible change increases the incarnation by one, and nothing else does."""
    with FleetHarness() as harness:
        harness.availability_set(machines=2, domains=1)
        seen = [harness.poll("av")]
        harness.operate(Restart, "av", "av0", "av1")
        seen.append(harness.poll("av"))
        for seconds in (60, 10 * MINUTE):
            harness.advance(seconds)
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
    """All changes of one decision become visible together, with one new incarnation."""
    with FleetHarness() as harness:
        harness.availability_set()
        harness.poll("av")
        harness.operate(Restart, "av", "av0", "av1", "av2")
        document = harness.poll("av")
        assert (document["DocumentIncarnation"], len(document["Events"])) == (2, 3)


@pytest.mark.spec("M11", "T6")
def test_an_approval_that_starts_nothing_is_not_visible() -> None:
    """An approval that waits for others does not change the document."""
    with FleetHarness() as harness:
        harness.make_scale_set(2)
        harness.operate(Delete, "web/0", "web_0", name="1")
        harness.advance(1)
        harness.operate(Delete, "web/0", "web_1", name="2")
        before = harness.poll("web/0")
        harness.approve("web/0", "web_1")
        assert harness.poll("web/0") == before


@pytest.mark.spec("M16")
def test_all_machines_of_a_scope_see_all_its_events_and_no_others() -> None:
    """The document has the events of all machines of the scope, and no others."""
    with FleetHarness() as harness:
        for scope in ("x", "y"):
            harness.availability_set(scope, machines=2, domains=2)
            harness.poll(scope)
        harness.operate(Restart, "x", "x0", name="1")
        harness.operate(Restart, "y", "y1", name="2")
        for scope, machine in (("x", "x0"), ("y", "y1")):
            assert [e["Resources"] for e in harness.poll(scope)["Events"]] == [[machine]]


@pytest.mark.spec("M16")
def test_a_scope_cannot_approve_events_of_another() -> None:
    """An event id of another scope is unknown, and the approval changes nothing."""
    with FleetHarness() as harness:
        harness.make_enabled("a", "b")
        harness.operate(Restart, "a", "a")
        event = harness.event_of("a", "a").id
        strange = _refused(harness, event)
        assert _refused(harness, "F" * 36).code == strange.code
        assert strange.message.replace(event, "F" * 36) == _refused(harness, "F" * 36).message
        assert harness.statuses("a") == {"a": EventStatus.SCHEDULED}
        assert harness.impacts() == []


def _refused(harness: FleetHarness, event: str) -> FairwarningError:
    return harness.refusal(Approve(scope="b", events=(event,)))


@pytest.mark.spec("M8")
def test_dates_do_not_depend_on_the_locale() -> None:
    """Day and month names are English and times are GMT in every locale."""
    with FleetHarness(start=NOON + 31 * 24 * 3600) as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        text = json.dumps(harness.poll("vm"))
        assert "Mon, 09 Feb 2026 12:15:00 GMT" in text
