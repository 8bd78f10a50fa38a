"""deploy/kubernetes-agent: a base and overlays that are valid and agree with the agent."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairwarning.guest.agent import kubernetes
from fairwarning.guest.agent.config import ApprovalPolicy, GroupSettings, parse
from fairwarning.guest.agent.kubernetes.access import needed_rights
from fairwarning.guest.agent.kubernetes.api import RIGHTS
from fairwarning.guest.agent.kubernetes.nodes import NODE_NAME
from fairwarning.guest.agent.kubernetes.pods import KEEP_PODS
from tests.fixtures.programs import ROOT
from tests.release.deploy.files import DEPLOY, documents, lint

AGENT = DEPLOY / "kubernetes-agent"
BASE = AGENT / "base"
OVERLAYS = sorted(path for path in (AGENT / "overlays").iterdir() if path.is_dir())
FOLDERS = [BASE, *OVERLAYS]
MANIFESTS = [
    path
    for folder in FOLDERS
    for path in sorted(folder.glob("*.yaml"))
    if path.name not in {"kustomization.yaml", "podmonitor.yaml"}  # no schemas of Kubernetes
]
PATCHES = {"secret.yaml", "annotations.yaml", "nodes.yaml"}
CONFIGURATIONS = sorted(AGENT.rglob("agent.toml"))


def of_kind(kind: str, path: Path = BASE) -> list[dict[str, Any]]:
    """Return the manifests of the base of this kind."""
    return [
        item for file in path.glob("*.yaml") for item in documents(file) if item["kind"] == kind
    ]


def kustomization(folder: Path) -> dict[str, Any]:
    """Return the kustomization of a folder."""
    (content,) = documents(folder / "kustomization.yaml")
    assert isinstance(content, dict)
    return content


def relative(path: Path) -> str:
    """Return a name for a test."""
    return path.relative_to(AGENT).as_posix()


def test_manifests_are_valid() -> None:
    """They follow the schemas of Kubernetes, without unknown keys."""
    complete = [path for path in MANIFESTS if path.name not in PATCHES]
    lint("kubernetes-validate", "--strict", "--quiet", *complete)


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_each_file_is_used(folder: Path) -> None:
    """By the kustomization beside it, and all that it names exists."""
    content = kustomization(folder)
    maps = [name for item in content.get("configMapGenerator", []) for name in item["files"]]
    patches = [patch["path"] for patch in content.get("patches", [])]
    used = [*content["resources"], *maps, *patches]
    assert all((folder / name).exists() for name in used)
    files = {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
    assert files == {name for name in used if not name.startswith("..")}


@pytest.mark.parametrize("folder", OVERLAYS, ids=relative)
def test_overlays_change_the_base(folder: Path) -> None:
    """Their patches are for the DaemonSet, and their ConfigMaps replace that of the base."""
    content = kustomization(folder)
    assert "../../base" in content["resources"]
    (base_map,) = kustomization(BASE)["configMapGenerator"]
    for item in content.get("configMapGenerator", []):
        assert (item["name"], item["namespace"]) == (base_map["name"], base_map["namespace"])
        assert item["behavior"] == "replace"
    (daemons,) = of_kind("DaemonSet")
    for patch in content.get("patches", []):
        (change,) = documents(folder / patch["path"])
        assert change["kind"] == "DaemonSet"
        assert change["metadata"].items() <= daemons["metadata"].items()


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=relative)
def test_configurations_agree_with_the_page(path: Path) -> None:
    """Hooks exist; approval, group and port are those of docs/agent.md and of the probe."""
    config = parse(path.read_text("utf-8"))
    ours = [hook.call.partition(":") for hook in config.hooks if hook.call]
    assert {module for module, _, _ in ours} == {kubernetes.__name__}
    assert all(callable(getattr(kubernetes, name)) for _, _, name in ours)
    assert config.group == GroupSettings(kubernetes=True)
    assert config.approve == {"": ApprovalPolicy.WHEN_DONE}
    _, _, port = config.listen.rpartition(":")
    assert int(port) == container()["livenessProbe"]["httpGet"]["port"]
    assert f'listen = "127.0.0.1:{port}"' in (ROOT / "docs" / "agent.md").read_text("utf-8")
    mounts = {mount["mountPath"]: mount["name"] for mount in container()["volumeMounts"]}
    kept = {volume["name"] for volume in pod()["volumes"] if "hostPath" in volume}
    assert mounts[config.state.as_posix()] in kept


@pytest.mark.parametrize(
    ("overlay", "change"),
    [
        ("hooks", lambda config: config["hook"].pop()),
        ("notifications", lambda config: config.pop("notify")),
        ("scraping", lambda config: config.update(listen="127.0.0.1:8173")),
    ],
)
def test_an_overlay_has_the_configuration_of_the_base_and_its_own(
    overlay: str, change: Callable[[dict[str, Any]], object]
) -> None:
    """Kustomize cannot merge TOML, so the file is there twice."""
    base = tomllib.loads((BASE / "agent.toml").read_text("utf-8"))
    config = tomllib.loads((AGENT / "overlays" / overlay / "agent.toml").read_text("utf-8"))
    assert config != base
    change(config)
    assert config == base


def pod() -> dict[str, Any]:
    """Return the pod template of the agents."""
    (daemons,) = of_kind("DaemonSet")
    spec = daemons["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def container() -> dict[str, Any]:
    """Return the container of the agent."""
    (agent,) = pod()["containers"]
    assert isinstance(agent, dict)
    return agent


def test_the_container() -> None:
    """It knows its node, and its image is a parameter."""
    assert {NODE_NAME, KEEP_PODS} <= {variable["name"] for variable in container()["env"]}
    (image,) = kustomization(BASE)["images"]
    assert image["name"] == container()["image"]
    (scraped,) = documents(AGENT / "overlays" / "scraping" / "annotations.yaml")
    template = scraped["spec"]["template"]
    (port,) = template["spec"]["containers"][0]["ports"]
    assert port["containerPort"] == container()["livenessProbe"]["httpGet"]["port"]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(port["containerPort"])
    (monitor,) = documents(AGENT / "overlays" / "scraping" / "podmonitor.yaml")
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == port["name"]


@pytest.mark.spec("G9")
def test_the_roles_grant_exactly_the_rights_that_the_agent_asks_for() -> None:
    """`agent check` asks the API for the same rights."""
    assert (ROOT / RIGHTS).is_file()
    granted = {
        (role["metadata"].get("namespace", ""), group, resource, verb)
        for role in [*of_kind("ClusterRole"), *of_kind("Role")]
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    needed = {
        (right.namespace, right.group, right.resource, right.verb) for right in needed_rights()
    }
    assert granted == needed


@pytest.mark.spec("G9")
def test_the_policy_binds_each_agent_to_its_node() -> None:
    """It covers every write whose object names a node, and denies."""
    (policy,) = of_kind("ValidatingAdmissionPolicy")
    (binding,) = of_kind("ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    bound = {resource for rule in rules for resource in rule["resources"]}
    written = {right.resource for right in needed_rights() if right.verb in {"patch", "create"}}
    assert bound == written - {"pods/eviction"}
    account = of_kind("ServiceAccount")[0]["metadata"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert policy["spec"]["failurePolicy"] == "Fail"
