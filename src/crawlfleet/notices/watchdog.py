"""The call to a watchdog: a service outside that raises an alarm when the calls of an installation stop."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from crawlfleet.errors import ConfigError, InvalidInput
from crawlfleet.model.instants import Instant
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.channel_fields import parse_address
from crawlfleet.notices.http_channel import describe_answer
from crawlfleet.notices.http_post import HttpPoster, PostFailed, PostRequest
from crawlfleet.notices.secret_filter import SecretFilter
from crawlfleet.notices.texts import clean_line
from crawlfleet.ports.notice_channel import ANSWER_CHARS, SEND_S


class WatchdogCall:
    """Calls one address with GET, within the bounds of channels; most services have a secret in the address.

    The address is a setting of the master, so that its own host is allowed, whatever it resolves to.
    """

    def __init__(self, url: str, now: Callable[[], Instant], *, send_s: float = SEND_S) -> None:
        """Raises ConfigError for an address that cannot be used."""
        try:
            guard = AddressGuard([urlsplit(url).hostname or ""], hint="it is no host for alert_watchdog_url")
            parse_address("alert_watchdog_url", url, guard)
        except InvalidInput as exc:
            raise ConfigError(str(exc)) from exc
        except ValueError as exc:
            raise ConfigError("alert_watchdog_url: has to be an address that begins with https:// or http://") from exc
        self._request = PostRequest(url, b"", {}, method="GET")
        self._poster = HttpPoster(guard, send_s=send_s)
        self._secrets = SecretFilter([url])
        self._now = now

    async def __call__(self) -> str | None:
        """Call the watchdog once; return what went wrong, or None when it answered with 2xx."""
        try:
            answer = await self._poster.post(self._request, self._now())
        except PostFailed as exc:
            return clean_line(self._secrets.hide(str(exc)), ANSWER_CHARS)
        if 200 <= answer.status < 300:
            return None
        return clean_line(self._secrets.hide(describe_answer(answer)), ANSWER_CHARS)
