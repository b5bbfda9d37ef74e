"""The node's part of the configuration: its log level."""

from crawlfleet.execution.agent.config import Config
from crawlfleet.wire.sync import NodeConfigBody


def test_the_log_level_of_the_cluster_is_applied_and_taken_back() -> None:
    levels: list[str | None] = []
    config = Config(set_log_level=levels.append)
    assert config.apply_config(NodeConfigBody(1, log_level="debug"))
    assert not config.apply_config(NodeConfigBody(1, log_level="error"))
    assert config.apply_config(NodeConfigBody(2, log_level="a level of a newer master"))
    assert config.apply_config(NodeConfigBody(3))
    assert levels == ["debug", None, None]
