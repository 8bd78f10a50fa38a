"""The SBOMs: valid, and complete for what each artifact contains or requires."""

import hashlib
import json
from email import message_from_bytes
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fairwarning
from deploy.dependencies.packages import packages, pins
from deploy.dist.artifacts import artifacts
from deploy.dist.sbom import build_sbom
from tests.release.packaging.building import EPOCH

PARTS = artifacts()
VALIDATOR = JsonStrictValidator(SchemaVersion.V1_6)


def document(dist: Path, kind: str) -> Any:  # noqa: ANN401  (parsed JSON)
    """Return the SBOM of an artifact."""
    return json.loads((dist / f"{PARTS[kind].file}.cdx.json").read_text())


def scopes(bill: Any) -> dict[str, str]:  # noqa: ANN401  (parsed JSON)
    """Return the scope of each component, by name."""
    return {component["name"]: component["scope"] for component in bill["components"]}


def built(kind: str) -> Any:  # noqa: ANN401  (parsed JSON)
    """Return an SBOM of an artifact with other content."""
    return json.loads(build_sbom(PARTS[kind], b"content", EPOCH))


@pytest.mark.parametrize("kind", PARTS)
def test_it_follows_the_schema(kind: str) -> None:
    """CycloneDX 1.6, with no member that the schema does not know."""
    text = build_sbom(PARTS[kind], b"content", EPOCH).decode()
    assert VALIDATOR.validate_str(text) is None
    wrong = json.loads(text) | {"bomFormat": "other"}
    assert VALIDATOR.validate_str(json.dumps(wrong)) is not None


@pytest.mark.parametrize("kind", [kind for kind in PARTS if kind != "site"])
def test_it_names_its_artifact(dist: Path, kind: str) -> None:
    """By name, version, checksum and license; its time is that of the sources."""
    metadata = document(dist, kind)["metadata"]
    subject = metadata["component"]
    digest = hashlib.sha256((dist / PARTS[kind].file).read_bytes()).hexdigest()
    assert subject["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert (subject["name"], subject["version"]) == (PARTS[kind].name, fairwarning.__version__)
    assert subject["licenses"][0]["expression"] == "Apache-2.0"
    assert metadata["timestamp"] == "2023-11-14T22:13:20Z"


def test_every_dependency_of_the_wheel_appears(dist: Path) -> None:
    """Those of its metadata with every extra, and those that they require."""
    with ZipFile(dist / PARTS["wheel"].file) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(archive.read(path))
    direct = {
        canonicalize_name(Requirement(text).name) for text in metadata.get_all("Requires-Dist", [])
    }
    bill = document(dist, "wheel")
    assert len(direct) > 10
    assert direct <= scopes(bill).keys()
    assert {"anyio", "cffi", "h11", "psycopg-binary"} <= scopes(bill).keys()
    assert set(scopes(bill).values()) == {"optional"}


@pytest.mark.parametrize("kind", PARTS)
def test_components_are_those_of_the_constraints(kind: str) -> None:
    """Each with its pinned version, its license, a package URL and checksums."""
    for component in built(kind)["components"]:
        if component["type"] == "library":
            name = canonicalize_name(component["name"])
            url = PackageURL.from_string(component["purl"])
            assert (url.type, url.name, url.version) == ("pypi", name, pins()[name])
            assert component["version"] == pins()[name]
            assert component["licenses"][0]["expression"] == packages()[name].license
            assert component["externalReferences"], name


@pytest.mark.parametrize("kind", PARTS)
def test_the_dependency_graph_is_closed(kind: str) -> None:
    """Every component is reached from the artifact, and nothing else is named."""
    bill = built(kind)
    graph = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    references = {component["bom-ref"] for component in bill["components"]}
    waiting, reached = [bill["metadata"]["component"]["bom-ref"]], set[str]()
    assert graph.keys() == {*waiting, *references}
    while waiting:
        reference = waiting.pop()
        if reference not in reached:
            reached.add(reference)
            waiting += graph[reference]
    assert reached == graph.keys()


@pytest.mark.parametrize(
    ("kind", "required"),
    [
        ("wheel", set()),
        ("sdist", set()),
        ("pyz", {"tomli"}),
        ("deb", {"tomli"}),
        ("site", {"zensical"}),
    ],
)
def test_what_is_copied_into_an_artifact_is_required(kind: str, required: set[str]) -> None:
    """Nothing else is: extras are optional, and tools are excluded."""
    parts = scopes(built(kind))
    assert {name for name, scope in parts.items() if scope == "required"} == required


def test_the_container_requires_the_service_and_its_base_image() -> None:
    """The tools that build it are excluded."""
    parts = scopes(built("container"))
    assert {"uvicorn", "psycopg-binary", "python"} <= {
        n for n, s in parts.items() if s == "required"
    }
    assert {name for name, scope in parts.items() if scope == "excluded"} >= {"hatchling", "pip"}
    assert "optional" not in parts.values()
