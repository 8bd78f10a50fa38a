"""Durations in seconds."""

MINUTE = 60
HOUR = 3600
DAY = 24 * HOUR
