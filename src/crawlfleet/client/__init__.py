"""The Python client: `Client` for blocking code, `AsyncClient` for code with an event loop."""

from crawlfleet.client._generated.blocking import Client
from crawlfleet.client.async_client import AsyncClient
from crawlfleet.client.errors import ApiError, NoEndpoint, Unreachable, WaitTimeout
from crawlfleet.client.transport.retry import RetryPolicy
from crawlfleet.client.types import FINAL_STATUSES, LogLine, SavedExport, Why

__all__ = [
    "FINAL_STATUSES",
    "ApiError",
    "AsyncClient",
    "Client",
    "LogLine",
    "NoEndpoint",
    "RetryPolicy",
    "SavedExport",
    "Unreachable",
    "WaitTimeout",
    "Why",
]
