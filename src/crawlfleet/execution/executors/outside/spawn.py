"""Start of executor processes: an environment without secrets, a session of their own, and a socket pair."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from crawlfleet.execution.executors.protocol import TO_AGENT, FrameConnection, ToAgent, ToProcess

_KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
OnMessages = Callable[[list[ToAgent] | list[ToProcess]], None]
_ENTRY_MODULE = "crawlfleet.execution.executors.inside.process_entry"


def scrubbed_environment(directory: Path | None = None) -> dict[str, str]:
    """The environment of a child: only variables that it needs, as others may hold tokens and passwords."""
    environment = {
        name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES or name.startswith("LC_")
    }
    if directory is not None:
        environment["TMPDIR"] = str(directory)
    return environment | {"PYTHONUNBUFFERED": "1"}


@dataclass(slots=True)
class Spawned:
    """A started isolated process with its sockets."""

    process: asyncio.subprocess.Process
    frames: socket.socket
    control: socket.socket
    """Socket to its supervisor."""


async def spawn_shared() -> tuple[asyncio.subprocess.Process, socket.socket]:
    ours, theirs = _socket_pair()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            _ENTRY_MODULE,
            "shared",
            str(theirs.fileno()),
            str(os.getpid()),
            pass_fds=[theirs.fileno()],
            env=scrubbed_environment(),
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=2,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


async def spawn_isolated(directory: Path, memory_bytes: int) -> Spawned:
    ours, theirs = _socket_pair()
    our_control, their_control = _socket_pair()
    descriptors = [theirs.fileno(), their_control.fileno()]
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            _ENTRY_MODULE,
            "alone",
            str(descriptors[0]),
            str(os.getpid()),
            str(descriptors[1]),
            str(memory_bytes),
            pass_fds=descriptors,
            env=scrubbed_environment(directory),
            cwd=directory,
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except BaseException:
        ours.close()
        our_control.close()
        raise
    finally:
        theirs.close()
        their_control.close()
    return Spawned(process, ours, our_control)


async def connect_frames(sock: socket.socket, on_messages: OnMessages, on_lost: Callable[[], None]) -> FrameConnection:
    _transport, frames = await asyncio.get_running_loop().create_unix_connection(
        lambda: FrameConnection(TO_AGENT, on_messages, on_lost), sock=sock
    )
    return frames


def search_path(modules: Sequence[str]) -> list[str]:
    """Search path for user modules: that of this process, with its working directory first when modules are named."""
    entries = [entry for entry in sys.path if entry]
    return [str(Path.cwd()), *entries] if modules else entries


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return ours, theirs
