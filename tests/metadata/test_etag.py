"""Incarnations on the wire: the number, its ETag, and 304 for a known document (M11)."""

import pytest

from fairwarning.core.commands import Degrade
from tests.fixtures.endpoint import POLL_TARGET, EndpointHarness, approval

pytestmark = pytest.mark.spec("M11")

DAY = 24 * 3600
KNOWN = "If-None-Match"


def test_machines_of_a_scope_share_the_incarnation(endpoint: EndpointHarness) -> None:
    """Two machines of a scope read the same bytes; another scope has its own count."""
    endpoint.make("db", 2)
    endpoint.make("web")
    endpoint.get("db_0"), endpoint.get("web_0")
    endpoint.restart("db_0")
    shown = [endpoint.get(machine) for machine in ("db_0", "db_1", "web_0")]
    assert shown[0].body == shown[1].body
    assert [response.headers["etag"] for response in shown] == ['"2"', '"2"', '"1"']
    assert [response.json["DocumentIncarnation"] for response in shown] == [2, 2, 1]


KNOWN_TAGS = ['"2"', "2", 'W/"2"', '"1", "2"', "1,2", '"9",W/"2","4"', "*", ' "2"  ']
OTHER_TAGS = ["0", '"0"', '"1"', '"22"', '"1", "3"', "", '""', "two", '"2"3', "2 3", '"*"', "-2"]


@pytest.mark.parametrize("tags", [*KNOWN_TAGS, *OTHER_TAGS])
def test_a_known_incarnation_gets_304(endpoint: EndpointHarness, tags: str) -> None:
    """Quoted or bare, weak or strong, alone or in a list; an older or unreadable tag gets 200."""
    endpoint.make("db")
    endpoint.get("db_0")
    endpoint.restart("db_0")
    response = endpoint.get("db_0", **{KNOWN: tags})
    assert response.headers["etag"] == '"2"'
    if tags in KNOWN_TAGS:
        assert (response.status, response.body) == (304, b"")
        assert "content-type" not in response.headers
    else:
        assert (response.status, response.json["DocumentIncarnation"]) == (200, 2)


def test_approvals_ignore_if_none_match(endpoint: EndpointHarness) -> None:
    """A POST with If-None-Match, as Microsoft's Node sample sends it, is a normal approval."""
    endpoint.make("db")
    endpoint.get("db_0")
    body = approval(endpoint.restart("db_0").id)
    headers = {"Metadata": "true", KNOWN: '"2"'}
    assert endpoint.send_from("db_0", "POST", POLL_TARGET, headers, body).status == 200
    assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"


def test_incarnation_from_before_disabling_is_unknown(endpoint: EndpointHarness) -> None:
    """A machine that kept "1" through days of silence must not miss the content of the new 1."""
    endpoint.make("db", 2)
    kept = {KNOWN: endpoint.get("db_0").headers["etag"]}
    endpoint.get("db_1")
    week_ahead = int(endpoint.clock.now()) + 7 * DAY
    endpoint.do(Degrade(scope="db", operation="op", machines=("db_1",), not_before=week_ahead))
    endpoint.advance(3 * DAY)
    for machine in ("db_0", "db_1"):
        response = endpoint.get(machine, **kept)
        assert (response.status, response.json["DocumentIncarnation"]) == (200, 1)
        assert len(response.json["Events"]) == 1
        assert endpoint.get(machine, **kept).status == 304
