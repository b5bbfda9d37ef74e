"""nginx, which serves the trees, one port each, and notes what it was asked: the witness of both crawlers."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.trees.packages import Tree

_CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  include {root}/etc/nginx/mime.types;
  default_type application/octet-stream;
  log_format asked '$server_port\\t$status\\t$sent_http_content_type\\t$request_uri\\t$http_user_agent';
  access_log {folder}/asked.log asked;
  gzip on;
  sendfile on;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
{sites}}}
"""
_SITE = """\
  server {{
    listen 127.0.0.1:{port};
    root {html};
    index index.html;
    location = /robots.txt {{ alias {robots}; }}
  }}
"""


class Asked(NamedTuple):
    port: int
    status: int
    content_type: str
    path: str
    agent: str


class WebServer:
    def __init__(self, ports: dict[str, int], log: Path) -> None:
        self._ports = ports
        self._log = log

    def host(self, tree: Tree) -> str:
        return f"127.0.0.1:{self._ports[tree.name]}"

    def asked(self, tree: Tree, agent: str) -> list[Asked]:
        """What one visitor asked of a tree, in order."""
        rows = (line.split("\t") for line in self._log.read_text().splitlines())
        asked = (Asked(int(port), int(status), kind, path, who) for port, status, kind, path, who in rows)
        return [one for one in asked if one.port == self._ports[tree.name] and one.agent == agent]


@asynccontextmanager
async def serving(root: Path, trees: Sequence[Tree], folder: Path) -> AsyncIterator[WebServer]:
    ports = {tree.name: _free_port() for tree in trees}
    sites = []
    for tree in trees:
        robots = folder / f"{tree.name}.robots.txt"
        robots.write_text(tree.robots)
        sites.append(_SITE.format(port=ports[tree.name], html=root / tree.html, robots=robots))
    config = folder / "nginx.conf"
    config.write_text(_CONFIG.format(folder=folder, root=root, sites="".join(sites)))
    # As root it would hand the work to a user who may not read our folder.
    own = ["-g", "user root;"] if os.geteuid() == 0 else []
    process = await asyncio.create_subprocess_exec(
        str(root / "usr/sbin/nginx"), "-c", str(config), "-e", str(folder / "error.log"), *own
    )
    try:
        for port in ports.values():
            await _answers(port, process)
        yield WebServer(ports, folder / "asked.log")
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _answers(port: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(10):
        while True:
            if process.returncode is not None:
                raise RuntimeError(f"nginx ended with {process.returncode}")
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
