"""`pytest tests/contract --rewrite` rewrites the transcripts; review the diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption(
        "--rewrite", action="store_true", help="write what transcripts produce into their files"
    )
