"""A Kubernetes API server for tests: real HTTP, with objects in dictionaries.

It supports what the agent uses: nodes and their status, pods, evictions under disruption budgets,
leases, Events and access reviews. Lists are paged. Time is virtual: sleeping advances the clock,
and pods end when their grace period is over.
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

EVENTS = "/api/v1/namespaces/default/events"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
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
        return datetime.fromtimestamp(self.time(), UTC) + timedelta(seconds=seconds)


class Double:
    """The cluster, and a record of all calls."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.nodes: dict[str, Raw] = {}
        self.pods: dict[str, Raw] = {}  # by namespace/name
        self.leases: dict[str, Raw] = {}
        self.budgets: dict[str, int] = {}  # evictions still allowed, by the label `app`
        self.calls: list[str] = []  # without those that create Events
        self.events: list[Raw] = []
        self.denied: set[str] = set()  # rights that are missing, such as "patch nodes"
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
        metadata = {"name": name, "uid": f"uid-{name}", "annotations": {}, "labels": {}}
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
        tolerations: tuple[Raw, ...] = (),
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
        spec: Raw = {"nodeName": node, "containers": [], "tolerations": list(tolerations)}
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
            if parts.path == EVENTS:
                return self._create_event(body)
            self.calls.append(f"{method} {parts.path}")
            failure = self.failing.pop(0) if self.failing else None
            if failure is not None:
                return failure
            if right(method, parts.path) in self.denied:
                return denial(method, parts.path)
            response = self._do(method, parts.path, parse_qs(parts.query), body)
            return None if len(self.calls) - 1 == self.lost else response

    def _do(self, method: str, path: str, query: dict[str, list[str]], body: Raw) -> Answer:
        if match := re.fullmatch(r"/api/v1/namespaces/(.+)/pods/(.+)/eviction", path):
            assert method == "POST"
            return self._evict(f"{match[1]}/{match[2]}", body)
        if path == REVIEWS:
            return self._review(body)
        if match := re.fullmatch(r"/api/v1/nodes/(.+)/status", path):
            return self._status(match[1], body)
        if match := re.fullmatch(r"/api/v1/nodes/(.+)", path):
            return self._node(method, match[1], body)
        if match := re.fullmatch(r"/apis/coordination.k8s.io/v1/.+/kube-node-lease/.+/(.+)", path):
            return _get(self.leases, match[1], "leases")
        assert method == "GET", path
        if path == "/api/v1/nodes":
            label = query.get("labelSelector", [""])[0]
            labelled = (
                n for n in self.nodes.values() if not label or label in n["metadata"]["labels"]
            )
            return _page(list(labelled), query)
        assert path == "/api/v1/pods", path
        node = query["fieldSelector"][0].removeprefix("spec.nodeName=")
        return _page([p for p in self.pods.values() if p["spec"]["nodeName"] == node], query)

    def _node(self, method: str, name: str, patch: Raw) -> Answer:
        if method == "PATCH" and name in self.nodes:
            node = self.nodes[name]
            version = patch["metadata"].pop("resourceVersion", None)
            if version not in {None, node["metadata"]["resourceVersion"]}:
                return failure(409, "the object has been modified")
            _merge(node, patch)
            self._touched(node)
        return _get(self.nodes, name, "nodes")

    def _status(self, name: str, patch: Raw) -> Answer:
        """Apply a strategic merge patch: conditions are merged by type."""
        if name in self.nodes:
            conditions = self.nodes[name]["status"]["conditions"]
            for new in patch["status"]["conditions"]:
                conditions[:] = [old for old in conditions if old["type"] != new["type"]] + [new]
            self._touched(self.nodes[name])
        return _get(self.nodes, name, "nodes")

    def _create_event(self, body: Raw) -> Answer:
        if "create events" in self.denied:
            return denial("POST", EVENTS)
        self.events.append(body)
        return 201, body

    def _review(self, body: Raw) -> Answer:
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, [asked["resource"], asked.get("subresource")]))
        allowed = f"{asked['verb']} {resource}" not in self.denied
        return 201, {**body, "status": {"allowed": allowed, "reason": "" if allowed else "no rule"}}

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.events]

    def _evict(self, key: str, body: Raw) -> Answer:
        pod = self.pods.get(key)
        if pod is None:
            return _get({}, key.partition("/")[2], "pods")
        options = body.get("deleteOptions", {})
        if options.get("preconditions", {}).get("uid") != pod["metadata"]["uid"]:
            return failure(409, "the UID in the precondition does not match")
        app = pod["metadata"]["labels"]["app"]
        if app in self.budgets:
            if not self.budgets[app]:
                return blocked(app)
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


def right(method: str, path: str) -> str:
    """Return the right that a call needs: a verb and a resource."""
    words = [word for word in path.split("/") if word]
    words = words[words.index("v1") + 1 :]
    words = words[2:] if words[0] == "namespaces" else words
    verb = {"GET": "get" if words[1:] else "list", "POST": "create", "PATCH": "patch"}[method]
    return f"{verb} {'/'.join([words[0], *words[2:]])}"


def denial(method: str, path: str) -> Answer:
    """Return the response to an agent without the right."""
    verb, resource = right(method, path).split()
    user = "system:serviceaccount:kube-system:fairwarning-agent"
    text = f'{resource} is forbidden: User "{user}" cannot {verb} resource "{resource}"'
    return failure(403, text)


def blocked(budget: str, code: int = 429) -> Answer:
    """Return the response to an eviction that a budget forbids."""
    _, body = failure(code, "Cannot evict pod as it would violate the pod's disruption budget.")
    text = f"The disruption budget {budget} needs 1 healthy pods and has 1 currently"
    return code, {**body, "details": {"causes": [{"reason": "DisruptionBudget", "message": text}]}}


def _page(items: list[Raw], query: dict[str, list[str]]) -> Answer:
    start, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
    more = {"continue": str(start + limit)} if len(items) > start + limit else {}
    return 200, {"items": items[start : start + limit], "metadata": more}


def _get(objects: dict[str, Raw], name: str, kind: str) -> Answer:
    if name in objects:
        return 200, objects[name]
    code, body = failure(404, f'{kind} "{name}" not found')
    return code, {**body, "details": {"name": name, "kind": kind}}


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
        wbufsize = -1  # one packet for head and body, or the client waits 40 ms for the second

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or b"{}")
            if self.command == "PATCH":
                kind = "strategic-merge" if self.path.endswith("/status") else "merge"
                assert self.headers["Content-Type"] == f"application/{kind}-patch+json"
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
    # Otherwise each client loads all certificate authorities, for plain HTTP too.
    cluster = {"server": url, "insecure-skip-tls-verify": url.startswith("http:")}
    config = {
        "current-context": "double",
        "contexts": [{"name": "double", "context": {"cluster": "double", "user": "agent"}}],
        "clusters": [{"name": "double", "cluster": cluster}],
        "users": [{"name": "agent", "user": {"token": "secret"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path
