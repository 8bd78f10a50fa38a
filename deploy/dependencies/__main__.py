"""`python -m deploy.dependencies`: compare the pins with the package index (`--write`: keep it).

A pin has to be at least a week old, so that a version that was taken over by an attacker is noticed
before it gets here, and its files must not have changed.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from packaging.utils import NormalizedName

from deploy.dependencies.package_index import read_packages
from deploy.dependencies.packages import FILE, ROOT, Package, packages, pins, write

MINIMUM_AGE = timedelta(days=7)


def main(words: list[str]) -> int:
    """Print what is wrong; return 1 if anything is."""
    current = read_packages(pins())
    if "--write" in words:
        write(current)
    problems = [*changed(packages(), current), *young(current, datetime.now(UTC))]
    summary = f"{len(current)} packages compared with the package index, {len(problems)} problems"
    sys.stdout.write("".join(f"{line}\n" for line in [*problems, summary]))
    return 1 if problems else 0


def changed(
    known: Mapping[NormalizedName, Package], current: Mapping[NormalizedName, Package]
) -> Iterator[str]:
    """Yield a line for each package that packages.json describes otherwise, or not at all."""
    renew = f"{FILE.relative_to(ROOT)}: `.venv/bin/python -m deploy.dependencies --write`"
    for name in sorted({*known, *current}):
        if known.get(name) != current.get(name):
            yield f"{name} is not the same on the package index as in {renew}"


def young(entries: Mapping[NormalizedName, Package], now: datetime) -> Iterator[str]:
    """Yield a line for each package that is younger than a week."""
    for name, entry in sorted(entries.items()):
        age = now - datetime.fromisoformat(entry.uploaded)
        if age < MINIMUM_AGE:
            hours = age // timedelta(hours=1)
            yield f"{name} {entry.version} is {hours} hours old: pin one that is a week old"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
