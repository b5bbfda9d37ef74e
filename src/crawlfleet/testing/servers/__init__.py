"""Real PostgreSQL and Redis servers for tests and benches, from the wheels in the `dev` extra."""

from crawlfleet.testing.servers.postgres import PostgresServer
from crawlfleet.testing.servers.process import ServerFailed
from crawlfleet.testing.servers.redis import RedisServer

__all__ = ["PostgresServer", "RedisServer", "ServerFailed"]
