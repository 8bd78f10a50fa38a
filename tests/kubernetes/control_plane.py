"""etcd and kube-apiserver on loopback ports, with certificates, RBAC and admission.

There is no kubelet and no controller: a thread deletes terminating pods, and tests set the status
of nodes, pods and budgets.
"""

import http.client
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.fixtures.http import free_ports, is_listening
from tests.fixtures.programs import ROOT, run_program
from tests.fixtures.waiting import WaitLimit, wait_until
from tests.guest.kubernetes_double import Raw
from tests.kubernetes.certificates import write_certificates

PROGRAMS = ("kube-apiserver", "etcd", "kubectl")
ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS") or os.devnull)
MISSING = (
    ""
    if all((ASSETS / program).is_file() for program in PROGRAMS)
    else "run when KUBEBUILDER_ASSETS names a folder with kube-apiserver, etcd and kubectl"
)
BASE = ROOT / "deploy" / "kubernetes-agent" / "base"
AGENT = "fairwarning-agent"
_AUDIT_POLICY: Raw = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [f"system:serviceaccount:kube-system:{AGENT}"]},
        {"level": "None"},
    ],
}
_NOT_YET = {401, 403, 429, *range(500, 600)}  # answers of a starting API server
_HTTP_TIMEOUT_SECONDS = 10


class ControlPlane:
    """The processes of one control plane, and its administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        etcd, peer, self.port = free_ports(3)
        write_certificates(folder)
        (folder / "audit.json").write_text(json.dumps(_AUDIT_POLICY))
        self.audit = folder / "audit.log"
        self._tls = ssl.create_default_context(cafile=folder / "ca.crt")
        self._tls.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        self._log = (folder / "log").open("ab")
        self._etcd = self._run(
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        )
        wait_until(lambda: is_listening(etcd), self.log)
        self._etcd_url = f"http://127.0.0.1:{etcd}"
        self.start()
        wait_until(self._apply_manifests, self.log)

    def _apply_manifests(self) -> bool:
        """Apply the manifests of the agent; namespaces are created a moment after the start."""
        return self._kubectl("apply", "-k", str(BASE)).returncode == 0

    def _run(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [ASSETS / program, *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def start(self) -> None:
        """Start the API server; return before it is ready."""
        folder = self.folder
        self._api = self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={folder}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",  # which needs a controller
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'sa.pub'}",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--audit-policy-file={folder / 'audit.json'}",
            f"--audit-log-path={self.audit}",
        )

    def ensure_started(self) -> None:
        """Start the API server if a test has left it stopped."""
        if self._api.poll() is not None:
            self.start()

    def stop(self) -> None:
        """Kill the API server; etcd stays."""
        self._api.kill()
        self._api.wait()

    def close(self) -> None:
        self.stop()
        self._etcd.kill()
        self._etcd.wait()
        self._log.close()

    def log(self) -> str:
        """Return the end of the output of both programs."""
        return (self.folder / "log").read_text("utf-8", "replace")[-3000:]

    # --- The administrator ---

    def kubectl(self, *words: str) -> str:
        result = self._kubectl(*words)
        assert result.returncode == 0, result.stderr + self.log()
        return result.stdout

    def _kubectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        certificate, key = (str(self.folder / f"admin.{kind}") for kind in ("crt", "key"))
        user = {"client-certificate": certificate, "client-key": key}
        options = [
            f"--kubeconfig={self.kubeconfig('admin', user)}",
            f"--cache-dir={self.folder / 'cache'}",
        ]
        return run_program(ASSETS / "kubectl", *options, *words)

    def kubeconfig(self, name: str, user: Raw) -> Path:
        """Write a kubeconfig as JSON, which is valid YAML."""
        cluster = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority": str(self.folder / "ca.crt"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": user}],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def call(self, method: str, path: str, body: object = None, *, missing: bool = False) -> Any:  # noqa: ANN401  (JSON)
        """Send a request until the API server takes it; with `missing`, 404 is a result."""
        limit = WaitLimit()
        while True:
            status, answer = self._try(method, path, body)
            if 200 <= status < 300:
                return answer
            if status == 404 and missing:
                return None
            assert status in {0, *_NOT_YET}, f"{method} {path}: {status} {answer}"
            limit.check(f"{method} {path}: {answer}\n{self.log()}")
            time.sleep(0.05)

    def _try(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=_HTTP_TIMEOUT_SECONDS, context=self._tls
        )
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"Content-Type": f"application/{kind}"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()
        is_json = "json" in (response.getheader("Content-Type") or "")
        return response.status, json.loads(text) if is_json else text.decode()


_shared: list[tuple[tempfile.TemporaryDirectory[str], ControlPlane]] = []


def shared_control_plane() -> ControlPlane:
    """Return the control plane of this process; start it the first time."""
    if not _shared:
        folder = tempfile.TemporaryDirectory()
        _shared.append((folder, ControlPlane(Path(folder.name))))
    return _shared[0][1]


def stop_control_plane() -> None:
    """End the control plane, if there is one."""
    while _shared:
        folder, plane = _shared.pop()
        plane.close()
        folder.cleanup()


@contextmanager
def deleted_pods(plane: ControlPlane) -> Iterator[None]:
    """Delete terminating pods, as their kubelets would."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.1):
            with suppress(AssertionError):
                for pod in plane.call("GET", "/api/v1/pods")["items"]:
                    metadata = pod["metadata"]
                    if "deletionTimestamp" in metadata:
                        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                        plane.call("DELETE", path, {"gracePeriodSeconds": 0}, missing=True)

    kubelet = threading.Thread(target=work)
    kubelet.start()
    try:
        yield
    finally:
        ended.set()
        kubelet.join()


def audited_calls(path: Path, start: int) -> Counter[int]:
    """Return the number of the agents' calls in each second, from a place in the audit log."""
    counts: Counter[int] = Counter()
    for line in path.read_bytes()[start:].splitlines():
        with suppress(ValueError, KeyError):  # a line that is being written
            received = json.loads(line)["requestReceivedTimestamp"]
            counts[int(datetime.fromisoformat(received).timestamp())] += 1
    return counts
