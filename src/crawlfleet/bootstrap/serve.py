"""A master as a process: store, broker, services and loops, behind one HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import structlog
import uvicorn
import uvloop

from crawlfleet.api.app import create_app
from crawlfleet.bootstrap.brokers import BrokerEventWriter, broker_kind, is_memory, open_broker
from crawlfleet.bootstrap.connection_guard import SWEEP_S, ConnectionGuard
from crawlfleet.bootstrap.event_loop_lag import measure_event_loop_lag
from crawlfleet.bootstrap.file_limit import raise_file_limit
from crawlfleet.bootstrap.gc_tuning import tune_collector
from crawlfleet.bootstrap.http_protocol import BoundedHttpProtocol
from crawlfleet.bootstrap.maintenance.installation_files import read_installation_files
from crawlfleet.bootstrap.master import Master
from crawlfleet.bootstrap.master_settings import (
    api_settings,
    connection_limits,
    master_options,
    watched_folders,
)
from crawlfleet.bootstrap.process_figures import ProcessFigures
from crawlfleet.bootstrap.results import open_results
from crawlfleet.bootstrap.services import build_services
from crawlfleet.bootstrap.stores import open_store, retry_until_available
from crawlfleet.bootstrap.tls_entry import TlsEntry, tls_context
from crawlfleet.control.admin.tokens import IssuedToken
from crawlfleet.errors import ConfigError, NotAllowed
from crawlfleet.execution.executors.registry import builtin_schemas
from crawlfleet.model.instants import ms
from crawlfleet.model.principal import Role
from crawlfleet.observe.logs import configure_logs
from crawlfleet.observe.tracing import start_tracing
from crawlfleet.ports.clock import SystemClock
from crawlfleet.settings.master import MasterSettings
from crawlfleet.settings.private_files import make_private_folder, write_private
from crawlfleet.version import __version__
from crawlfleet.wire.event_socket import MESSAGE_BYTES

log = structlog.get_logger()

ADMIN_TOKEN = "admin.token"
CRAWL_ENGINE = "crawlfleet.execution.crawl.shared.shared_crawl_seeds"
"""The module by which masters read the parameters of crawls."""
ADDRESS = "address"
BACKLOG = 2048
GRACE_S = 5
"""Time in seconds that responses under way may take when the master stops; long polls and streams end at once."""
PING_S = 15.0
PONG_S = 60.0
"""Time in seconds for the answer to a ping of a WebSocket: it comes behind the events that the caller still reads."""
_TICK_S = 0.1
"""Interval in seconds at which uvicorn's server runs its periodic work."""


class MasterProcess:
    closed_last: AsyncExitStack
    """Resources that the master depends on, closed after everything else."""

    def __init__(
        self, settings: MasterSettings, master: Master, listener: socket.socket, figures: ProcessFigures
    ) -> None:
        self.master = master
        self.figures = figures
        self.admin_token: str | None = None
        """Admin token of a new installation, kept only by the process that created it."""
        self._settings = settings
        self._listener = listener
        self._clock = SystemClock()
        self._stop_requested = asyncio.Event()
        self._closing = asyncio.Event()
        self.app = create_app(build_services(master), api_settings(settings))
        guard = ConnectionGuard(connection_limits(settings, raise_file_limit()), self._clock.monotonic)
        self._server = _Server(uvicorn_config(self.app, settings, guard), guard)

    @classmethod
    async def open(cls, settings: MasterSettings) -> MasterProcess:
        """Open everything that the master needs, so that each mistake in the settings is found before anything is
        served."""
        data_dir = settings.data_dir
        try:
            make_private_folder(data_dir)
        except OSError as exc:
            raise ConfigError(f"data_dir: {data_dir} cannot be made: {exc.strerror}") from exc
        listener = bind_listener(settings.host, settings.port)
        async with AsyncExitStack() as opened:
            opened.callback(listener.close)
            process = await retry_until_available(settings.store, lambda: cls._open_once(settings, listener))
            opened.pop_all()
        listener.listen(BACKLOG)
        write_private(data_dir / ADDRESS, process.url)
        return process

    @classmethod
    async def _open_once(cls, settings: MasterSettings, listener: socket.socket) -> MasterProcess:
        data_dir = settings.data_dir
        async with AsyncExitStack() as opened:
            store = await open_store(settings.store, is_only_master=is_memory(settings.broker))
            opened.push_async_callback(store.close)
            name = settings.name or f"{socket.gethostname()}:{listener.getsockname()[1]}"
            broker_events = BrokerEventWriter(store, SystemClock(), name)
            opened.push_async_callback(broker_events.close)
            broker = await open_broker(
                settings.broker,
                await store.installation_id(),
                broker_events,
                max_connections=settings.redis_max_connections,
                pool_timeout_s=settings.redis_pool_timeout_s,
            )
            opened.push_async_callback(broker.close)
            figures = ProcessFigures(
                listener_url(settings, listener),
                broker_kind(settings.broker),
                watched_folders(settings),
                broker_events.losses,
            )
            if (tracing := await asyncio.to_thread(start_tracing, "crawlfleet-master", name, __version__)) is not None:
                opened.push_async_callback(asyncio.to_thread, tracing.close)
            master = await Master.start(
                name,
                store,
                broker,
                builtin_schemas(),
                chunks=await open_results(settings, store),
                options=replace(
                    master_options(settings),
                    probe=figures.measure,
                    read_files=functools.partial(read_installation_files, settings),
                    tracing=tracing,
                ),
            )
            process = cls(settings, master, listener, figures)
            process.admin_token = await first_token(master, data_dir)
            process.closed_last = opened.pop_all()
        process.closed_last.callback(listener.close)
        return process

    @property
    def url(self) -> str:
        return listener_url(self._settings, self._listener)

    def print_address(self) -> None:
        """Print the address on standard output, for the program that started the master; all other output goes to
        standard error."""
        sys.stdout.write(f"{self.url}\n")
        sys.stdout.flush()

    async def run(self) -> None:
        """Serve until a stop is requested."""
        serving = asyncio.create_task(self.serve(), name="serve")
        stopping = asyncio.create_task(self.wait_stopped(), name="stopping")
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            self.close()
        await serving

    async def serve(self) -> None:
        """Serve until `close()`. A loop or a server that ends by itself ends the whole process with an error."""
        loops = asyncio.create_task(self.master.run(), name="master")
        server = asyncio.create_task(self._server.serve(sockets=[self._listener]), name="server")
        closing = asyncio.create_task(self._closing.wait(), name="closing")
        watching = asyncio.create_task(self.figures.watch_disks(), name="disks")
        lag = asyncio.create_task(
            measure_event_loop_lag(self.master.metrics.event_loop_lag, self.figures.loop_lag), name="event-loop-lag"
        )
        # Loaded in a thread: otherwise the first submission of a crawl would block the event loop for a third of a
        # second.
        loading = asyncio.create_task(asyncio.to_thread(import_module, CRAWL_ENGINE), name="load-crawl-engine")
        try:
            await asyncio.wait({loops, server, closing, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            watching.cancel()
            lag.cancel()
            await self._stop_server(server)
            loops.cancel()
            await asyncio.gather(loops, loading, watching, return_exceptions=True)
            await self.closed_last.aclose()
        for task in (loops, server, loading, watching):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def stop(self) -> None:
        """Request a stop; meant for signal handlers."""
        self._stop_requested.set()

    async def wait_stopped(self) -> None:
        await self._stop_requested.wait()

    def close(self) -> None:
        self._closing.set()

    async def create_enrolment(self, seconds: float) -> IssuedToken:
        """Create an enrol token for one node, which expires after this span."""
        expires_at = self._clock.now() + ms(seconds)
        return await self.master.tokens.create_token(
            Role.ENROL, name="standalone", uses=1, expires_at=expires_at, by="standalone"
        )

    async def _stop_server(self, server: asyncio.Task[None]) -> None:
        # Long polls and streams end first; then the server can close in order.
        self.app.shutdown.begin()
        self._server.should_exit = True
        await asyncio.wait({server})


async def first_token(master: Master, data_dir: Path) -> str | None:
    """Create and return the admin token of a new installation; None when there is a usable one. Its file is written
    before the store has the token, as there is no other copy."""
    token_file, new = data_dir / ADMIN_TOKEN, data_dir / f"{ADMIN_TOKEN}.new"
    if new.exists():
        # An earlier start ended here. If the store has the token, this file is its only copy.
        with contextlib.suppress(NotAllowed):
            await master.tokens.authenticate(new.read_text().strip())
            new.replace(token_file)
    secret = secrets.token_hex(32)
    write_private(new, secret)
    if await master.tokens.ensure_admin(secret) is None:
        new.unlink()
        return None
    new.replace(token_file)
    return secret


def run_master(settings: MasterSettings) -> int:
    configure_logs(settings.log_level, settings.log_format, settings.log_file)
    return uvloop.run(_run_master(settings))


async def _run_master(settings: MasterSettings) -> int:
    async with opened_until_signal(settings) as process:
        if process is not None:
            log.info("master_started", address=process.url, data_dir=str(settings.data_dir))
            if process.admin_token is not None:
                log.info("admin_token_written", file=str(settings.data_dir / ADMIN_TOKEN))
            await process.run()
    log.info("master_stopped")
    return 0


@contextlib.asynccontextmanager
async def opened_until_signal(settings: MasterSettings) -> AsyncIterator[MasterProcess | None]:
    """Open a master that a signal stops. Yields None when the signal came before the master was open: what the opening
    waits for may never come."""
    opening = asyncio.create_task(MasterProcess.open(settings), name="opening")

    def stop() -> None:
        if not opening.cancel() and not opening.cancelled() and opening.exception() is None:
            opening.result().stop()

    with stopped_by_signals(stop):
        await asyncio.wait({opening})
        if opening.cancelled():
            yield None
            return
        process = opening.result()
        tune_collector()
        process.print_address()
        yield process


def uvicorn_config(app: object, settings: MasterSettings, guard: ConnectionGuard) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        loop="none",
        http=protocol_factory(settings, guard),
        ws="none",  # Only the address of events has one: see http_protocol.
        ws_max_size=MESSAGE_BYTES,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PONG_S,
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=75,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
    )


def protocol_factory(settings: MasterSettings, guard: ConnectionGuard) -> Any:
    """Return the factory that uvicorn calls for each accepted connection. TLS is done here and not by uvicorn, so that
    a connection is counted before its handshake."""
    if settings.tls_cert is None or settings.tls_key is None:
        return functools.partial(BoundedHttpProtocol, guard)
    try:
        context = tls_context(settings.tls_cert, settings.tls_key)
    except OSError as exc:
        raise ConfigError(f"tls_cert, tls_key: cannot be used: {exc}") from exc

    def accept_tls(**given: Any) -> TlsEntry:
        return TlsEntry(guard, context, BoundedHttpProtocol(guard, **given))

    return accept_tls


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: the master handles signals, and ends long polls first."""

    def __init__(self, config: uvicorn.Config, guard: ConnectionGuard) -> None:
        super().__init__(config)
        self._guard = guard
        self._ticks_per_sweep = round(SWEEP_S / _TICK_S)

    async def on_tick(self, counter: int) -> bool:
        if counter % self._ticks_per_sweep == 0:
            self._guard.sweep()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def listener_url(settings: MasterSettings, listener: socket.socket) -> str:
    """Return the address on which the master listens, for callers on its machine."""
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.tls_cert else "http"
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{scheme}://{shown}:{port}"


def bind_listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The socket is bound and not listening: until the master serves, callers are refused and can try another
        # master.
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        return listener
    except (OSError, OverflowError) as exc:
        raise ConfigError(f"host, port: cannot listen on {host}:{port}: {exc}") from exc
