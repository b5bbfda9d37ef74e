import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from testkit.servers import PostgresServer, RedisServer, S3Server

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_sessionstart() -> None:
    """A run in the background of a shell ignores Ctrl-C, and so would every process that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty database for one test."""
    dsn = postgres_server.create_database()
    yield dsn
    postgres_server.drop_database(dsn)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One Redis for all tests: flush it before relying on what it holds."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One S3 for all tests: each takes a bucket of its own."""
    with S3Server() as server:
        yield server
