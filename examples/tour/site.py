"""The site that the tour crawls: a process of its own, with its own log of who came when.

/page/N      a page with a heading
/slow        answers after half a minute
/forbidden   answers 403, as a site that blocks does
/busy        answers 429 and asks for a minute of peace
/log         when each request came, by the machine's monotonic clock; it does not count itself
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGES = 30
SLOW_S = 30.0
_REFUSALS = {"forbidden": 403, "busy": 429}
_came: list[float] = []


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        at = time.monotonic()
        if self.path == "/log":
            self._answer(200, json.dumps(_came))
            return
        _came.append(at)
        first, _, number = self.path.strip("/").partition("/")
        if first == "page" and number.isdigit():
            self._answer(200, f"<html><title>{number}</title><main><h1>Page {number}</h1></main></html>")
        elif first == "slow":
            time.sleep(SLOW_S)
            self._answer(200, "<html><title>At last</title></html>")
        else:
            self._answer(_REFUSALS.get(first, 404), "<html><title>No</title></html>")

    def _answer(self, status: int, body: str) -> None:
        raw = body.encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "60")
        self.send_header("Content-Type", "application/json" if self.path == "/log" else "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """It keeps its own."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)
