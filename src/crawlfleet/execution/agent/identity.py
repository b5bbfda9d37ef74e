"""The identity of the node: its id and secret, kept in its data directory so that a restart is the same node.

A join key is made and on disk before the first master is asked: an answer that gets lost is then no second node.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from crawlfleet.errors import ConfigError, InvalidInput
from crawlfleet.model.ids import NodeId, parse_id
from crawlfleet.settings.private_files import make_private_folder, write_private

FILE = "node.json"
LOCK = "agent.lock"


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The contents of the identity file."""

    join_key: str
    node_id: str = ""
    secret: str = ""
    masters: list[str] = []
    description_hash: str = msgspec.field(default="", name="told")
    """Hash of the description with which this node last registered."""
    enrolled_with: str = ""
    """Hash of the token it joined with: only another token makes it join again after it was removed."""
    is_registering: bool = False
    """Whether a register call is under way, whose answer with a new secret may have been lost."""

    @property
    def is_known(self) -> bool:
        return bool(self.node_id and self.secret)

    @property
    def node(self) -> NodeId:
        return parse_id(self.node_id, "node", field="node_id")


class IdentityFile:
    """The identity file in the node's data directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE

    def load(self) -> Identity:
        """Load the identity from disk, or make one for a new node. Raises ConfigError for a damaged file."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return Identity(join_key=secrets.token_hex(16))
        except OSError as exc:
            raise ConfigError(f"data_dir: {self.path} cannot be read: {exc.strerror}") from exc
        try:
            identity = msgspec.json.decode(text, type=Identity)
            if identity.is_known:
                _ = identity.node
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidInput) as exc:
            raise ConfigError(
                f"data_dir: {self.path} is damaged ({exc}); remove it to let the node join again as a new one"
            ) from exc
        return identity

    def save(self, identity: Identity) -> None:
        """Write the file atomically, readable only for its owner."""
        try:
            write_private(self.path, msgspec.json.format(msgspec.json.encode(identity)).decode())
        except OSError as exc:
            raise ConfigError(f"data_dir: {self.path} cannot be written: {exc.strerror}") from exc


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock the directory for one agent: two with one id would end each other's sessions for ever."""
    try:
        make_private_folder(directory)
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise ConfigError(f"data_dir: {directory} cannot be used: {exc.strerror}") from exc
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise ConfigError(f"data_dir: {directory} is in use by another agent; give each its own") from exc
        yield
    finally:
        os.close(descriptor)


def short_hash(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:32] if data else ""
