"""Random resources of random types that are only stored, for hypothesis."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from fairwarning.arm.registry import TYPES
from fairwarning.arm.types import documents
from tests.arm.bodies import VM
from tests.fixtures.arm import SUBSCRIPTION

Json = dict[str, Any]

RG = "/resourceGroups/rg"
HOMES = (RG, RG, RG, "", VM)
"""Where a resource belongs: to the group, to the subscription, or to a machine."""


@dataclass(frozen=True)
class StoredResource:
    """A resource to write."""

    home: str
    kind: str
    names: tuple[str, ...]
    body: Json

    @property
    def path(self) -> str:
        """Its path below the subscription."""
        namespace, *types = self.kind.split("/")
        pairs = (f"{kind}/{name}" for kind, name in zip(types, self.names, strict=True))
        return f"{self.home}/providers/{'/'.join([namespace, *pairs])}"

    @property
    def parent(self) -> "StoredResource | None":
        """The outermost resource, in which a nested one is."""
        if len(self.names) == 1:
            return None
        kind = "/".join(self.kind.split("/")[:2])
        return StoredResource(self.home, kind, self.names[:1], {})

    def document(self, etag: str) -> Json:
        """What the service returns."""
        body = {k: v for k, v in self.body.items() if k not in {"id", "name", "type", "etag"}}
        properties = {**body.get("properties", {}), "provisioningState": "Succeeded"}
        return {
            **body,
            "id": f"{SUBSCRIPTION}{self.path}",
            "name": self.names[-1],
            "type": self.kind,
            "etag": etag,
            "properties": properties,
        }


_WORDS = st.from_regex(r"[a-z][A-Za-z0-9]{0,9}", fullmatch=True)
_NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="<>#%&\\?/. "), min_size=1, max_size=12
).filter(str.isprintable)
_MEMBERS = st.text(st.characters(codec="utf-8"), max_size=10).filter(
    lambda name: not documents.is_secret(name)
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_MEMBERS, inner, max_size=3),
    max_leaves=8,
)
_BODIES = st.fixed_dictionaries(
    {},
    optional={
        "location": _WORDS,
        "tags": st.dictionaries(_NAMES, st.text(max_size=5), max_size=3),
        "sku": st.fixed_dictionaries({"name": _WORDS}),
        "kind": _WORDS,
        "zones": st.just(["1", "2"]) | st.just(""),
        "properties": st.dictionaries(_MEMBERS, _VALUES, max_size=4),
        "evictionPolicy": st.just(""),
        # what clients read and send back
        "id": _WORDS,
        "name": _WORDS,
        "type": _WORDS,
        "etag": _WORDS,
    },
)


def _is_stored(kind: str) -> bool:
    return TYPES.get(kind) is None and TYPES.nested(kind) is None


_KINDS = st.builds(
    lambda namespace, types: "/".join([f"Microsoft.{namespace.capitalize()}", *types]),
    _WORDS | st.sampled_from(("compute", "network", "storage")),
    st.lists(_WORDS, min_size=1, max_size=4),
).filter(_is_stored)


@st.composite
def stored_resources(draw: st.DrawFn) -> StoredResource:
    """Return a resource of a type that is only stored."""
    kind = draw(_KINDS)
    names = draw(st.lists(_NAMES, min_size=kind.count("/"), max_size=kind.count("/")))
    return StoredResource(draw(st.sampled_from(HOMES)), kind, tuple(names), draw(_BODIES))
