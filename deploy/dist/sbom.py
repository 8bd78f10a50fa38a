"""The software bill of materials of an artifact: CycloneDX 1.6, as JSON.

Versions are those of constraints.txt. The same artifact gives the same bytes: the serial number is
made from the content, and the time is that of the build's sources.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from deploy.agent.contents import version
from deploy.dependencies.packages import Package, packages
from deploy.dependencies.requirements import dependency_graph
from deploy.dist.artifacts import Artifact

_LICENSE = "Apache-2.0"
_SERIAL_NUMBERS = uuid5(NAMESPACE_URL, "fairwarning")


def build_sbom(artifact: Artifact, content: bytes, epoch: int) -> bytes:
    """Return the document; `content` is that of the artifact, `epoch` the time of its sources."""
    subject = _subject(artifact, content)
    components, dependencies = _parts(artifact, subject["bom-ref"])
    time = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body: dict[str, Any] = {
        "version": 1,
        "metadata": {
            "timestamp": time,
            "lifecycles": [{"phase": "build"}],
            "component": subject,
        },
        "components": components,
        "dependencies": dependencies,
    }
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid5(_SERIAL_NUMBERS, json.dumps(body)).urn,
        **body,
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def _subject(artifact: Artifact, content: bytes) -> dict[str, Any]:
    purl = f"pkg:{artifact.purl_type}/{artifact.name}@{version()}"
    return {
        "type": artifact.type,
        "bom-ref": artifact.file,
        "name": artifact.name,
        "version": version(),
        "description": artifact.description,
        "hashes": [_sha256(hashlib.sha256(content).hexdigest())],
        "licenses": _licenses(_LICENSE),
        "purl": f"{purl}?file_name={artifact.file}",
    }


def _parts(artifact: Artifact, subject: str) -> tuple[list[Any], list[Any]]:
    """Return the components, and what each of them and the subject depends on."""
    pinned = packages()
    extras = [requirement for texts in artifact.optional.values() for requirement in texts]
    direct = [*artifact.contained, *artifact.required, *extras, *artifact.build]
    graph = dependency_graph(direct, pinned)
    scopes = _scopes(artifact, pinned)
    purls = {name: _purl(name, pinned[name]) for name in graph}
    components = [
        _component(name, pinned[name], scopes.get(name, "excluded")) for name in sorted(graph)
    ]
    depends = {
        subject: {purls[name] for name in _names(direct)},
        **{purls[name]: {purls[other] for other in graph[name]} for name in graph},
    }
    if artifact.base_image:
        components.append(base := _base_image(*artifact.base_image))
        depends[subject].add(base["bom-ref"])
        depends[base["bom-ref"]] = set()
    return components, [
        {"ref": reference, "dependsOn": sorted(others)} for reference, others in depends.items()
    ]


def _scopes(artifact: Artifact, pinned: Mapping[NormalizedName, Package]) -> dict[str, str]:
    """Return which components a user runs, always or with an extra; the others only build."""
    extras = [requirement for texts in artifact.optional.values() for requirement in texts]
    return {
        **dict.fromkeys(dependency_graph(extras, pinned), "optional"),
        **dict.fromkeys(dependency_graph(artifact.required, pinned), "required"),
        **dict.fromkeys(_names(artifact.contained), "required"),
    }


def _component(name: NormalizedName, package: Package, scope: str) -> dict[str, Any]:
    page = f"https://pypi.org/project/{name}/{package.version}/"
    return {
        "type": "library",
        "bom-ref": _purl(name, package),
        "name": name,
        "version": package.version,
        "scope": scope,
        "licenses": _licenses(package.license),
        "purl": _purl(name, package),
        "externalReferences": [
            {"type": "distribution", "url": page, "comment": file, "hashes": [_sha256(digest)]}
            for file, digest in package.files.items()
        ],
    }


def _base_image(name: str, tag: str) -> dict[str, Any]:
    purl = f"pkg:docker/{name}@{tag}"
    return {
        "type": "container",
        "bom-ref": purl,
        "name": name,
        "version": tag,
        "scope": "required",
        "purl": purl,
    }


def _names(requirements: Iterable[Requirement]) -> set[NormalizedName]:
    return {canonicalize_name(requirement.name) for requirement in requirements}


def _purl(name: NormalizedName, package: Package) -> str:
    return f"pkg:pypi/{name}@{package.version}"


def _licenses(expression: str) -> list[dict[str, str]]:
    return [{"expression": expression, "acknowledgement": "declared"}]


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}
