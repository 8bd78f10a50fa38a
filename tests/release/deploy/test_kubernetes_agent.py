"""deploy/kubernetes-agent: a base and overlays that are valid and agree with the agent."""

import json
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from fairwarning.guest.agent import kubernetes
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, GroupSettings, read
from fairwarning.guest.agent.kubernetes.access import needed_rights
from fairwarning.guest.agent.kubernetes.api import RIGHTS
from fairwarning.guest.agent.kubernetes.nodes import NODE_NAME
from fairwarning.guest.agent.kubernetes.pods import KEEP_PODS
from tests.fixtures.programs import ROOT, run_program
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
NAMES = [path.name for path in OVERLAYS]
COMBINATIONS = [names for size in range(len(NAMES) + 1) for names in combinations(NAMES, size)]
FIRST_ALL = [
    tuple(NAMES),
    *(pytest.param(names, marks=pytest.mark.campaign) for names in COMBINATIONS[:-1]),
]


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Return the manifests of the base of this kind."""
    return [
        item for file in BASE.glob("*.yaml") for item in documents(file) if item["kind"] == kind
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
    used = [*content.get("resources", []), *maps, *patches]
    assert {path.name for path in folder.iterdir()} - {"kustomization.yaml"} == set(used)


@pytest.mark.parametrize("folder", OVERLAYS, ids=relative)
def test_overlays_change_the_base(folder: Path) -> None:
    """Their patches are for the DaemonSet, and they add files to the ConfigMap of the base."""
    content = kustomization(folder)
    assert content["kind"] == "Component"
    (base_map,) = kustomization(BASE)["configMapGenerator"]
    for item in content.get("configMapGenerator", []):
        assert (item["name"], item["namespace"]) == (base_map["name"], base_map["namespace"])
        assert item["behavior"] == "merge"
    (daemons,) = of_kind("DaemonSet")
    for patch in content.get("patches", []):
        (change,) = documents(folder / patch["path"])
        assert change["kind"] == "DaemonSet"
        assert change["metadata"].items() <= daemons["metadata"].items()


def test_the_kustomization_combines_all_overlays() -> None:
    """It is the one to copy."""
    content = kustomization(AGENT)
    assert content["resources"] == ["base"]
    assert {Path(name).name for name in content["components"]} == set(NAMES)


def configuration(folder: Path, overlays: tuple[str, ...]) -> AgentConfig:
    """Return the configuration of the agent with these overlays, as Kustomize merges the files."""
    for source in (BASE, *(AGENT / "overlays" / name for name in sorted(overlays))):
        for item in kustomization(source).get("configMapGenerator", []):
            for name in item["files"]:
                shutil.copy(source / name, folder)
    return read(folder)


@pytest.mark.parametrize("overlays", COMBINATIONS, ids="+".join)
def test_overlays_combine(overlays: tuple[str, ...], tmp_path: Path) -> None:
    """Each adds its own to the configuration, which agrees with docs/agent.md and the probe."""
    config = configuration(tmp_path, overlays)
    ours = [hook.call.partition(":") for hook in config.hooks if hook.call]
    assert {module for module, _, _ in ours} == {kubernetes.__name__}
    assert all(callable(getattr(kubernetes, name)) for _, _, name in ours)
    assert any(hook.command for hook in config.hooks) == ("hooks" in overlays)
    assert bool(config.notify) == ("notifications" in overlays)
    assert config.group == GroupSettings(kubernetes=True)
    assert config.approve == {"": ApprovalPolicy.WHEN_DONE}
    host, _, port = config.listen.rpartition(":")
    assert host == ("0.0.0.0" if "scraping" in overlays else "127.0.0.1")
    assert int(port) == container()["livenessProbe"]["httpGet"]["port"]
    assert f'listen = "127.0.0.1:{port}"' in (ROOT / "docs" / "agent.md").read_text("utf-8")
    mounts = {mount["mountPath"]: mount["name"] for mount in container()["volumeMounts"]}
    kept = {volume["name"] for volume in pod()["volumes"] if "hostPath" in volume}
    assert mounts[config.state.as_posix()] in kept
    assert container()["command"][-2:] == ["--config", "/etc/fairwarning"]
    assert mounts["/etc/fairwarning"] == "config"


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl")
@pytest.mark.parametrize("overlays", FIRST_ALL, ids="+".join)
def test_kustomize_builds_each_combination(overlays: tuple[str, ...], tmp_path: Path) -> None:
    """The DaemonSet refers to the ConfigMap by the name with its hash."""
    folder = shutil.copytree(AGENT, tmp_path / "agent")
    content = {**kustomization(AGENT), "components": [f"overlays/{name}" for name in overlays]}
    (folder / "kustomization.yaml").write_text(json.dumps(content))
    built = run_program("kubectl", "kustomize", str(folder))
    assert built.returncode == 0, built.stderr
    text = built.stdout
    assert text.count("kind: DaemonSet") == 1
    (name,) = {
        word
        for word in text.split()
        if word.startswith("fairwarning-agent-") and "notify" not in word
    }
    assert text.count(name) == 2
    assert ("kind: PodMonitor" in text) == ("scraping" in overlays)
    assert ("hooks.toml: |" in text) == ("hooks" in overlays)


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
