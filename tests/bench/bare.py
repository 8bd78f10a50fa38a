"""The peer of the control plane: Starlette on uvicorn over TLS, with a fixed response.

`python -m tests.bench.bare FOLDER` answers GET with FOLDER/document, with the certificate in
FOLDER/server.pem. It prints its port once it listens.
"""

import socket
import ssl
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.bench import fleets


def application(document: bytes) -> Starlette:
    """An application with the same response for all requests."""

    async def answer(_: Request) -> Response:
        return Response(document, media_type="application/json; charset=utf-8")

    return Starlette(routes=[Route("/{path:path}", answer)])


def main() -> None:
    """Serve on the event loop that the service uses."""
    folder = Path(sys.argv[1])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.pem")
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    config = uvicorn.Config(
        application((folder / "document").read_bytes()),
        ssl_context_factory=lambda *_: tls,
        access_log=False,
        log_config=None,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=2,
    )
    print(listener.getsockname()[1], flush=True)
    with fleets.runner() as loop:
        loop.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
