"""What Azure offers everywhere: regions, images, sizes and api-versions, as data.

They are not limits: a machine may have any image and size, and be in any region.
"""

from functools import cache
from importlib.resources import files

import msgspec


class Region(msgspec.Struct, frozen=True):
    """A region that examples use."""

    name: str
    display: str
    geography: str


class Image(msgspec.Struct, frozen=True):
    """An image with an alias."""

    alias: str
    publisher: str
    offer: str
    sku: str
    system: str


class MachineSize(msgspec.Struct, frozen=True):
    """The size of a machine."""

    name: str
    cores: int
    memory_mb: int
    data_disks: int
    scratch_mb: int  # size of the temporary disk
    family: str


class Catalogue(msgspec.Struct, frozen=True):
    """The regions, images and sizes."""

    regions: tuple[Region, ...]
    images: tuple[Image, ...]
    sizes: tuple[MachineSize, ...]


@cache
def catalogue() -> Catalogue:
    """Return the regions, images and sizes."""
    return msgspec.json.decode(_read("catalogue.json"), type=Catalogue)


@cache
def api_versions(family: str) -> tuple[str, ...]:
    """Return the api-versions of a family of types that public clients use, newest first.

    They are lists and not ranges of dates: Azure refuses a date on which it published no version,
    and a script with such a date should fail here, too. A version counts if a public client has it:
    Azure's SDKs for Python and Go, the Azure CLI, Ansible's collection, Libcloud, the Bicep types.
    """
    return tuple(_api_versions()[family])


@cache
def _api_versions() -> dict[str, list[str]]:
    return msgspec.json.decode(_read("api_versions.json"), type=dict[str, list[str]])


@cache
def computed_members(kind: str) -> str:
    """Return members that Azure adds to a type that is only stored, as JSON with {name} and {guid}.

    Templates read them. They name no host that exists.
    """
    known = msgspec.json.decode(_read("computed_members.json"), type=dict[str, msgspec.Raw])
    return bytes(known.get(kind.lower(), b"{}")).decode()


def _read(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()


def normalize_region(region: str) -> str:
    """Return the normalized name of a region: `West US 2` is `westus2`."""
    return region.replace(" ", "").lower()
