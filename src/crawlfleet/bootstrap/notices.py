"""Opens the factory of the channels that notices go through."""

from __future__ import annotations

from crawlfleet.notices.channel_factory import NoticeChannels
from crawlfleet.ports.notice_channel import ChannelFactory
from crawlfleet.settings.master import MasterSettings


def open_channels(settings: MasterSettings) -> ChannelFactory:
    """Return the factory, with the private hosts that the settings allow."""
    return NoticeChannels(settings.alert_allow_hosts)
