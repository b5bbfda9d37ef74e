"""`python -m bench.empty_server`: the same HTTP server with one route that does nothing, as a limit for ours."""

from __future__ import annotations

import socket
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def nothing(request: Request) -> Response:
    await request.body()
    return Response(status_code=201)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/\n")
    sys.stdout.flush()
    app = Starlette(routes=[Route("/", nothing, methods=["POST"])])
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", ws="none", lifespan="off", access_log=False, log_config=None
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
