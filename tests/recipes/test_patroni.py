"""Patroni behind HAProxy: a rolling reboot of the database hosts loses no write."""

from pathlib import Path

import psycopg
import pytest

from fairwarning.testing import Cloud
from tests.cluster.patroni import HighAvailability, missing_packages
from tests.examples.copies import copy, fill_in
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until
from tests.recipes.rolling import Client, agents, reboot_in_turn


@pytest.mark.campaign
@pytest.mark.skipif(bool(missing_packages()), reason=missing_packages())
def test_no_write_is_lost(tmp_path: Path) -> None:
    """G4: a client that repeats a failed write has every write accepted, once, and none is lost.

    A leader hands over before its host is approved; no host goes down as the leader.
    """
    with HighAvailability() as setup, Cloud() as cloud:
        proxy = f"host={setup.network}9 port=5000 user=fairwarning password={setup.password}"
        failed: list[str] = []

        def write(number: int) -> str:
            statement = f"insert into written values ({number}) on conflict do nothing"

            def attempt() -> bool:
                try:
                    with psycopg.connect(proxy, dbname="fairwarning", connect_timeout=3) as server:
                        server.execute(statement.encode())
                except psycopg.Error as error:
                    failed.append(str(error).strip())
                    return False
                return True

            wait_until(attempt, "a write is accepted", limit_seconds=LIMIT_SECONDS)
            return ""

        with psycopg.connect(proxy, dbname="fairwarning") as server:
            server.execute("create table written (number int primary key)")
        folders = []
        for number, host in enumerate(setup.hosts):
            folder = copy("patroni", tmp_path / str(number))
            fill_in(folder / "agent.toml", **{"127.0.0.1": host.address})
            folders.append(folder)
        leaders = []

        def reboot(number: int) -> None:
            leaders.append(setup.primary() is setup.hosts[number])
            setup.hosts[number].lose()
            setup.hosts[number].start()

        machines = cloud.machines("db", 3)
        client = Client(write)
        with agents(machines, folders) as programs:
            client.start()
            try:
                reboot_in_turn(cloud, machines, programs, reboot)
                setup.wait_until_whole()
            finally:
                client.stop()
        with psycopg.connect(proxy, dbname="fairwarning") as server:
            (count,) = server.execute("select count(*) from written").fetchone() or (0,)
        client.report(f"Patroni behind HAProxy ({len(failed)} attempts repeated)")
        assert leaders == [False, False, False]
        assert client.lost == []
        assert count == len(client.answers)
