"""A Kubernetes API server for tests: real HTTP, with objects in dictionaries.

It supports what the agent uses: nodes, pods, evictions under disruption budgets, and leases. Time
is virtual: sleeping advances the clock, and pods end when their grace period is over.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Raw = dict[str, Any]
Answer = tuple[int, Raw]

_START = 1_900_000_000.0


class Clock:
    """A replacement for the module `time` whose sleep takes no time."""

    def __init__(self) -> None:
        self._passed = 0.0
        self.each: list[Callable[[float], None]] = []  # called with the seconds since the start

    def time(self) -> float:
        return _START + self._passed

    def monotonic(self) -> float:
        return self._passed

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self._passed += seconds + 0.001
        for look in self.each:
            look(self._passed)

    def after(self, seconds: float) -> datetime:
        """Return the time this many seconds from now."""
        return datetime.fromtimestamp(self.time(), UTC) + timedelta(seconds=seconds)


class Double:
    """The cluster, and a record of all calls."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.nodes: dict[str, Raw] = {}
        self.pods: dict[str, Raw] = {}  # by namespace/name
        self.leases: dict[str, Raw] = {}
        self.budgets: dict[str, int] = {}  # evictions still allowed, by the label `app`
        self.calls: list[str] = []
        self.evicted: list[tuple[str, int | None]] = []
        self.away = False  # close every connection without a response
        self.failing: list[Answer | None] = []  # for the next calls; None: a normal response
        self.lost = -1  # the number of the call whose response is lost
        self.before: Callable[[str], None] = lambda _: None
        self._lock = threading.Lock()
        self._version = 0
        clock.each.append(self._end_pods)

    # --- Objects ---

    def node(self, name: str, provider: str = "", **spec: object) -> Raw:
        """Add a ready node."""
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "annotations": {}}
        raw = {"metadata": metadata, "spec": {"providerID": provider, **spec}, "status": status}
        self.nodes[name] = self._touched(raw)
        return raw

    def pod(
        self,
        name: str,
        node: str = "node-1",
        *,
        owner: str = "",
        app: str = "",
        phase: str = "Running",
        grace: int | None = None,
    ) -> Raw:
        """Add a pod; its `app` label selects its disruption budget."""
        metadata: Raw = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        metadata |= {"annotations": {}, "labels": {"app": app or name}}
        if owner:
            reference = {
                "kind": owner,
                "controller": True,
                "name": "it",
                "apiVersion": "v1",
                "uid": "0",
            }
            metadata["ownerReferences"] = [reference]
        spec: Raw = {"nodeName": node, "containers": []}
        if grace is not None:
            spec["terminationGracePeriodSeconds"] = grace
        raw = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
        self.pods[f"default/{name}"] = raw
        return raw

    def lease(self, node: str, renewed: str = "2030-01-01T00:00:00.000000Z") -> None:
        """Renew the lease of a kubelet."""
        self.leases[node] = {"metadata": {"name": node}, "spec": {"renewTime": renewed}}

    def _touched(self, raw: Raw) -> Raw:
        self._version += 1
        raw["metadata"]["resourceVersion"] = str(self._version)
        return raw

    def _end_pods(self, now: float) -> None:
        for key, pod in list(self.pods.items()):
            if pod.get("ends", now + 1) <= now:
                del self.pods[key]

    # --- Calls ---

    def respond(self, method: str, url: str, body: Raw) -> Answer | None:
        """Return the response to a call; None closes the connection."""
        parts = urlsplit(url)
        with self._lock:
            self.before(f"{method} {parts.path}")
            if self.away:
                return None
            self.calls.append(f"{method} {parts.path}")
            failure = self.failing.pop(0) if self.failing else None
            if failure is not None:
                return failure
            response = self._do(method, parts.path, parse_qs(parts.query), body)
            return None if len(self.calls) - 1 == self.lost else response

    def _do(self, method: str, path: str, query: dict[str, list[str]], body: Raw) -> Answer:
        if match := re.fullmatch(r"/api/v1/namespaces/(.+)/pods/(.+)/eviction", path):
            assert method == "POST"
            return self._evict(f"{match[1]}/{match[2]}", body)
        if match := re.fullmatch(r"/api/v1/nodes/(.+)", path):
            return self._node(method, match[1], body)
        if match := re.fullmatch(r"/apis/coordination.k8s.io/v1/.+/kube-node-lease/.+/(.+)", path):
            return _get(self.leases, match[1])
        assert method == "GET", path
        if path == "/api/v1/nodes":
            return 200, {"items": list(self.nodes.values()), "metadata": {}}
        assert path == "/api/v1/pods", path
        node = query["fieldSelector"][0].removeprefix("spec.nodeName=")
        fits = [pod for pod in self.pods.values() if pod["spec"]["nodeName"] == node]
        return 200, {"items": fits, "metadata": {}}

    def _node(self, method: str, name: str, patch: Raw) -> Answer:
        if method == "PATCH" and name in self.nodes:
            node = self.nodes[name]
            version = patch["metadata"].pop("resourceVersion", None)
            if version not in {None, node["metadata"]["resourceVersion"]}:
                return failure(409, "the object has been modified")
            _merge(node, patch)
            self._touched(node)
        return _get(self.nodes, name)

    def _evict(self, key: str, body: Raw) -> Answer:
        pod = self.pods.get(key)
        if pod is None:
            return failure(404, f"pods {key} not found")
        options = body.get("deleteOptions", {})
        if options.get("preconditions", {}).get("uid") != pod["metadata"]["uid"]:
            return failure(409, "the UID in the precondition does not match")
        app = pod["metadata"]["labels"]["app"]
        if app in self.budgets:
            if not self.budgets[app]:
                return failure(429, "it would violate the pod's disruption budget")
            self.budgets[app] -= 1
        grace = options.get("gracePeriodSeconds")
        self.evicted.append((key.partition("/")[2], grace))
        usual = pod["spec"].get("terminationGracePeriodSeconds", 30)
        pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        pod["ends"] = self.clock.monotonic() + pod.get("takes", usual if grace is None else grace)
        return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def failure(code: int, message: str) -> Answer:
    """Return an error in the format of Kubernetes."""
    return code, {"kind": "Status", "status": "Failure", "message": message, "code": code}


def _get(objects: dict[str, Raw], name: str) -> Answer:
    return (200, objects[name]) if name in objects else failure(404, f"{name} not found")


def _merge(target: Raw, patch: Raw) -> None:
    """Apply a merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


@contextmanager
def serving(double: Double, folder: Path) -> Iterator[Path]:
    """Yield a kubeconfig for the double."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or b"{}")
            if self.command == "PATCH":
                assert self.headers["Content-Type"] == "application/merge-patch+json"
            response = double.respond(self.command, self.path, body)
            if response is None:
                self.close_connection = True
                return
            text = json.dumps(response[1]).encode()
            self.send_response(response[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815  (http.server's names)

        def log_message(self, *_: object) -> None:
            """Do nothing: the calls are recorded."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield kubeconfig(folder, f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def kubeconfig(folder: Path, url: str) -> Path:
    """Write a kubeconfig as JSON, which is valid YAML."""
    config = {
        "current-context": "double",
        "contexts": [{"name": "double", "context": {"cluster": "double", "user": "agent"}}],
        "clusters": [{"name": "double", "cluster": {"server": url}}],
        "users": [{"name": "agent", "user": {"token": "secret"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path
