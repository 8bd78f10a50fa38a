"""`pytest tests/release/promises --rewrite-promises` rewrites snapshots/; review the diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption(
        "--rewrite-promises", action="store_true", help="rewrite the files in snapshots/"
    )
