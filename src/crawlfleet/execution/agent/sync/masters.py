"""The masters of an agent, all equal: the one in use, and the back-off before the next call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from crawlfleet.errors import ConfigError
from crawlfleet.execution.master_calls.master_directory import MasterDirectory, next_url
from crawlfleet.ports.transport import MasterTransport

Connect = Callable[[str], MasterTransport]


class Masters:
    """The addresses of all masters with their transports, and the one in use."""

    def __init__(self, directory: MasterDirectory, connect: Connect, rng: Random) -> None:
        if not directory.urls:
            raise ConfigError("masters: an agent needs the address of at least one master")
        self._directory = directory
        self._connect = connect
        self._rng = rng
        self._transports: dict[str, MasterTransport] = {}
        self.current = directory.urls[0]

    @classmethod
    def of_transports(cls, transports: Sequence[MasterTransport], rng: Random) -> Masters:
        """Make the list of transports that stand for masters without addresses."""
        numbered = {f"master-{number}": transport for number, transport in enumerate(transports)}
        return cls(MasterDirectory(list(numbered)), numbered.__getitem__, rng)

    def __len__(self) -> int:
        return len(self._directory.urls)

    @property
    def mark(self) -> int:
        return self._directory.mark

    def transport(self, url: str) -> MasterTransport:
        if url not in self._transports:
            self._transports[url] = self._connect(url)
        return self._transports[url]

    def apply_list(self, reported: Sequence[str]) -> None:
        """Take the masters that one of them reported to be alive; those that are gone are forgotten."""
        if not self._directory.update(reported):
            return
        urls = self._directory.urls
        self._transports = {url: transport for url, transport in self._transports.items() if url in urls}
        if self.current not in urls:
            self.current = urls[0]

    def move_on(self, failed: str) -> None:
        """Switch to the next master after this one failed, unless that was done already."""
        if failed == self.current:
            self.current = next_url(self._directory.urls, failed)

    def backoff_s(self, failures: int, first_s: float, longest_s: float) -> float:
        """Exponential back-off with jitter, so that nodes that failed together do not come back together."""
        return self.add_jitter(min(longest_s, first_s * 2 ** min(failures - 1, 30)))

    def add_jitter(self, span_s: float) -> float:
        return span_s * (0.5 + self._rng.random())
