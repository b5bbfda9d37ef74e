"""Finds the master to call and the token: as given, from the environment, or from a data dir on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from crawlfleet.client.errors import NoEndpoint

ADDRESS_FILE = "address"
TOKEN_FILE = "admin.token"
DEFAULT_DATA_DIR = Path("~/.local/share/crawlfleet")


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: str
    token: str
    url_source: str = "given"
    token_source: str = "given"

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, token from {self.token_source})"


def find_endpoint(url: str | None, token: str | None, data_dir: Path | None = None) -> Endpoint:
    """Return the endpoint. Raises NoEndpoint with a hint when the data dir does not have what was not given."""
    folder = (data_dir or DEFAULT_DATA_DIR).expanduser()
    url_source = token_source = "given"
    if not url:
        url, url_source = _read_file(folder / ADDRESS_FILE, "address of a master", "--url, CRAWLFLEET_URL")
    if not token:
        token, token_source = _read_file(folder / TOKEN_FILE, "token", "--token, CRAWLFLEET_TOKEN")
    return Endpoint(url.rstrip("/"), token, url_source, token_source)


def endpoint_from_environment(env: Mapping[str, str] | None = None) -> Endpoint:
    env = os.environ if env is None else env
    data_dir = env.get("CRAWLFLEET_DATA_DIR")
    return find_endpoint(env.get("CRAWLFLEET_URL"), env.get("CRAWLFLEET_TOKEN"), Path(data_dir) if data_dir else None)


def _read_file(path: Path, what: str, ways: str) -> tuple[str, str]:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        hint = f"give one by {ways}, or point --data-dir at an installation; crawlfleet standalone starts one"
        raise NoEndpoint(f"no {what} was given, and there is no {path}", hint) from None
    except (OSError, UnicodeDecodeError) as exc:
        raise NoEndpoint(f"the {what} in {path} cannot be read: {exc}", f"give one by {ways}") from exc
    if not text:
        raise NoEndpoint(f"{path} is empty", f"give a {what} by {ways}")
    return text, str(path)
