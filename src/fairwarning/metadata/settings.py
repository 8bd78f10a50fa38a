"""Moved."""

from fairwarning.service.settings import HOSTS, Settings  # noqa: F401
