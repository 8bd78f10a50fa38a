"""deploy/kubernetes: manifests that a cluster takes, and that fit each other."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import KUBERNETES, container, deployed, documents, lint, of_kind

KUSTOMIZATION = KUBERNETES / "kustomization.yaml"  # kustomize's own; tests below read it
MANIFESTS = sorted(path for path in KUBERNETES.glob("*.yaml") if path != KUSTOMIZATION)
LABELS = {"app.kubernetes.io/name": "fairwarning"}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_it_is_what_kubernetes_takes(path: Path) -> None:
    """By its own schemas, with no key that is in none of them."""
    lint("kubernetes-validate", "--strict", "--quiet", path)


def test_all_of_them_are_applied() -> None:
    """Every manifest but the one that has to be filled in first."""
    (kustomization,) = documents(KUSTOMIZATION)
    there = {path.name for path in MANIFESTS} - {"secret.example.yaml"}
    assert set(kustomization["resources"]) == there
    (made,) = kustomization["configMapGenerator"]
    assert all((KUBERNETES / name).is_file() for name in made["files"])
    assert kustomization["namespace"] == of_kind("Namespace")["metadata"]["name"]
    assert [one["name"] for one in kustomization["images"]] == [container()["image"]]


def pod() -> Any:  # noqa: ANN401  (what the manifest holds)
    """That of the Deployment."""
    return of_kind("Deployment")["spec"]["template"]["spec"]


def test_everything_is_about_the_same_pods() -> None:
    """Deployment, Service, budget and network policy name them alike."""
    deployment = of_kind("Deployment")["spec"]
    assert deployment["template"]["metadata"]["labels"] == LABELS
    assert deployment["selector"]["matchLabels"] == LABELS
    assert of_kind("Service")["spec"]["selector"] == LABELS
    assert of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == LABELS
    assert of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == LABELS


def test_its_ports_are_those_it_listens_on() -> None:
    """What Service, probes and policy call by name leads to where the program is."""
    named = {one["name"]: one["containerPort"] for one in container()["ports"]}
    assert named == {name: deployed().port(f"--{name}") for name in ("console", "arm")}
    for one in of_kind("Service")["spec"]["ports"]:
        assert one["port"] == named[one["targetPort"]]
    probes = [one for key, one in container().items() if key.endswith("Probe")]
    assert {(one["httpGet"]["path"], one["httpGet"]["port"]) for one in probes} == {
        ("/healthz", "console")
    }
    (let_in,) = of_kind("NetworkPolicy")["spec"]["ingress"]
    assert [one["port"] for one in let_in["ports"]] == list(named)


def test_it_can_be_probed_from_outside_the_pod() -> None:
    """Nothing that others call listens on loopback."""
    assert {deployed().option(f"--{name}")[:8] for name in ("console", "arm")} == {"0.0.0.0:"}


def test_it_may_as_little_as_it_needs() -> None:
    """No root, nothing to write to but its folder in memory, no token of the cluster's."""
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["automountServiceAccountToken"] is False
    own = container()["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    volumes = {one["name"]: one for one in pod()["volumes"]}
    writable = [one for one in container()["volumeMounts"] if not one.get("readOnly")]
    assert [one["mountPath"] for one in writable] == [deployed().option("--run")]
    assert [volumes[one["name"]]["emptyDir"]["medium"] for one in writable] == ["Memory"]


def test_its_fleet_file_is_where_it_looks() -> None:
    """And has the names under which the cluster calls it."""
    (made,) = documents(KUSTOMIZATION)[0]["configMapGenerator"]
    (mount,) = [one for one in container()["volumeMounts"] if one.get("readOnly")]
    assert [f"{mount['mountPath']}/{name}" for name in made["files"]] == [deployed().words[1]]
    assert {"name": mount["name"], "configMap": {"name": made["name"]}} in pod()["volumes"]
    text = (KUBERNETES / "fleet.toml").read_text()
    name = of_kind("Service")["metadata"]["name"]
    space = of_kind("Namespace")["metadata"]["name"]
    assert len(re.findall(rf'hosts = \["{name}\.{space}\.svc"', text)) == 2


def test_its_secret_has_what_it_asks_for() -> None:
    """The template names the keys that the pods read, in the namespace that they are in."""
    (template,) = documents(KUBERNETES / "secret.example.yaml")
    asked = [one["valueFrom"]["secretKeyRef"] for one in container()["env"]]
    assert {one["name"] for one in asked} == {template["metadata"]["name"]}
    assert {one["key"] for one in asked} == template["stringData"].keys()
    assert template["metadata"]["namespace"] == of_kind("Namespace")["metadata"]["name"]
    assert template["stringData"]["url"].startswith("postgresql://")


def test_a_pod_that_goes_is_given_the_time() -> None:
    """What the Service still sends it, and then what is under way."""
    pause = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod()["terminationGracePeriodSeconds"] >= pause + 30
    assert of_kind("Deployment")["spec"]["replicas"] > 1
    assert of_kind("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
