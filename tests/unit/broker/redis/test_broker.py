"""The memory of Redis, as its INFO has it."""

import pytest

from crawlfleet.broker.redis.broker import read_memory
from crawlfleet.ports.broker import BrokerMemory

INFO = b"# Memory\r\nused_memory:750\r\nused_memory_human:1K\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n"


def test_the_part_of_the_limit_is_read_with_the_policy() -> None:
    assert read_memory(INFO) == BrokerMemory(0.75, "allkeys-lru")
    assert read_memory(INFO.decode()) == BrokerMemory(0.75, "allkeys-lru")


@pytest.mark.parametrize(
    "info", [b"", INFO.replace(b"1000", b"0"), b"used_memory:1\r\n", b"used_memory:x\nmaxmemory:y"]
)
def test_without_a_limit_there_is_nothing_to_tell(info: bytes) -> None:
    assert read_memory(info) is None
