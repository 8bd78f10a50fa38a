"""examples/drain: no request through the proxy is dropped, and the machine returns."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairwarning.testing import Cloud
from tests.examples.copies import AGENT, copy, fill_in
from tests.fixtures.http import fetch, free_port, is_listening, local_url
from tests.fixtures.programs import start_program
from tests.fixtures.requirements import needs_children_in_proc, needs_nginx
from tests.fixtures.waiting import wait_until
from tests.recipes.rolling import Backend, Client


def visit(port: int, path: str) -> str:
    """Send a request, which must succeed; return the name of the machine."""
    response = fetch(local_url(port, path))
    assert response.status == 200
    return response.text


@pytest.mark.spec("G4")
@needs_nginx
@needs_children_in_proc
def test_no_request_is_dropped(tmp_path: Path) -> None:
    """The event is approved after the last request is answered; no request fails."""
    folder, port, release = copy("drain", tmp_path), free_port(), threading.Event()
    slow: list[str] = []
    backends = [Backend("web_0", release), Backend("web_1", release)]
    proxy = ("nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off;")
    fill_in(folder / "nginx.conf", **{"8080": port})
    fill_in(folder / "backends.conf", **{"8001": backends[0].port, "8002": backends[1].port})
    with Cloud() as cloud, ExitStack() as stack:
        for backend in backends:
            backend.start()
            stack.callback(backend.stop)
        stack.callback(release.set)
        web = cloud.machines("web", 2)[0]
        stack.enter_context(start_program(*proxy, folder=folder))
        agent = stack.enter_context(start_program(*AGENT, folder=folder, env=web.env))
        wait_until(lambda: is_listening(port), "nginx listens")
        agent.wait_for("watching for web_0")
        waiting = [
            threading.Thread(target=lambda: slow.append(visit(port, "/slow"))) for _ in range(4)
        ]
        for thread in waiting:
            thread.start()
        client = Client(lambda _: visit(port, "/"))
        client.start()
        stack.callback(client.stop)
        client.wait_for(10, "web_0", "web_1")
        web.restart()
        wait_until(lambda: len(client.answers) > 50, "many answers")
        client.wait_for(30, "web_1")
        assert web.history == []  # not approved while requests are in progress
        release.set()
        wait_until(lambda: web.history == ["reboot"], "it is approved")
        for thread in waiting:
            thread.join()
        cloud.settle()
        client.wait_for(10, "web_0", "web_1")
    assert client.lost == []
    assert len(slow) == 4
    assert set(slow) == {"web_0", "web_1"}
