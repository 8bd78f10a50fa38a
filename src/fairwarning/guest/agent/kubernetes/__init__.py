"""Kubernetes: hooks that drain and uncordon this machine's node, and upkeep of its marks (G4, G9).

All state is on the node, and every change is one call, so an agent that is killed between two calls
runs the hook again and reaches the same state. lightkube, which the extra `kubernetes` installs, is
imported inside functions only.
"""

from __future__ import annotations

from fairwarning.guest.agent.kubernetes.access import permissions
from fairwarning.guest.agent.kubernetes.hooks import drain, mark, uncordon
from fairwarning.guest.agent.kubernetes.members import KubernetesNodes
from fairwarning.guest.agent.kubernetes.reconcile import NodeReconciler

__all__ = ["KubernetesNodes", "NodeReconciler", "drain", "mark", "permissions", "uncordon"]
