"""The settings of the command line, which calls a master."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import model_validator

from crawlfleet.settings.base import Settings, default_data_dir, setting
from crawlfleet.settings.values import Folder, Secret, Url


class ClientSettings(Settings):
    section: ClassVar[str] = "client"

    url: Url | None = setting(None, about="A master's address.", shown="from DATA_DIR/address")
    token: Secret | None = setting(
        None, about="The token to call with.", shown="from DATA_DIR/admin.token", secret=True
    )
    data_dir: Folder = setting(
        default_data_dir,
        about="An installation on this machine: its address and token are read when none is given.",
        shown="~/.local/share/crawlfleet",
    )
    ca_file: Folder | None = setting(None, about="Certificates (PEM) to trust instead of the system's.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        path: Path | None = self.ca_file
        if path is not None and not path.is_file():
            raise ValueError(f"ca_file: there is no file {path}")
        return self
