"""Incarnations on the wire: the number, its ETag, and 304 for who has it already (M11)."""

import pytest

from fairwarning.core.commands import Degrade
from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval, poll
from tests.fixtures.http import send

pytestmark = pytest.mark.spec("M11")

DAY = 24 * 3600
KNOWN = "If-None-Match"


def test_each_visible_change_counts_one() -> None:
    """1 when newly enabled, then one more for announced, started and gone; quiet time is none."""
    with EndpointHarness() as it:
        it.make("db", 2)
        seen = [it.get("db_0")]
        event = it.restart("db_1")
        seen.append(it.get("db_0"))
        it.advance(60)
        assert it.get("db_0").body == seen[-1].body
        it.approve("db_0", event.id)
        seen.append(it.get("db_0"))
        it.advance(60)
        seen.append(it.get("db_0"))
        assert [answer.json["DocumentIncarnation"] for answer in seen] == [1, 2, 3, 4]
        assert all(type(answer.json["DocumentIncarnation"]) is int for answer in seen)
        assert [answer.headers["etag"] for answer in seen] == ['"1"', '"2"', '"3"', '"4"']


def test_machines_of_a_scope_share_it() -> None:
    """Two machines of one scope read the same bytes; another scope counts by itself."""
    with EndpointHarness() as it:
        it.make("db", 2)
        it.make("web")
        it.get("db_0"), it.get("web_0")
        it.restart("db_0")
        assert it.get("db_0").body == it.get("db_1").body
        assert it.get("db_1").headers["etag"] == '"2"'
        assert it.get("web_0").headers["etag"] == '"1"'


@pytest.mark.parametrize(
    "tags", ['"2"', "2", 'W/"2"', '"1", "2"', "1,2", '"9",W/"2","4"', "*", ' "2"  ']
)
def test_who_has_it_gets_304(tags: str) -> None:
    """Quoted or bare, weak or strong, alone or in a list; 304 has the ETag and no body."""
    with EndpointHarness() as it:
        it.make("db")
        it.get("db_0")
        it.restart("db_0")
        answer = it.get("db_0", **{KNOWN: tags})
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["etag"] == '"2"'
        assert "content-type" not in answer.headers


@pytest.mark.parametrize(
    "tags", ["0", '"0"', '"1"', '"22"', '"1", "3"', "", '""', "two", '"2"3', "2 3", '"*"', "-2"]
)
def test_who_has_another_gets_the_document(tags: str) -> None:
    """An older one, one that never was, or none at all that can be read: 200."""
    with EndpointHarness() as it:
        it.make("db")
        it.get("db_0")
        it.restart("db_0")
        answer = it.get("db_0", **{KNOWN: tags})
        assert (answer.status, answer.json["DocumentIncarnation"]) == (200, 2)
        assert answer.headers["etag"] == '"2"'


@pytest.mark.parametrize("version", ["2017-03-01", "2019-01-01", "2020-07-01"])
def test_a_sample_that_keeps_the_etag(version: str) -> None:
    """Start with 0, send back what was received, byte by byte: news each time, else 304."""
    with EndpointHarness() as it:
        it.make("db")
        connection = it.client("db_0")
        tag, seen = "0", []
        for change in (None, None, it.restart, None, None):
            if change:
                change("db_0")
            answer = poll(connection, version, **{KNOWN: tag})
            tag = answer.headers["etag"]
            seen.append(answer.status)
        connection.close()
        assert seen == [200, 304, 200, 304, 304]


def test_304_keeps_the_connection_in_step() -> None:
    """What follows on the same connection is answered as if nothing had been."""
    with EndpointHarness() as it:
        it.make("db")
        connection = it.client("db_0")
        assert poll(connection).status == 200
        for _ in range(3):
            assert poll(connection, **{KNOWN: '"1"'}).status == 304
            assert poll(connection).json == {"DocumentIncarnation": 1, "Events": []}
        assert poll(connection, **{KNOWN: '"1"', "Connection": "close"}).status == 304


def test_approvals_do_not_mind_it() -> None:
    """A POST that carries the ETag, as Microsoft's Node sample does, is an approval like others."""
    with EndpointHarness() as it:
        it.make("db")
        it.get("db_0")
        event = it.restart("db_0")
        body = approval(event.id)
        headers = {"Metadata": "true", KNOWN: '"2"'}
        connection = it.client("db_0")
        answer = send(connection, "POST", f"{EVENTS}?api-version=2020-07-01", headers, body)
        connection.close()
        assert (answer.status, answer.body) == (200, b"")
        assert it.get("db_0").json["Events"][0]["EventStatus"] == "Started"


@pytest.mark.spec("M14")
def test_numbers_restart_after_the_feature_was_off() -> None:
    """Switched on anew, a scope is at 1 again."""
    with EndpointHarness() as it:
        it.make("db")
        it.get("db_0")
        it.approve("db_0", it.restart("db_0").id)
        it.advance(60)
        assert it.get("db_0").headers["etag"] == '"4"'
        it.advance(DAY)
        answer = it.get("db_0", **{KNOWN: '"4"'})
        assert (answer.status, answer.headers["etag"]) == (200, '"1"')
        assert answer.json == {"DocumentIncarnation": 1, "Events": []}


def test_a_number_from_before_the_feature_was_off_is_not_known() -> None:
    """A machine that kept "1" through days of silence must not miss what the new 1 holds."""
    with EndpointHarness() as it:
        it.make("db", 2)
        kept = {KNOWN: it.get("db_0").headers["etag"]}
        it.get("db_1")
        week_ahead = int(it.clock.now()) + 7 * DAY
        it.do(Degrade(scope="db", operation="op", machines=("db_1",), not_before=week_ahead))
        it.advance(3 * DAY)
        for machine in ("db_0", "db_1"):
            answer = it.get(machine, **kept)
            assert (answer.status, answer.json["DocumentIncarnation"]) == (200, 1)
            assert len(answer.json["Events"]) == 1
            assert it.get(machine, **kept).status == 304
