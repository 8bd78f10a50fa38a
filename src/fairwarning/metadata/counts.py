"""Counters of the metadata endpoint, read by the metrics exporter."""

from collections import Counter


class RequestCounts:
    """Plain numbers, so that counting costs one addition."""

    def __init__(self) -> None:
        self.polls = 0  # documents sent, and 304 responses
        self.approvals = 0  # accepted
        self.descriptions = 0  # instance metadata and versions
        self.held = 0  # long polls held at the moment
        self.refused: Counter[str] = Counter()  # by reason
        self.faults: Counter[str] = Counter()  # injected (M21), by kind
