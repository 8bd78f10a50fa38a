"""`pytest tests/console --rewrite-explanations` rewrites explanations/; review the diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption(
        "--rewrite-explanations", action="store_true", help="rewrite the texts in explanations/"
    )
