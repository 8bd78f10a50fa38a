"""Licenses as SPDX expressions, and which of them go together with Apache-2.0.

Most packages name theirs in SPDX. For the others, the text or the classifier of their metadata is
translated; where that says too little, the license files in the package were read.
"""

from collections.abc import Collection
from email.message import Message

from packaging.licenses import canonicalize_license_expression
from packaging.utils import canonicalize_name

PERMISSIVE = frozenset(
    {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MIT-0", "PSF-2.0", "any-OSI"}
)
"""May be copied into what we distribute."""
WEAK_COPYLEFT = frozenset({"LGPL-2.0-or-later", "LGPL-3.0-only", "MPL-2.0"})
"""May be required as packages of their own, which a user can replace, and never be copied."""
TOOLS = frozenset({"GPL-2.0-only", "GPL-3.0-only", "GPL-3.0-or-later"})
"""May be run during development, and never be required by a user."""

_READ = {  # from the license files in these packages
    "axe-playwright-python": "MIT AND MPL-2.0",  # it contains axe-core
    "docutils": "BSD-2-Clause AND GPL-3.0-or-later",  # one file for Emacs; most is public domain
    "isodate": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "uvloop": "Apache-2.0 OR MIT",
}
_TEXTS = {
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "GPL-3.0": "GPL-3.0-only",
    "LGPL-v2.0-or-later": "LGPL-2.0-or-later",
    "MIT Licence": "MIT",
    "MIT License": "MIT",
    "PSFL": "PSF-2.0",
}
_CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
_LONGEST = 40  # characters of a name; longer texts are the license itself


def spdx(metadata: Message) -> str:
    """Return the license of a package by its core metadata."""
    name = canonicalize_name(metadata["Name"])
    text = (metadata["License"] or "").strip()
    expression = metadata["License-Expression"] or _READ.get(name)
    if not expression and 0 < len(text) <= _LONGEST:
        expression = _TEXTS.get(text, text)
    if not expression:
        classifiers = metadata.get_all("Classifier", [])
        known = {_CLASSIFIERS[line] for line in classifiers if line in _CLASSIFIERS}
        if len(known) != 1:
            raise ValueError(f"the license of {name} is not clear: read its files, add it to _READ")
        expression = known.pop()
    return str(canonicalize_license_expression(expression))


def allowed(expression: str, licenses: Collection[str]) -> bool:
    """Whether an expression can be met with these licenses: one of each `OR`, all of each `AND`."""
    if "(" in expression:
        raise ValueError(f"cannot decide on {expression}: parentheses are not supported")
    choices = [choice.split(" AND ") for choice in expression.split(" OR ")]
    return any(all(name in licenses for name in choice) for choice in choices)
