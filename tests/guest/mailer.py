"""A small mailer: accepts messages over SMTP on 127.0.0.1 and keeps them."""

import socketserver
import threading
from typing import Self


class Mailer:
    """A real SMTP server with configurable answers to RCPT."""

    def __init__(self, answers: tuple[str, ...] = ("250 ok",)) -> None:
        """Answer RCPT with these in turn; the last one is repeated."""
        self.messages: list[bytes] = []
        self._answers = list(answers)
        mailer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                mailer._talk(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def _talk(self, handler: socketserver.StreamRequestHandler) -> None:
        def say(line: str) -> None:
            handler.wfile.write(line.encode() + b"\r\n")

        say("220 mailer")
        for raw in iter(handler.rfile.readline, b""):
            verb = raw[:4].upper()
            if verb == b"RCPT":
                say(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])
            elif verb == b"DATA":
                say("354 go on")
                self.messages.append(b"".join(iter(handler.rfile.readline, b".\r\n")))
                say("250 ok")
            elif verb == b"QUIT":
                say("221 bye")
                return
            else:
                say("250 ok")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
