"""Real PostgreSQL and Redis servers for tests and benches, and an S3, from the packages in the `dev` extra."""

from crawlfleet.testing.servers.postgres import PostgresServer
from crawlfleet.testing.servers.process import ServerFailed
from crawlfleet.testing.servers.redis import RedisServer
from crawlfleet.testing.servers.s3 import S3Server

__all__ = ["PostgresServer", "RedisServer", "S3Server", "ServerFailed"]
