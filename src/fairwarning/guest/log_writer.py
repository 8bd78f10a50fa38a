"""The log of the agent and of the service on standard error, which may be a pipe nobody reads."""

from __future__ import annotations

import io
import logging
import os
import queue
import select
import threading
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_LINES = 1000  # that wait to be written
FLUSH_SECONDS = 1.0  # for the last lines, when the process ends and nobody reads
_FLUSH_ROUNDS = 10  # of these seconds at most, while the reader is slow or this machine is


class LogWriter(logging.Handler):
    """Writes lines in a thread of its own: a pipe that nobody reads blocks no other thread.

    It keeps `MOST_LINES` and drops later ones, which are counted.
    """

    def __init__(self, stream: TextIO, on_drop: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._stream = stream
        self._on_drop = on_drop
        try:  # without the stream's lock, which this thread would hold when Python ends
            self._descriptor: int | None = stream.fileno()
        except (OSError, ValueError, AttributeError):
            self._descriptor = None
        self._lines: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        self._dropped = 0  # since the last line that was written
        threading.Thread(target=self._work, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            self.put(self.format(record))
        except Exception:  # noqa: BLE001  (as other handlers do)
            self.handleError(record)

    def put(self, text: str) -> None:
        """Queue a line, unless too many wait."""
        self.put_text(f"{text}\n")

    def put_text(self, text: str) -> None:
        """Queue text that may be a part of a line, unless too many wait."""
        if self._lines.qsize() < MOST_LINES:
            self._lines.put(text)
        else:
            self._drop()

    def _drop(self) -> None:
        self._dropped += 1
        if self._on_drop:
            self._on_drop()

    def flush(self) -> None:
        """Wait a moment until all lines are written. Python calls it at its end."""
        written = threading.Event()
        self._lines.put(written)
        for _ in range(_FLUSH_ROUNDS):
            if written.wait(FLUSH_SECONDS) or not self._is_read():
                break

    def _is_read(self) -> bool:
        """Whether there is space for a line: then the thread is at work."""
        try:
            return bool(select.select([], [self._stream], [], 0)[1])
        except (OSError, ValueError, TypeError):  # no descriptor, or on Windows
            return False

    def _work(self) -> None:
        while True:
            item = self._lines.get()
            if isinstance(item, threading.Event):
                item.set()
                continue
            if not self._write(item):
                self._drop()
            elif self._dropped:
                dropped, self._dropped = self._dropped, 0
                self._write(f"{dropped} lines of the log were dropped: it could not be written\n")

    def _write(self, text: str) -> bool:
        """Write a line; return False if it cannot be: a disk is full, or nobody is there."""
        try:
            if self._descriptor is None:
                self._stream.write(text)
                return True
            content = text.encode(self._stream.encoding or "utf-8", "backslashreplace")
            while content:
                content = content[os.write(self._descriptor, content) :]
        except (OSError, ValueError):
            return False
        return True


class QueuedStream(io.TextIOBase):
    """A stream whose text a `LogWriter` writes, in order with its lines: `sys.stderr`.

    Tracebacks, warnings and errors that Python or a library prints block no thread either.
    """

    def __init__(self, stream: TextIO, writer: LogWriter) -> None:
        self._stream = stream
        self._writer = writer

    @property
    def encoding(self) -> str:  # type: ignore[override]  # it is no method of the base class
        """The encoding in which the text is written."""
        return self._stream.encoding

    @property
    def errors(self) -> str:  # type: ignore[override]  # likewise
        """What is written for a character that the encoding lacks."""
        return "backslashreplace"

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """Whether it is for writing, which it is."""
        return True

    def write(self, text: object) -> int:
        """Queue the text; refuse bytes, by which click recognises a stream of text."""
        if not isinstance(text, str):
            raise TypeError("a stream of text takes no bytes")
        if text:
            self._writer.put_text(text)
        return len(text)
