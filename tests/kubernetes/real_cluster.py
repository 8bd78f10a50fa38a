"""The cluster of a test on a real API server."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.guest.kubernetes_double import Raw
from tests.kubernetes.clusters import IMAGES, pod_names
from tests.kubernetes.control_plane import (
    AGENT,
    ControlPlane,
    audited_calls,
    deleted_pods,
    shared_control_plane,
)

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/{}/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ACCOUNT = f"/api/v1/namespaces/kube-system/serviceaccounts/{AGENT}"


class RealCluster:
    """Nodes, pods and budgets on a real API server."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._binding = plane.call("GET", f"{BINDINGS}/{AGENT}")
        for path in (NODES, PODS.format("default"), PODS.format("kube-system"), BUDGETS, LEASES):
            plane.call("DELETE", path, {"gracePeriodSeconds": 0})
        self._audited = plane.audit.stat().st_size if plane.audit.exists() else 0

    def node(self, name: str, machine: str) -> None:
        """Create a ready node with a lease."""
        spec = {"providerID": f"x://cloud/{machine}"}
        self.plane.call("POST", NODES, {"metadata": {"name": name}, "spec": spec})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        self.plane.call("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": [ready]}})
        lease = {"metadata": {"name": name}, "spec": {"holderIdentity": name, **_renewed()}}
        self.plane.call("POST", LEASES, lease)

    def fill(self, count: int) -> None:
        for number in range(count):
            name = f"other-{number}"
            spec = {"providerID": f"x://cloud/{name}"}
            self.plane.call("POST", NODES, {"metadata": {"name": name}, "spec": spec})
            self.plane.call("PATCH", f"{NODES}/{name}/status", {"status": {"images": IMAGES}})

    def renew_leases(self) -> None:
        for item in self.plane.call("GET", LEASES)["items"]:
            path = f"{LEASES}/{item['metadata']['name']}"
            self.plane.call("PATCH", path, {"spec": _renewed()})

    def pod(
        self, name: str, node: str, *, owner: str = "", grace: int = 1, namespace: str = "default"
    ) -> None:
        metadata: Raw = {"name": name, "labels": {"app": name}}
        if owner:
            reference = {"apiVersion": "apps/v1", "kind": owner, "name": "it", "uid": "0"}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        spec = {
            "nodeName": node,
            "serviceAccountName": AGENT if namespace == "kube-system" else "default",
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": "main", "image": "none"}],
        }
        path = PODS.format(namespace)
        self.plane.call("POST", path, {"metadata": metadata, "spec": spec})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.plane.call("PATCH", f"{path}/{name}/status", {"status": status})

    def pods(self, node: str, *, staying: bool = False) -> list[str]:
        """Return the names of the pods of a node; with `staying`, without those that terminate."""
        pods = self.plane.call("GET", PODS.format("default"))["items"]
        return pod_names(pods, node, staying=staying)

    def set_budget(self, app: str, allowed: int) -> None:
        """Set the status that the disruption controller would set."""
        if self.plane.call("GET", f"{BUDGETS}/{app}", missing=True) is None:
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
            self.plane.call("POST", BUDGETS, {"metadata": {"name": app}, "spec": spec})
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": 1 + allowed,
            "desiredHealthy": 1,
            "expectedPods": 1 + allowed,
        }
        self.plane.call("PATCH", f"{BUDGETS}/{app}/status", {"status": status})

    def raw_node(self, name: str) -> Raw:
        node: Raw = self.plane.call("GET", f"{NODES}/{name}")
        return node

    def change_node(self, name: str, change: Raw) -> None:
        """Change a node, as a person does with kubectl."""
        self.plane.call("PATCH", f"{NODES}/{name}", change)

    def delete_node(self, name: str) -> None:
        """Delete a node, as a cloud's controller does."""
        self.plane.call("DELETE", f"{NODES}/{name}")

    def config(self, node: str) -> Path:
        """Return a kubeconfig with a token that is bound to the agent's pod on this node."""
        name = f"agent-{node}"
        self.pod(name, node, owner="DaemonSet", namespace="kube-system")
        path = f"{PODS.format('kube-system')}/{name}"
        uid = self.plane.call("GET", path)["metadata"]["uid"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        spec = {"audiences": [], "expirationSeconds": 7200, "boundObjectRef": bound}
        answer = self.plane.call("POST", f"{ACCOUNT}/token", {"spec": spec})
        return self.plane.kubeconfig(name, {"token": answer["status"]["token"]})

    def stop(self) -> None:
        self.plane.stop()

    def start(self) -> None:
        self.plane.start()

    def revoke(self) -> None:
        """Delete the binding of the role."""
        self.plane.call("DELETE", f"{BINDINGS}/{AGENT}", missing=True)

    def grant(self) -> None:
        """Create the binding of the role again."""
        if self.plane.call("GET", f"{BINDINGS}/{AGENT}", missing=True) is None:
            metadata = {"name": AGENT}
            kept = {key: self._binding[key] for key in ("roleRef", "subjects")}
            self.plane.call("POST", BINDINGS, {"metadata": metadata, **kept})

    def calls(self) -> Counter[int]:
        """Return the number of the agents' calls in each second."""
        return audited_calls(self.plane.audit, self._audited)


def _renewed() -> dict[str, str]:
    return {"renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}


@contextmanager
def real_cluster() -> Iterator[RealCluster]:
    """Return a cluster without nodes on the shared control plane, with the role granted."""
    plane = shared_control_plane()
    plane.ensure_started()
    cluster = RealCluster(plane)
    with deleted_pods(plane):
        try:
            yield cluster
        finally:
            plane.ensure_started()
            cluster.grant()
