"""Parts of aiohttp and redis that are theirs, and that we use: each is named here, with what it is for.

pyproject.toml bounds both libraries to one minor version. To move to the next one:
1. raise the bound in pyproject.toml and the version in constraints.txt, and install;
2. run this module: it says which part is gone, has another signature, or has come to share a name with one of ours;
3. read what the library's changes say of the modules below and change those that use the part (named in the table);
4. run the tests of execution/crawl/fetch (aiohttp) or of the broker (redis): they are about what the parts do.
"""

import ast
import asyncio
import inspect
import re
import tomllib
from importlib.metadata import version
from typing import Any, NamedTuple

import aiohttp
import pytest
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.helpers import HeadersMixin
from multidict import CIMultiDict, CIMultiDictProxy
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.connection import Connection as RedisConnection

from crawlfleet.broker.redis import connection_factory
from crawlfleet.execution.crawl.fetch import connections, http_client
from crawlfleet.execution.crawl.fetch.connections import Connector, SiteConnection
from crawlfleet.execution.crawl.fetch.http_client import SiteResponse
from tests.paths import ROOT

BOUNDED = ("aiohttp", "redis")


class Part(NamedTuple):
    owner: Any
    name: str
    parameters: tuple[str, ...]
    """The parameters we call it with, by name or in this order; none for an attribute."""
    used_in: str


PARTS = [
    Part(aiohttp.TCPConnector, "_get", ("key", "traces"), "connections: a kept connection, without a new one"),
    Part(aiohttp.TCPConnector, "connect", ("req", "traces", "timeout"), "http_client: a connection for a request"),
    Part(ResponseHandler, "__init__", ("loop",), "connections: made by the connector's factory"),
    Part(ResponseHandler, "data_received", ("data",), "connections: the answer of a proxy that makes a tunnel"),
    Part(ResponseHandler, "connection_lost", ("exc",), "connections: the end of a connection"),
    Part(ResponseHandler, "force_close", (), "connections: keeps a connection out of the pool"),
    Part(Connection, "protocol", (), "http_client: our own protocol of a connection"),
    Part(Connection, "release", (), "http_client: gives a connection back to the pool"),
    Part(Connection, "close", (), "http_client: ends a connection"),
    Part(aiohttp.ClientRequest, "connection_key", (), "http_client: what connections are kept by"),
    Part(aiohttp.ClientRequest, "is_ssl", (), "http_client: whether a proxy is asked for whole URLs"),
    Part(
        aiohttp.ClientRequest,
        "__init__",
        ("method", "url", "headers", "cookies", "loop", "proxy", "proxy_headers"),
        "http_client: the headers of a request",
    ),
    Part(HeadersMixin, "content_type", (), "http_client: the type of an answer's body"),
    Part(HeadersMixin, "charset", (), "http_client: the charset of an answer's body"),
    Part(ConnectionPool, "from_url", ("url",), "connection_factory: the address of a Redis"),
    Part(AbstractConnection, "connect", (), "connection_factory"),
    Part(AbstractConnection, "disconnect", ("nowait",), "connection_factory: without waiting for the server"),
    Part(AbstractConnection, "pack_commands", ("commands",), "connection_factory, pipeline: many commands at once"),
    Part(
        AbstractConnection,
        "send_packed_command",
        ("command", "check_health"),
        "connection_factory, pipeline: without a PING of its own",
    ),
    Part(
        AbstractConnection, "send_command", ("args", "kwargs"), "listener: SUBSCRIBE and PING, `check_health` by name"
    ),
    Part(AbstractConnection, "read_response", (), "connection_factory, pipeline, listener: one answer after the other"),
]


def advice(part: Part) -> str:
    return (
        f"{part.owner.__name__}.{part.name} is not what {part.used_in.partition(':')[0]} needs any more: "
        f"see how to change the version in {__name__}"
    )


def assigned_names(owner: type) -> set[str]:
    """The attributes that a class sets on itself."""
    tree = ast.parse(inspect.getsource(owner))
    stored = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}


@pytest.mark.parametrize("library", BOUNDED)
def test_a_library_whose_internals_we_use_is_bounded_to_the_version_that_is_pinned(library: str) -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (bounds,) = (one.removeprefix(library) for one in said if re.match(rf"{library}\b", one))
    major, minor, *_ = version(library).split(".")
    assert bounds == f">={major}.{minor},<{major}.{int(minor) + 1}"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.owner.__name__}.{part.name}")
def test_a_part_we_use_is_there_and_takes_what_we_give(part: Part) -> None:
    found = inspect.getattr_static(part.owner, part.name, None)
    assert found is not None, advice(part)
    if part.parameters:
        signature = inspect.signature(getattr(part.owner, part.name))
        assert set(part.parameters) <= set(signature.parameters), advice(part)


async def test_a_connector_makes_the_protocols_that_its_factory_makes() -> None:
    connector = Connector()
    assert "_factory" in vars(connector), "aiohttp.TCPConnector keeps its factory of protocols elsewhere"
    assert "self._factory" in inspect.getsource(aiohttp.TCPConnector)
    assert isinstance(connector._factory(), SiteConnection)
    assert list(inspect.signature(aiohttp.TCPConnector._get).parameters) == ["self", "key", "traces"]
    await connector.close()


async def test_a_protocol_reads_by_itself_unless_a_parser_is_set() -> None:
    """`_parser` is set while aiohttp asks a proxy for a tunnel, and `_loop` is the loop's."""
    handler = ResponseHandler(asyncio.get_running_loop())
    assert handler._parser is None
    assert handler._loop is asyncio.get_running_loop()
    assert handler.transport is None


async def test_no_attribute_of_ours_has_the_name_of_one_of_aiohttps() -> None:
    loop = asyncio.get_running_loop()
    theirs = set(vars(ResponseHandler(loop))) | set(dir(ResponseHandler))
    assert assigned_names(SiteConnection) & theirs == set()
    overridden = {name for name in vars(SiteConnection) if name in theirs and not name.startswith("__")}
    assert overridden == {"data_received", "connection_lost"}
    assert {
        name for name in vars(Connector) if name in dir(aiohttp.TCPConnector) and not name.startswith("__")
    } == set()
    assert assigned_names(SiteResponse) & set(dir(HeadersMixin)) <= {"_headers"}


def test_the_mixin_reads_headers_by_the_name_we_give_them() -> None:
    class Said(HeadersMixin):
        def __init__(self) -> None:
            self._headers = CIMultiDictProxy(CIMultiDict({"Content-Type": "text/html; charset=koi8-r"}))

    assert (Said().content_type, Said().charset) == ("text/html", "koi8-r")


async def test_a_request_is_made_without_a_session() -> None:
    url = yarl.URL("https://site.example/", encoded=True)
    request = aiohttp.ClientRequest("GET", url, headers=CIMultiDict({"A": "b"}), loop=asyncio.get_running_loop())
    assert isinstance(request.connection_key, ConnectionKey)
    assert request.is_ssl()
    assert request.headers["A"] == "b"


async def test_a_connection_of_redis_has_a_writer_and_a_timeout_of_its_own() -> None:
    """`_writer.transport` is aborted when a server hangs, and `socket_timeout` is taken away."""
    pool = ConnectionPool.from_url("redis://127.0.0.1:1/0", protocol=2)
    connection = pool.connection_class(**pool.connection_kwargs)
    assert isinstance(connection, RedisConnection)
    assert connection._writer is None
    connection.socket_timeout = None
    assert connection.socket_timeout is None
    assert '"check_health"' in inspect.getsource(AbstractConnection.send_command)
    assert "self._writer" in inspect.getsource(RedisConnection._connect)


def test_nothing_else_of_theirs_is_used() -> None:
    """Private names that our modules read of objects that are not their own: a new one belongs in this module."""
    known = {"_factory", "_get", "_headers", "_parser", "_loop", "_writer", "_replace"}
    for module, own in (
        (connections, assigned_names(SiteConnection) | set(vars(SiteConnection)) | set(vars(Connector))),
        (
            http_client,
            assigned_names(SiteResponse) | assigned_names(http_client.HttpClient) | set(vars(http_client.HttpClient)),
        ),
        (
            connection_factory,
            assigned_names(connection_factory.ConnectionFactory) | set(vars(connection_factory.ConnectionFactory)),
        ),
    ):
        found = {
            node.attr for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Attribute)
        }
        private = {name for name in found if name.startswith("_") and not name.startswith("__")}
        assert private - own <= known, module.__name__
