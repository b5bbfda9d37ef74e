"""The settings of alerts, converted for their parts: channels, links, the watchdog, certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from crawlfleet.bootstrap.certificate_end import CertificateUnreadable, read_certificate_end
from crawlfleet.bootstrap.notices import open_channels
from crawlfleet.control.alerts.alert_options import AlertOptions, Certificate
from crawlfleet.notices.watchdog import WatchdogCall
from crawlfleet.ports.clock import SystemClock
from crawlfleet.settings.master import MasterSettings

log = structlog.get_logger()


def alert_options(settings: MasterSettings) -> AlertOptions:
    """Raises ConfigError for a watchdog that cannot be called."""
    public_url, watchdog_url = settings.public_url or "", settings.alert_watchdog_url
    return AlertOptions(
        public_url=public_url,
        installation=urlsplit(public_url).hostname or "",
        factory=open_channels(settings),
        ping=None if watchdog_url is None else WatchdogCall(watchdog_url, SystemClock().now),
        certificates=tuple if settings.tls_cert is None else certificate_reader(settings.name or "", settings.tls_cert),
    )


def certificate_reader(name: str, path: Path) -> Callable[[], Iterable[Certificate]]:
    """Return a reader of the master's certificate, which reads the file again when it was replaced."""
    known_ends: dict[int, Certificate] = {}

    def read_certificates() -> Iterable[Certificate]:
        try:
            changed_at = path.stat().st_mtime_ns
            if changed_at not in known_ends:
                end_at = read_certificate_end(path)
                known_ends.clear()
                known_ends[changed_at] = Certificate(name or "master", end_at)
        except (OSError, CertificateUnreadable) as exc:
            # It may be in the course of its replacement: what was read last holds until then.
            log.warning("certificate_unread", path=str(path), error=str(exc))
        return known_ends.values()

    return read_certificates
