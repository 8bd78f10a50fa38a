"""What the endpoint has done so far; read by whoever exports metrics."""

from collections import Counter


class RequestCounts:
    """Plain numbers: counting one costs an addition."""

    def __init__(self) -> None:
        self.polls = 0  # documents sent, or found unchanged
        self.approvals = 0  # accepted
        self.descriptions = 0  # instance metadata and versions
        self.held = 0  # long polls, just now
        self.refused: Counter[str] = Counter()  # by reason
        self.faults: Counter[str] = Counter()  # on demand (M21), by kind
