"""The rights that a configuration needs on the Kubernetes API, and whether the agent has them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.kubernetes.api import (
    CALL_SECONDS,
    RIGHTS,
    Client,
    connect,
    failure_text,
)
from fairwarning.guest.agent.kubernetes.nodes import NODE_NAME
from fairwarning.guest.agent.kubernetes.reports import NAMESPACE

LEASES = "kube-node-lease"  # the namespace of the kubelets' heartbeats


@dataclass(frozen=True)
class AccessRight:
    """A verb on a resource, in a namespace or in the cluster."""

    verb: str
    resource: str
    namespace: str = ""
    group: str = ""

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{place}"


def needed_rights(config: AgentConfig | None = None) -> list[AccessRight]:
    """Return the rights that a configuration needs; without one, all that the agent can use."""
    has_group = config is None or (config.group is not None and config.group.kubernetes)
    drains = config is None or any(hook.call.endswith(":drain") for hook in config.hooks)
    rights = [AccessRight("get", "nodes"), AccessRight("patch", "nodes")]
    if has_group or not os.environ.get(NODE_NAME):
        rights.append(AccessRight("list", "nodes"))
    if drains:
        rights += [AccessRight("list", "pods"), AccessRight("create", "pods/eviction")]
    if has_group:
        rights.append(AccessRight("get", "leases", LEASES, "coordination.k8s.io"))
    rights.append(AccessRight("patch", "nodes/status"))
    rights.append(AccessRight("create", "events", NAMESPACE))
    return rights


def permissions(config: AgentConfig | None = None) -> list[tuple[str, bool, str]]:
    """Ask the API for each right: what it is, whether the agent has it, and why not.

    Raise `Refused` if no cluster is configured.
    """
    client = connect(CALL_SECONDS)
    try:
        return [(str(right), *_ask(client, right)) for right in needed_rights(config)]
    finally:
        client.close()


def _ask(client: Client, right: AccessRight) -> tuple[bool, str]:
    from lightkube.resources.authorization_v1 import (  # noqa: PLC0415  (an optional dependency)
        SelfSubjectAccessReview,
    )

    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
    }
    review: Any = SelfSubjectAccessReview.from_dict({"spec": {"resourceAttributes": attributes}})
    try:
        status = client.create(review).status
    except Exception as error:  # noqa: BLE001  (from the HTTP library that lightkube uses)
        return False, failure_text(error)
    if status is not None and status.allowed:
        return True, ""
    reason = (status.reason or status.evaluationError) if status is not None else ""
    return False, "; ".join(filter(None, [reason, f"grant the rights in {RIGHTS}"]))
