"""deploy/kubernetes: manifests that are valid and consistent with each other."""

import re
from typing import Any

from tests.release.deploy.files import KUBERNETES, container, deployed, documents, lint, of_kind

KUSTOMIZATION = KUBERNETES / "kustomization.yaml"  # not a manifest; tests below read it
MANIFESTS = sorted(path for path in KUBERNETES.glob("*.yaml") if path != KUSTOMIZATION)
LABELS = {"app.kubernetes.io/name": "fairwarning"}


def test_the_manifests_are_valid() -> None:
    """They follow the schemas of Kubernetes, without unknown keys."""
    lint("kubernetes-validate", "--strict", "--quiet", *MANIFESTS)


def test_all_manifests_are_applied() -> None:
    """Every manifest but the secret, which must be filled in first."""
    (kustomization,) = documents(KUSTOMIZATION)
    applied = {path.name for path in MANIFESTS} - {"secret.example.yaml"}
    assert set(kustomization["resources"]) == applied
    (config_map,) = kustomization["configMapGenerator"]
    assert all((KUBERNETES / name).is_file() for name in config_map["files"])
    assert kustomization["namespace"] == of_kind("Namespace")["metadata"]["name"]
    assert [image["name"] for image in kustomization["images"]] == [container()["image"]]


def pod() -> Any:  # noqa: ANN401  (the content of the manifest)
    """Return the pod template of the Deployment."""
    return of_kind("Deployment")["spec"]["template"]["spec"]


def test_all_manifests_select_the_same_pods() -> None:
    """Deployment, Service, budget and network policy use the same labels."""
    deployment = of_kind("Deployment")["spec"]
    assert deployment["template"]["metadata"]["labels"] == LABELS
    assert deployment["selector"]["matchLabels"] == LABELS
    assert of_kind("Service")["spec"]["selector"] == LABELS
    assert of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == LABELS
    assert of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == LABELS


def test_ports_match_the_command() -> None:
    """The port names in Service, probes and policy lead to the ports of the command."""
    named = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert named == {name: deployed().port(f"--{name}") for name in ("console", "arm")}
    for port in of_kind("Service")["spec"]["ports"]:
        assert port["port"] == named[port["targetPort"]]
    probes = [probe for key, probe in container().items() if key.endswith("Probe")]
    assert {(probe["httpGet"]["path"], probe["httpGet"]["port"]) for probe in probes} == {
        ("/healthz", "console")
    }
    (ingress,) = of_kind("NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in ingress["ports"]] == list(named)


def test_it_has_minimal_privileges() -> None:
    """Not root, can only write to a folder in memory, and has no token of the cluster."""
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["automountServiceAccountToken"] is False
    own = container()["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    writable = [mount for mount in container()["volumeMounts"] if not mount.get("readOnly")]
    assert [mount["mountPath"] for mount in writable] == [deployed().option("--run")]
    assert [volumes[mount["name"]]["emptyDir"]["medium"] for mount in writable] == ["Memory"]


def test_the_fleet_file_is_mounted() -> None:
    """At the path in the command, and with the host names of the Service."""
    (config_map,) = documents(KUSTOMIZATION)[0]["configMapGenerator"]
    (mount,) = [mount for mount in container()["volumeMounts"] if mount.get("readOnly")]
    paths = [f"{mount['mountPath']}/{name}" for name in config_map["files"]]
    assert paths == [deployed().words[1]]
    assert {"name": mount["name"], "configMap": {"name": config_map["name"]}} in pod()["volumes"]
    text = (KUBERNETES / "fleet.toml").read_text()
    name = of_kind("Service")["metadata"]["name"]
    namespace = of_kind("Namespace")["metadata"]["name"]
    assert len(re.findall(rf'hosts = \["{name}\.{namespace}\.svc"', text)) == 2


def test_the_secret_has_the_keys_of_the_pods() -> None:
    """The template has the keys that the pods read, in their namespace."""
    (template,) = documents(KUBERNETES / "secret.example.yaml")
    references = [variable["valueFrom"]["secretKeyRef"] for variable in container()["env"]]
    assert {reference["name"] for reference in references} == {template["metadata"]["name"]}
    assert {reference["key"] for reference in references} == template["stringData"].keys()
    assert template["metadata"]["namespace"] == of_kind("Namespace")["metadata"]["name"]
    assert template["stringData"]["url"].startswith("postgresql://")


def test_a_stopping_pod_has_enough_time() -> None:
    """For requests that the Service still sends it, and then for those in progress."""
    pause = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod()["terminationGracePeriodSeconds"] >= pause + 30
    assert of_kind("Deployment")["spec"]["replicas"] > 1
    assert of_kind("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
