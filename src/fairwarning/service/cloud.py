"""Moved."""

from fairwarning.service.settings import Cloud  # noqa: F401
