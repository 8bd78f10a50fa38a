"""docs/upgrade-and-backup.md: its commands make a backup and restore the fleet from it."""

import os
import sqlite3
from pathlib import Path

import pytest

from fairwarning.core.commands import Poll
from fairwarning.core.model import Entity, Scope
from fairwarning.store.postgres.store import PostgresStore
from tests.bench.fleets import Never, serving
from tests.cluster.pair import DATABASE, Pair
from tests.docs.pages import DOCS, blocks
from tests.fixtures.fleet import restart, standalone
from tests.fixtures.postgres import programs
from tests.fixtures.postgres.database import skip_without_postgres
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_tar
from tests.fixtures.service import ServiceProcess

PAGE = DOCS / "upgrade-and-backup.md"
SAVE, DUMP, RESTORE, LOAD = (
    block.text for block in blocks(PAGE) if block.mark.endswith(Path(__file__).name)
)
LIBRARY = "/var/lib/private"  # where systemd keeps the data of dynamic users
FLEET = '[[machine]]\nname = "web"\n'


def shell(text: str, folder: Path, **environment: str) -> None:
    """Run commands of the page in this folder; the test itself stops and starts the service."""
    stubs = folder / "bin"
    stubs.mkdir(exist_ok=True)
    systemctl = stubs / "systemctl"
    systemctl.write_text("#!/bin/sh\n")
    systemctl.chmod(0o755)
    path = f"{stubs}:{environment.pop('PATH', '')}:{os.environ['PATH']}"
    script = text.replace(LIBRARY, str(folder))
    done = run_program("sh", "-eu", "-c", script, cwd=folder, env={"PATH": path, **environment})
    assert done.returncode == 0, done.stderr


@needs_tar
def test_a_folder_is_restored(tmp_path: Path) -> None:
    """With its events, tokens and certificates; later changes are gone."""
    data = tmp_path / "fairwarning"
    with ServiceProcess(data, fleet=FLEET) as service:
        service.poll("web")
        assert service.run("machine", "restart", "web").returncode == 0
        saved, ca = service.poll("web"), (data / "ca.pem").read_bytes()
        token = service.ready["token"]
        assert service.stop()[0] == 0
    shell(SAVE, tmp_path)
    with ServiceProcess(data, fleet=FLEET) as service:
        event = saved["Events"][0]["EventId"]
        assert service.run("event", "cancel", event).returncode == 0
        assert service.poll("web")["Events"] == []
        assert service.stop()[0] == 0
    shell(RESTORE, tmp_path)
    with ServiceProcess(data, fleet=FLEET) as service:
        assert service.poll("web") == saved
        assert (data / "ca.pem").read_bytes() == ca
        again = service.api("POST", "/api/machines/web/restart", token=token)
        assert again.status == 409, again  # the token is valid, and web has its event


def test_a_folder_in_use_cannot_be_read(tmp_path: Path) -> None:
    """So a live copy by another connection cannot be mistaken for a backup."""
    with ServiceProcess(tmp_path / "fairwarning", fleet=FLEET) as service:
        other = sqlite3.connect(service.data / "fleet.db", timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            other.execute("SELECT count(*) FROM sqlite_master")
        other.close()


async def _read(store: PostgresStore, name: str) -> Entity | None:
    return (await store.load([(Scope, name)]))[Scope, name]


async def _check_restored(database_url: str, tmp_path: Path) -> None:
    environment = {"PATH": str(programs.folder()), "FAIRWARNING_DATA": database_url}
    store = PostgresStore(database_url)
    async with serving(store, Never()) as fleet:
        await store.add_note_if_absent("key", "of the first start")
        await fleet.submit(standalone("vm"))
        await fleet.submit(Poll(scope="vm", actor="vm"))
        await fleet.submit(restart("vm"))
        saved, lines = await _read(store, "vm"), await store.journal()
        shell(DUMP, tmp_path, **environment)
        await fleet.submit(standalone("later"))
    shell(LOAD, tmp_path, **environment)
    store = PostgresStore(database_url)
    async with serving(store, Never()) as fleet:
        assert await _read(store, "vm") == saved
        assert await store.journal() == lines
        assert await store.add_note_if_absent("key", "of the second") == "of the first start"
        assert await _read(store, "later") is None
        await fleet.submit(standalone("later"))
        assert await _read(store, "later") is not None


async def test_a_database_is_restored(database_url: str, tmp_path: Path) -> None:
    """With scopes, journal and keys; the service continues from there."""
    await _check_restored(database_url, tmp_path)


async def test_the_database_of_two_hosts_is_restored(tmp_path: Path) -> None:
    """The commands find the primary, also if the URL names the standby first."""
    skip_without_postgres()
    with Pair() as pair:
        hosts = f"127.0.0.1:{pair.standby.port},127.0.0.1:{pair.primary.port}"
        await _check_restored(f"postgresql://postgres@{hosts}/{DATABASE}", tmp_path)
