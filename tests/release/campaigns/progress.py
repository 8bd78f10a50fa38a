"""What the campaigns of a release have done, so that they continue after an interruption."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fixtures.programs import ROOT
from tests.release.campaigns.plan import Campaign

FOLDER = ROOT / ".local" / "release"
"""Of the file with what was done, and of the outputs of failed runs."""
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
        self._file = FOLDER / "done.json"
        stored = json.loads(self._file.read_text("utf-8")) if self._file.exists() else {}
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
        FOLDER.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps({name: asdict(done) for name, done in self.done.items()}))
        part.replace(self._file)


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
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / f"{campaign}-{run}.log"
