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
