"""Proxies that requests go through: pools with health, rotation and cool-down.

A pool keeps the health of its proxies and may serve many executions. A rotation belongs to one execution and keeps the
proxy of each host. A proxy that fails is left out for a while, twice as long each time, and then tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from crawlfleet.model.proxy_health import ProxyHealth

COOL_S, COOL_MAX_S = 30.0, 1_800.0
NODE_POOL = "pool "
"""Prefix of the name under which people see a pool that the node was given."""
ROTATIONS = ("request", "host", "session")
HOSTS_KEPT = 10_000
_SMOOTH = 0.2
_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True, eq=False)
class Proxy:
    url: str
    """URL without user and password."""
    host: str
    port: int
    user: str | None = None
    password: str = ""
    failures: int = 0
    """Number of failures in a row."""
    down_until: float = 0.0
    latency_s: float = 0.0
    uses: int = 0
    last_failure: str = ""

    @property
    def name(self) -> str:
        """Host and port, as people may see the proxy."""
        return f"{self.host}:{self.port}"


class NoProxy(Exception):
    """Raised when all proxies of a pool are down."""

    def __init__(self, pool: str, count: int, again_s: float) -> None:
        super().__init__(f"all {count} proxies of {pool} are down, the next is tried in {again_s:.0f} s")
        self.again_s = again_s


def parse_proxy(text: str) -> Proxy:
    """Parse `http://user:password@host:port`. Raises ValueError, which does not repeat what may be a password."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise ValueError("not a proxy's URL: http://[user:password@]host:port") from None
    is_bare = parts.path in {"", "/"} and not parts.query and not parts.fragment
    if parts.scheme not in _PORTS or not parts.hostname or not is_bare or port == 0:
        raise ValueError("not a proxy's URL: http://[user:password@]host:port")
    port = port or _PORTS[parts.scheme]
    shown = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    user = None if parts.username is None else unquote(parts.username)
    return Proxy(f"{parts.scheme}://{shown}:{port}", parts.hostname, port, user, unquote(parts.password or ""))


def parse_pools(lines: Iterable[str]) -> dict[str, list[str]]:
    """Parse the lines of a file of pools: a name and a URL on each line. Raises ValueError that names the line."""
    pools: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise ValueError(f"line {number}: a pool's name and a proxy's URL")
        try:
            parse_proxy(words[1])
        except ValueError as exc:
            raise ValueError(f"line {number}: {exc}") from None
        pools.setdefault(words[0], []).append(words[1])
    return pools


class ProxyPool:
    def __init__(self, name: str, urls: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Create a pool; `name` is shown to people. Raises ValueError for a URL that is no proxy."""
        self.name = name
        self._clock = clock
        self._proxies = [parse_proxy(url) for url in dict.fromkeys(urls)]

    def __len__(self) -> int:
        return len(self._proxies)

    def is_up(self, proxy: Proxy) -> bool:
        return proxy.down_until <= self._clock()

    def report_health(self) -> list[ProxyHealth]:
        """Return the health of each proxy; a span counts from now."""
        now = self._clock()
        return [
            ProxyHealth(
                self.name.removeprefix(NODE_POOL),
                proxy.name,
                proxy.uses,
                proxy.failures,
                max(0, int((proxy.down_until - now) * 1_000)),
                int(proxy.latency_s * 1_000),
                proxy.last_failure,
            )
            for proxy in self._proxies
        ]

    def choose_proxy(self) -> Proxy:
        """Return the least used proxy of those that are up, the faster of two. Raises NoProxy."""
        up = [proxy for proxy in self._proxies if self.is_up(proxy)]
        if not up:
            first = min(proxy.down_until for proxy in self._proxies)
            raise NoProxy(self.name, len(self._proxies), first - self._clock())
        return min(up, key=lambda proxy: (proxy.uses, proxy.latency_s))

    def note_success(self, proxy: Proxy, took_s: float) -> None:
        proxy.failures = 0
        proxy.latency_s += _SMOOTH * (took_s - proxy.latency_s) if proxy.latency_s else took_s

    def note_failure(self, proxy: Proxy) -> float:
        """Return the seconds for which the proxy is left out.

        Requests that were under way when it failed are the same failure.
        """
        now = self._clock()
        if proxy.down_until <= now:
            proxy.failures += 1
            proxy.down_until = now + min(COOL_S * 2 ** (proxy.failures - 1), COOL_MAX_S)
        # One that comes back must not be used alone until it has caught up with the others.
        proxy.uses = max(other.uses for other in self._proxies)
        return proxy.down_until - now


class ProxyRotation:
    """The choice of proxies of one execution: which proxy of a pool is kept for which host."""

    def __init__(
        self, pool: ProxyPool, rotation: str = "request", log: Callable[[str, str], None] | None = None
    ) -> None:
        self.pool = pool
        self._rotation = rotation
        self._log = log
        self._kept_proxies: dict[str, Proxy] = {}

    def choose_proxy(self, host: str) -> Proxy:
        """Return the proxy for a host. Raises NoProxy."""
        key = host if self._rotation == "host" else ""
        proxy = None if self._rotation == "request" else self._kept_proxies.get(key)
        if proxy is None or not self.pool.is_up(proxy):
            proxy = self.pool.choose_proxy()
            # Each host counts as one use of the proxy that is kept for it, each request where none is.
            proxy.uses += 1
            if self._rotation != "request":
                if len(self._kept_proxies) >= HOSTS_KEPT:
                    self._kept_proxies.clear()
                self._kept_proxies[key] = proxy
        return proxy

    def note_success(self, proxy: Proxy, took_s: float) -> None:
        self.pool.note_success(proxy, took_s)

    def note_failure(self, proxy: Proxy, why: str) -> None:
        was_up = self.pool.is_up(proxy)
        proxy.last_failure = why
        cool_s = self.pool.note_failure(proxy)
        if was_up and self._log is not None:
            self._log(f"proxy {proxy.name} of {self.pool.name} is left out for {cool_s:.0f} s: {why}", "warning")

    def drop_proxy(self, host: str) -> None:
        """Drop the proxy that is kept for a host, because the host refuses it: the next request uses another."""
        self._kept_proxies.pop(host if self._rotation == "host" else "", None)
