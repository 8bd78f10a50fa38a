"""Several threads of an agent that use the Kubernetes API for the first time at once."""

from pathlib import Path

import pytest

from tests.fixtures.programs import run_python
from tests.guest.kubernetes_double import kubeconfig

THREADS = """
import sys
import threading
from contextlib import suppress
import msgspec
from fairwarning.guest.agent.kubernetes.api import connect
from lightkube.core.decoders import decode_list, decode_object
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import Event, Node, Pod

sys.setswitchinterval(1e-6)
barrier, converting = threading.Barrier(8), threading.Barrier(8)
convert = msgspec.convert

def convert_together(*arguments):
    with suppress(threading.BrokenBarrierError):  # one at a time, as it should be
        converting.wait(0.5)
    return convert(*arguments)

msgspec.convert = convert_together

def decode():
    barrier.wait()
    connect(1)
    for kind in (Node, Lease, Pod):
        decode_object(b'{"metadata": {"name": "a"}}', kind)
    for kind in (Node, Pod):
        decode_list(b'{"items": [{"metadata": {"name": "a"}}]}', kind)

threads = [threading.Thread(target=decode) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.spec("G9")
def test_threads_that_connect_and_decode_for_the_first_time_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not crash the interpreter, as they would with msgspec alone."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "http://127.0.0.1:1")))
    result = run_python(THREADS)
    assert result.returncode == 0, result.stderr
