"""What the package index says about packages: upload times and checksums. Needs the network."""

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email import message_from_string
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any
from urllib.request import urlopen

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from deploy.dependencies.licenses import spdx
from deploy.dependencies.packages import Package
from deploy.dependencies.requirements import applicable

_CONNECTIONS = 6
_TIMEOUT_SECONDS = 60


def read_packages(pins: dict[NormalizedName, str]) -> dict[NormalizedName, Package]:
    """Return the packages at these versions.

    The license and the requirements are those of the installed package. The index has them for the
    newest version only, so that a package which is not installed has to be that.
    """
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        read = dict(zip(pins, pool.map(_read, pins, pins.values()), strict=True))
    return {
        name: replace(package, requires=concerning(package, pins)) for name, package in read.items()
    }


def concerning(package: Package, pins: Collection[NormalizedName]) -> tuple[str, ...]:
    """Return the requirements of a package without those of extras that nothing here uses."""
    always = {str(requirement) for requirement in applicable(package)}
    return tuple(
        text
        for text in package.requires
        if text in always or canonicalize_name(Requirement(text).name) in pins
    )


def _read(name: NormalizedName, version: str) -> Package:
    url = f"https://pypi.org/pypi/{name}/json"
    with urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
        page = json.load(response)
    files = page["releases"].get(version)
    if not files:
        raise LookupError(f"the package index has no {name} {version}")
    metadata = installed_metadata(name, version) or _newest(page["info"], version)
    return Package(
        version=version,
        license=spdx(metadata),
        uploaded=min(file["upload_time_iso_8601"] for file in files),
        requires=requirements(metadata),
        files=_checksums(files),
    )


def requirements(metadata: Message) -> tuple[str, ...]:
    """Return the requirements in the metadata of a package, in one spelling."""
    return tuple(str(Requirement(text)) for text in metadata.get_all("Requires-Dist", []))


def _checksums(files: list[dict[str, Any]]) -> dict[str, str]:
    sums = {file["filename"]: str(file["digests"]["sha256"]) for file in files}
    everywhere = (".tar.gz", ".zip", "-none-any.whl")
    portable = {name: digest for name, digest in sums.items() if name.endswith(everywhere)}
    return dict(sorted((portable or sums).items()))


def installed_metadata(name: str, version: str) -> Message | None:
    """Return the metadata of an installed package; None if this version is not installed."""
    try:
        text = distribution(name).read_text("METADATA")
    except PackageNotFoundError:
        return None
    metadata = message_from_string(text or "")
    return metadata if metadata["Version"] == version else None


def _newest(info: dict[str, Any], version: str) -> Message:
    """Return the metadata of the newest version, which has to be this one."""
    if info["version"] != version:
        raise LookupError(f"install {info['name']} {version} first: the newest is another version")
    metadata = Message()
    fields = {
        "Name": [info["name"]],
        "License": [info["license"]],
        "License-Expression": [info["license_expression"]],
        "Classifier": info["classifiers"],
        "Requires-Dist": info["requires_dist"],
    }
    for field, values in fields.items():
        for value in values or ():
            if value:
                metadata[field] = value
    return metadata
