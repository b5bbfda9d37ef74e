"""Connections to strangers: one answer is expected at a time, and a flood of them ends the connection.

A server may send any number of interim answers (103 Early Hints) before the one that counts. The client passes them
over one by one and has no limit for them; whoever sends them faster than that would fill the memory and keep the loop
from everything else.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

ANSWERS_MOST = 100
"""That came and were not looked at yet, to the one request there is."""


class OneAnswer(ResponseHandler):
    def feed_data(self, data: Any, size: int = 0) -> None:
        if len(self) < ANSWERS_MOST:
            super().feed_data(data, size)
        elif self.transport is not None:
            self.transport.abort()
            self.set_exception(HttpProcessingError(message="too many answers to one request"))


class Connector(aiohttp.TCPConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # There is no other way to say which protocol is spoken on its connections.
        made = partial(OneAnswer, loop=asyncio.get_running_loop())
        self._factory = cast("partial[ResponseHandler]", made)
