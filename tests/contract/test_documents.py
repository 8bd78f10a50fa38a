"""The document: fields, formats, versions, incarnations, scopes (M6 to M11, M16)."""

import pytest

from fairwarning.core.commands import Restart
from tests.contract.units import MINUTE
from tests.fixtures.fleet import FleetHarness


@pytest.mark.spec("M7")
def test_instances_have_their_resource_names(harness: FleetHarness) -> None:
    """Resources has the resource name `web_0`, not the host name."""
    harness.make_scale_set(1)
    harness.operate(Restart, "web/0", "web_0")
    assert harness.poll("web/0")["Events"][0]["Resources"] == ["web_0"]
    assert harness.poll("web/0", "2017-03-01")["Events"][0]["Resources"] == ["_web_0"]


@pytest.mark.spec("M11")
def test_the_incarnation_counts_visible_changes(harness: FleetHarness) -> None:
    """Each visible change increases the incarnation by one, and nothing else does."""
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
def test_an_operation_over_three_domains_is_one_change(harness: FleetHarness) -> None:
    """All changes of one decision become visible together, with one new incarnation."""
    harness.availability_set()
    harness.poll("av")
    harness.operate(Restart, "av", "av0", "av1", "av2")
    document = harness.poll("av")
    assert (document["DocumentIncarnation"], len(document["Events"])) == (2, 3)
