"""The packages that constraints.txt pins, with what their metadata and the package index say.

`packages.json` keeps that, so that pages and SBOMs are written without a network, and with the same
bytes on every machine. `python -m deploy.dependencies --write` renews it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("packages.json")


@dataclass(frozen=True)
class Package:
    """A pinned package."""

    version: str
    license: str
    """An SPDX expression."""
    uploaded: str
    """When its first file was uploaded to the package index: a time in ISO 8601."""
    requires: tuple[str, ...]
    """Its requirements, as in its metadata."""
    files: Mapping[str, str]
    """The SHA-256 of its source archive and of its wheel for every platform, by file name.

    If it has neither, that of each wheel.
    """


def pins() -> dict[NormalizedName, str]:
    """Return the versions in constraints.txt, by normalized name."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = (line.partition("==") for line in lines)
    return {canonicalize_name(name): version for name, _, version in pairs}


def packages() -> dict[NormalizedName, Package]:
    """Return the packages in packages.json, by normalized name."""
    entries = json.loads(FILE.read_text("utf-8"))
    return {
        canonicalize_name(name): Package(**{**entry, "requires": tuple(entry["requires"])})
        for name, entry in entries.items()
    }


def write(entries: Mapping[NormalizedName, Package]) -> None:
    """Write packages.json."""
    content = {name: asdict(entry) for name, entry in sorted(entries.items())}
    FILE.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
