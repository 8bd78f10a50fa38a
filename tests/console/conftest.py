"""`pytest tests/console --rewrite-stories` writes the stories anew; review them as a diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag; tests/contract has one of its own."""
    parser.addoption(
        "--rewrite-stories", action="store_true", help="write what is explained into stories/"
    )
