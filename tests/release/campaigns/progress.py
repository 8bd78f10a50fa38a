"""What the campaigns of a release have done: they take hours, and can go on elsewhere."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.fixtures.programs import ROOT
from tests.release.campaigns.plan import Campaign

FILE = Path(__file__).with_name("done.json")
OUTPUTS = ROOT / ".local"
_SOURCE = ROOT / "src" / "fairwarning"


@dataclass
class Done:
    """What was done of one campaign, for one version of the code that it tests."""

    source: str
    runs: list[int] = field(default_factory=list)
    count: int = 0
    seconds: float = 0.0


class ReleaseProgress:
    """What was done of each campaign."""

    def __init__(self) -> None:
        stored = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
        self.done = {name: Done(**done) for name, done in stored.items()}

    def of(self, campaign: Campaign) -> Done:
        """Return what was done of a campaign; nothing if the code that it tests has changed."""
        source = digest(campaign.packages)
        done = self.done.get(campaign.name)
        if done is None or done.source != source:
            self.done[campaign.name] = done = Done(source)
        return done

    def add(self, campaign: Campaign, run: int, count: int, seconds: float) -> None:
        """Add a run and save."""
        done = self.of(campaign)
        done.runs.append(run)
        done.count += count
        done.seconds += seconds
        stored = {name: asdict(done) for name, done in sorted(self.done.items())}
        part = FILE.with_suffix(".part")
        part.write_text(_on_lines(stored), "utf-8")
        part.replace(FILE)


def _on_lines(stored: dict[str, Any]) -> str:
    """Return JSON with a line for each campaign."""
    lines = (f" {json.dumps(name)}: {json.dumps(done)}" for name, done in stored.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def digest(packages: tuple[str, ...]) -> str:
    """Return a digest of the source that these patterns match, with all in their folders."""
    hashed = hashlib.sha256()
    matches = {match for package in packages for match in _SOURCE.glob(package)}
    paths = {path for match in matches for path in (match, *match.rglob("*"))}
    for path in sorted(path for path in paths if path.suffix in {".py", ".sql"}):
        hashed.update(f"{path.relative_to(_SOURCE).as_posix()}\n".encode() + path.read_bytes())
    return hashed.hexdigest()


def path_of_output(campaign: str, run: int) -> Path:
    """Return where the output of a failed run is kept."""
    OUTPUTS.mkdir(exist_ok=True)
    return OUTPUTS / f"release-{campaign}-{run}.log"
