"""What the campaigns of a release have done so far, in a file: they take hours, and can go on."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fixtures.programs import ROOT

FILE = ROOT / ".local" / "release.json"


@dataclass
class Done:
    """What was done of one campaign."""

    runs: list[int] = field(default_factory=list)
    count: int = 0
    seconds: float = 0.0


@dataclass
class ReleaseProgress:
    """What was done of each campaign, for one version of the source."""

    source: str
    done: dict[str, Done] = field(default_factory=dict)

    def of(self, campaign: str) -> Done:
        """Return what was done of a campaign."""
        return self.done.setdefault(campaign, Done())

    def add(self, campaign: str, run: int, count: int, seconds: float) -> None:
        """Add a run and save."""
        done = self.of(campaign)
        done.runs.append(run)
        done.count += count
        done.seconds += seconds
        FILE.parent.mkdir(exist_ok=True)
        part = FILE.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1), "utf-8")
        part.replace(FILE)


def saved() -> ReleaseProgress:
    """Return what was done with the source as it is now; nothing if it has changed."""
    source = _digest()
    try:
        stored = json.loads(FILE.read_text("utf-8"))
    except FileNotFoundError:
        return ReleaseProgress(source)
    if stored["source"] != source:
        return ReleaseProgress(source)
    return ReleaseProgress(source, {name: Done(**done) for name, done in stored["done"].items()})


def _digest() -> str:
    digest = hashlib.sha256()
    folder = ROOT / "src"
    for path in sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".sql"}):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def path_of_output(campaign: str, run: int) -> Path:
    """Return where the output of a failed run is kept."""
    FILE.parent.mkdir(exist_ok=True)
    return FILE.with_name(f"release-{campaign}-{run}.log")
