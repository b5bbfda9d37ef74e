"""Real PostgreSQL and Redis servers for tests and benchmarks, and an S3 one, from the packages in the `dev` extra."""

from testkit.servers.postgres import PostgresServer
from testkit.servers.process import ServerFailed
from testkit.servers.redis import RedisServer
from testkit.servers.s3 import S3Server

__all__ = ["PostgresServer", "RedisServer", "S3Server", "ServerFailed"]
