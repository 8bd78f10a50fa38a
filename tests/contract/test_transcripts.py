from pathlib import Path

import pytest

from tests.contract.transcript import replay, rows

FOLDER = Path(__file__).parent / "transcripts"
TRANSCRIPTS = [
    pytest.param(path, id=path.stem, marks=pytest.mark.spec(*rows(path)))
    for path in sorted(FOLDER.glob("*.txt"))
]


@pytest.mark.parametrize("path", TRANSCRIPTS)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    """Replaying a documented life cycle gives exactly its transcript."""
    replayed = replay(path)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(replayed, encoding="utf-8")
    assert replayed == path.read_text(encoding="utf-8")


def test_every_life_cycle_has_a_transcript() -> None:
    """Every documented life cycle has a transcript."""
    assert {path.stem for path in FOLDER.glob("*.txt")} >= {
        "user-reboot-approved",
        "user-redeploy-not-approved",
        "host-maintenance-freeze",
        "live-migration",
        "host-rollout",
        "hardware-failure",
        "degraded-hardware",
        "spot-eviction",
        "terminate-queue",
        "cancelled-maintenance",
        "a-day-of-silence",
        "wave",
        "versions",
    }
