"""Redis with Sentinel: a rolling reboot of the hosts loses no acknowledged write."""

import shutil
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairwarning.testing import Cloud
from tests.examples.copies import copy, fill_in
from tests.fixtures.http import free_ports, is_listening
from tests.fixtures.programs import BackgroundProgram
from tests.fixtures.waiting import wait_until
from tests.recipes.rolling import Client, agents, reboot_in_turn

PROGRAMS = ("redis-server", "redis-sentinel", "redis-cli")


def ask(port: int, command: str) -> list[str]:
    """Return the texts of a server's answer."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(f"{command}\r\n".encode())
        with connection.makefile() as answer:
            head = answer.readline().strip()
            count = int(head[1:]) if head.startswith("*") else 0
            texts = [answer.readline() + answer.readline() for _ in range(count)]
    return [text.split()[-1] for text in texts] or [head]


class RedisHost:
    """A host with a server and a Sentinel."""

    def __init__(self, folder: Path, ports: tuple[int, int], first: int) -> None:
        self.folder = folder
        self.server, self.sentinel = ports
        fill_in(folder / "redis.conf", **{"6379": self.server})
        fill_in(folder / "sentinel.conf", **{"26379": self.sentinel, "6379": first})
        fill_in(folder / "agent.toml", **{"26379": self.sentinel, "6379": self.server})
        if self.server != first:
            with (folder / "redis.conf").open("a") as file:
                file.write(f"replicaof 127.0.0.1 {first}\n")
        self._programs: list[BackgroundProgram] = []

    def start(self) -> None:
        for command in (("redis-server", "redis.conf"), ("redis-sentinel", "sentinel.conf")):
            self._programs.append(BackgroundProgram(*command, folder=self.folder))
        wait_until(lambda: is_listening(self.server) and is_listening(self.sentinel), "it listens")

    def kill(self) -> None:
        for program in self._programs:
            program.process.kill()
            program.process.wait()
        self._programs.clear()

    def is_whole(self) -> bool:
        """Whether its Sentinel knows two replicas and two other Sentinels."""
        state = ask(self.sentinel, "sentinel master main")
        fields = dict(zip(state[::2], state[1::2], strict=True))
        return (fields.get("num-slaves"), fields.get("num-other-sentinels")) == ("2", "2")


@pytest.mark.campaign
@pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)),
    reason="needs Redis: apt-get install redis-server redis-sentinel",
)
def test_no_acknowledged_write_is_lost(tmp_path: Path) -> None:
    """G4: a client that asks Sentinel and repeats a failed write has every write accepted."""
    ports = free_ports(6)
    failed: list[str] = []
    with Cloud() as cloud, ExitStack() as stack:
        hosts = []
        for number in range(3):
            folder = copy("redis", tmp_path / str(number))
            host = RedisHost(folder, (ports[number], ports[number + 3]), ports[0])
            stack.callback(host.kill)
            host.start()
            hosts.append(host)
        wait_until(lambda: all(host.is_whole() for host in hosts), "all know each other")

        def master() -> int:
            answer = ask(hosts[len(failed) % 3].sentinel, "sentinel get-master-addr-by-name main")
            return int(answer[1])

        def write(number: int) -> str:
            def attempt() -> bool:
                try:
                    answer = ask(master(), f"set {number} written")
                except (OSError, LookupError) as error:
                    answer = [repr(error)]
                failed.extend(answer if answer != ["+OK"] else [])
                return answer == ["+OK"]

            wait_until(attempt, "a write is accepted")
            return ""

        masters = []

        def reboot(number: int) -> None:
            masters.append(master() == hosts[number].server)
            hosts[number].kill()
            hosts[number].start()

        machines = cloud.machines("cache", 3)
        client = Client(write)
        with agents(machines, [host.folder for host in hosts]) as programs:
            client.start()
            try:
                reboot_in_turn(cloud, machines, programs, reboot)
            finally:
                client.stop()
        client.report(f"Redis with Sentinel ({len(failed)} attempts repeated)")
        assert ask(master(), "dbsize") == [f":{len(client.answers)}"]
    assert client.lost == []
    assert masters == [False, False, False]
