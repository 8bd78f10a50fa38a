"""The methods of the cloud that the fixture provides."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairwarning import Refused, ScheduledEvents, Unavailable
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.guest.endpoint import VARIABLE
from fairwarning.testing.cloud import Cloud, MachineHandle
from fairwarning.testing.service import ask

pytestmark = pytest.mark.spec("O9")

NOON = datetime(2026, 1, 9, 12, tzinfo=UTC)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """Yield a cloud without machines."""
    with Cloud() as cloud:
        yield cloud


def types(machine: MachineHandle) -> list[str]:
    """Return the types of the active events of a machine."""
    return [str(event.type) for event in machine.events]


# --- Machines ------------------------------------------------------------------------------------


def test_documents_and_events() -> None:
    """The document comes over HTTP, in any version; events are objects of the SDK."""
    with Cloud(start=NOON) as cloud:
        web = cloud.machine("web")
        assert web.document() == {"DocumentIncarnation": 1, "Events": []}
        planned = web.restart()
        (seen,) = web.document("2017-03-01")["Events"]
        assert (seen["Resources"], seen["NotBefore"]) == (["_web"], "2026-01-09T12:15:00Z")
        assert planned.event == web.events[0]
        assert web.events[0].not_before == NOON + timedelta(minutes=15)
        with ScheduledEvents(web.url) as client:
            assert client.me() == "web"
            assert list(client.events()) == web.events
        with pytest.raises(Refused, match="answered 404"):
            web.document("2000-01-01")


def test_approving(cloud: Cloud) -> None:
    """A machine approves one event or all scheduled events; an unknown event is refused."""
    web = cloud.machine("web")
    with pytest.raises(Refused, match="'web' has no scheduled event"):
        web.approve()
    event = web.restart().event
    assert event is not None
    web.approve(event)
    assert web.events[0].started
    web.approve(event.id)  # a repeated approval has no effect
    with pytest.raises(Refused, match="answered 400"):
        web.approve("00000000-0000-0000-0000-000000000000")


def test_a_machine_that_never_polled_gets_no_notice(cloud: Cloud) -> None:
    """`enabled=False` leaves the first poll to the handler."""
    one, two = (cloud.machine(name, enabled=False) for name in ("one", "two"))
    one.document()
    one.restart()
    two.restart()
    assert (one.history, two.history) == ([], ["reboot"])
    web = cloud.scale_set("web", 1, enabled=False, terminate_notice=300)
    web.scale(2)
    web.machines[0].delete()
    assert web.machines[0].history == ["delete"]


def test_a_deleted_machine(cloud: Cloud) -> None:
    """Its handle reports the deletion; a new machine with its name is another machine."""
    web = cloud.machine("web")
    web.delete()
    cloud.settle()
    assert not web.exists
    assert web.events == []
    with pytest.raises(NotFound, match="'web' has been deleted"):
        web.restart()
    again = cloud.machine("web")
    assert again != web
    assert again.exists
    assert not web.exists


# --- Creating machines ----------------------------------------------------------------------------


def test_settings_are_those_of_the_fleet_file(cloud: Cloud) -> None:
    """They have the same checks and error texts."""
    web = cloud.machine("web", tags={"a b": "ü\n\U0001f600"}, rules={"reboot_seconds": 60})
    assert web.state.tags == {"a b": "ü\n\U0001f600"}
    web.restart()
    cloud.advance(60)
    assert web.history == ["reboot"]
    for settings, message in (
        ({"sice": "x"}, "did you mean size"),
        ({"priority": "Cheap"}, "must be one of Regular, Spot"),
        ({"terminate_notice": 60}, "'PT5M' to 'PT15M'"),
        ({"zone": None}, "not None"),
        ({"count": 2}, "machine.. creates one"),
    ):
        with pytest.raises(Refused, match=message):
            cloud.machine("bad", **settings)
    with pytest.raises(Conflict):
        cloud.machine("web")


def test_an_availability_set(cloud: Cloud) -> None:
    """Its machines share one document and are spread over update domains."""
    machines = cloud.machines("db", 3, update_domains=2, priority="Spot", terminate_notice=300)
    assert [machine.name for machine in machines] == ["db_0", "db_1", "db_2"]
    assert [machine.state.update_domain for machine in machines] == [0, 1, 0]
    machines[0].restart()
    assert machines[1].document() == machines[0].document()
    assert [types(machine) for machine in machines] == [["Reboot"], [], []]


def test_a_scale_set(cloud: Cloud) -> None:
    """It scales out, scales in with notice, changes its model, and is deleted."""
    web = cloud.scale_set("web", 0, terminate_notice=300)
    web.scale(3)
    first, second, third = web.machines
    assert (first.name, first in web.machines) == ("web_0", True)
    web.protect(third)
    web.scale(2)
    assert types(second) == ["Terminate"]
    cloud.settle()
    assert web.machines == [first, third]
    web.update(terminate_notice=600, upgrade="Manual", rules={"reboot_seconds": 5})
    assert (first.state.terminate_seconds, web.state.terminate_seconds) == (300, 600)
    web.upgrade(first, 2)
    assert first.state.terminate_seconds == 600
    web.delete()
    cloud.settle()
    assert not web.exists
    with pytest.raises(NotFound):
        _ = web.machines
    with pytest.raises(Refused, match="there is no key"):
        web.update(colour="red")


def test_actions_on_instances(cloud: Cloud) -> None:
    """A user's delete goes through the set; a freeze of the platform does not."""
    web = cloud.scale_set("web", 2, terminate_notice=300)
    one, two = web.machines
    one.delete()
    two.freeze()
    assert (types(one), types(two)) == (["Terminate"], ["Freeze"])
    cloud.settle()
    assert web.machines == [two]


def test_a_fleet_file() -> None:
    """It is loaded at the start or later; settings of the whole cloud only at the start."""
    text = '[[machine]]\nname = "a"\n[[scale_set]]\nname = "web"\ncapacity = 2'
    with Cloud(f'[cloud]\nlocation = "moon"\n{text}') as cloud:
        assert cloud.find("web/0/web_1") == cloud.find("web_1")
        assert len(cloud.find_set("web").machines) == 2
        (more,) = cloud.load('[[machine]]\nname = "b"')
        assert more.name == "b"
        for kind, find in (("machine", cloud.find), ("scale set", cloud.find_set)):
            with pytest.raises(NotFound, match=f"no {kind} 'c'"):
                find("c")
        with pytest.raises(Refused, match="cannot change in a running cloud"):
            cloud.load('[cloud]\nlocation = "sun"')
    with pytest.raises(Refused, match="did you mean name"):
        Cloud("[[machine]]\nnme = 1")


# --- Environment ----------------------------------------------------------------------------------


def test_inside_sets_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of one thread use the machine's endpoint without a proxy; then it is restored."""
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:1")
    monkeypatch.setenv(VARIABLE, "http://192.0.2.2:1")
    before = dict(os.environ)
    with Cloud() as cloud:
        one, two = cloud.machines("db", 2)
        with cloud.inside(one):
            with cloud.inside(two) as inner, ScheduledEvents() as client:
                assert client.me() == inner.name == "db_1"
            with ScheduledEvents() as client:
                assert client.me() == "db_0"
            assert "HTTP_PROXY" not in os.environ
            with ThreadPoolExecutor(1) as pool, pytest.raises(Conflict, match="another thread"):
                pool.submit(cloud.inside(two).__enter__).result()
            assert os.environ[VARIABLE] == one.url
        assert dict(os.environ) == before


def test_unix_sockets() -> None:
    """Machines can use Unix sockets, which are removed with the cloud."""
    with Cloud(sockets=True) as cloud:
        one, two = cloud.machines("db", 2)
        path = Path(one.url.removeprefix("unix:"))
        assert path.is_socket()
        assert cloud.find("db_0") == one != two
        with ScheduledEvents(two.url) as client:
            assert client.me() == "db_1"
        one.restart()
        one.approve()
        assert one.document()["Events"][0]["EventStatus"] == "Started"
    assert not path.parent.exists()


# --- Time -----------------------------------------------------------------------------------------


@pytest.mark.spec("O9")
def test_time() -> None:
    """The clock stands still, is advanced, or runs."""
    with Cloud(start=NOON) as cloud:
        assert cloud.now == NOON
        cloud.advance(1, minutes=2, hours=3, days=4)
        assert cloud.now == NOON + timedelta(days=4, hours=3, minutes=2, seconds=1)
        web = cloud.machine("web")
        web.restart()
        cloud.run(100_000)
        cloud.until(lambda: web.history)
        cloud.run(0)
        stopped = cloud.now
        assert stopped == cloud.now >= NOON + timedelta(days=4, minutes=15)
        with pytest.raises(Refused, match="advance by 0"):
            cloud.advance(-1)
    with pytest.raises(Refused, match=r"start=datetime.* has no time zone; add one"):
        Cloud(start=NOON.replace(tzinfo=None))


def test_settle_advances_no_further_than_needed() -> None:
    """It stops when the last impact has ended."""
    with Cloud(start=NOON) as cloud:
        cloud.settle()
        assert cloud.now == NOON
        cloud.machine("web").restart()
        cloud.settle()
        assert cloud.now == NOON + timedelta(minutes=16)


def test_until_times_out() -> None:
    """A condition that never holds raises TimeoutError, which says that the clock stands still."""
    with Cloud() as cloud:
        with pytest.raises(TimeoutError, match=r"within 0 seconds .*; the cloud's clock stands"):
            cloud.until(lambda: False, seconds=0)
        cloud.run(1)
        with pytest.raises(TimeoutError, match=r"within 0 seconds of real time$"):
            cloud.until(lambda: False, seconds=0)


def test_many_threads() -> None:
    """Calls from many threads are all carried out."""
    with Cloud() as cloud, ThreadPoolExecutor(8) as pool:
        machines = list(pool.map(lambda n: cloud.machine(f"m{n}"), range(40)))
        list(pool.map(lambda machine: machine.restart(), machines))
        list(pool.map(lambda machine: machine.approve(), machines))
        assert all(machine.history == ["reboot"] for machine in machines)
        assert len({machine.url for machine in machines}) == 40


# --- The platform ---------------------------------------------------------------------------------


def test_cancelling(cloud: Cloud) -> None:
    """An active event can be cancelled by its id."""
    web = cloud.machine("web")
    planned = web.restart()
    event = web.events[0].id
    cloud.cancel(event)
    assert (planned.status, web.events) == ("Canceled", [])
    with pytest.raises(NotFound, match="or it is over"):
        cloud.cancel(event)
    for act in (cloud.cancel, web.approve):
        with pytest.raises(Refused, match="or its id, not None"):
            act(planned.event)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="one of freeze, reboot, redeploy"):
        cloud.rollout(kind="paint")


def test_targets(cloud: Cloud) -> None:
    """Machines and sets; only a rollout without arguments means the whole cloud."""
    web, gone, _ = (cloud.machine(name) for name in ("web", "gone", "other"))
    db, api, empty = (
        cloud.scale_set(name, size) for name, size in (("db", 2), ("api", 1), ("e", 0))
    )
    gone.delete()
    cloud.settle()
    to: Any = cloud
    to_set: Any = db
    calls: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: to.rollout([]), r" \[\] has no machines; to cover the whole cloud"),
        (lambda: to.rollout(web, iter(())), "has no machines"),
        (lambda: to.rollout(empty), "<scale set e> has no machines"),
        (lambda: to.rollout("web"), r"find\('web'\), or .* find_set\('web'\), not 'web'"),
        (lambda: to.rollout([web, None]), "not None"),
        (lambda: to.inside("web").__enter__(), r"find\('web'\), not 'web'"),
        (lambda: to.find(web), "such as 'web', not <machine web"),
        (lambda: to.find_set(db), "not <scale set db>"),
        (lambda: to.fault("500", machine="web"), r"find\('web'\), not 'web'"),
        (lambda: to.fault("500", machine=[]), r"not \[\]"),
        (lambda: to.fault("500", machine=gone), "'gone' has been deleted"),
        (lambda: to.fault("500", scope="db"), "no scope 'db'; pass the `scope` of a machine"),
        (lambda: to.fault("500", scope=None), "no scope None"),
        (lambda: to_set.delete(db.machines), "or by its id, not by .<machine db_0"),
        (lambda: to_set.upgrade("db_0"), r"find\('web_0'\), or by its id, not by 'db_0'"),
        (lambda: to_set.protect(api.machines[0]), "'api_0' is no instance of scale set 'db'"),
    )
    for call, message in calls:
        with pytest.raises(Refused, match=message):
            call()
    assert web.document()["Events"] == []  # no fault either
    assert cloud.rollout(db, iter([web])).state.machines == 3
    assert cloud.rollout().state.machines == 5


@pytest.mark.spec("M21")
def test_faults(cloud: Cloud) -> None:
    """They end after their count or duration, or when they are cleared; `events` meets none."""
    (db,), web = cloud.machines("db", 1), cloud.machine("web")
    db.restart()
    cloud.fault("500", scope="db", seconds=60)
    web.document()
    assert types(db) == ["Reboot"]  # which is no request
    with pytest.raises(Unavailable, match="'db_0' was answered 500"):
        db.document()
    cloud.advance(minutes=1)
    db.document()
    cloud.fault("delay", delay_seconds=0.01)
    web.document()
    cloud.fault("410")
    with pytest.raises(Unavailable):
        web.document()
    cloud.clear_faults()
    cloud.fault("reset", machine=web, count=1)
    with pytest.raises(Unavailable):
        web.document()
    web.document()
    with pytest.raises(Refused, match="must be one of delay, empty"):
        cloud.fault("511")


def test_the_journal() -> None:
    """It has a line per fact, with the time, the subject, the details and the actor."""
    with Cloud(start=NOON) as cloud:
        operation = cloud.machine("web").restart()
        assert repr(operation) == f"<Restart {operation.id}: InProgress>"
        lines = cloud.journal().splitlines()
        assert lines[0] == "2026-01-09T12:00:00Z web: ScopeCreated by operator"
        scheduled = "Scheduled (web, Reboot by User, not before 2026-01-09T12:15:00Z, event "
        assert lines[-1].startswith(f"2026-01-09T12:00:00Z web: {scheduled}")


def test_a_closed_cloud() -> None:
    """Calls are refused; closing it again has no effect."""
    cloud = Cloud()
    web = cloud.machine("web")
    cloud.close()
    cloud.close()
    assert not cloud.is_open
    with pytest.raises(Refused, match="this cloud is closed"):
        web.restart()
    with pytest.raises(Unavailable, match="no answer"):
        web.document()


def test_a_machine_whose_socket_is_gone(tmp_path: Path) -> None:
    """Where machines have Unix sockets, as on macOS, a closed cloud has removed them."""
    with pytest.raises(Unavailable, match="no answer"):
        ask(f"unix:{tmp_path}/1.sock", "GET", "/")
