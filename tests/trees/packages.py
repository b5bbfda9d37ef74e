"""Debian's packages of documentation, and a web server: downloaded and unpacked in a folder, installed nowhere."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Tree(NamedTuple):
    name: str
    package: str
    html: str
    """Where its pages are, in the package."""
    closed: tuple[str, ...] = ()
    """What the robots.txt it is served with disallows."""

    @property
    def robots(self) -> str:
        return "User-agent: *\n" + "".join(f"Disallow: {path}\n" for path in self.closed or ("",))


TREES = (
    Tree("python3-doc", "python3.11-doc", "usr/share/doc/python3.11/html", ("/distutils/", "/whatsnew/2.")),
    Tree("postgresql-doc", "postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html", ("/release-15",)),
)
OTHERS = (
    Tree("sqlite3-doc", "sqlite3-doc", "usr/share/doc/sqlite3"),
    Tree("git-doc", "git-doc", "usr/share/doc/git-doc"),
    Tree("apache2-doc", "apache2-doc", "usr/share/doc/apache2-doc/manual"),
    Tree("django-doc", "python-django-doc", "usr/share/doc/python-django-doc/html"),
    Tree("libstdc++-doc", "libstdc++-12-doc", "usr/share/doc/gcc-12-base/libstdc++"),
    Tree("openjdk-doc", "openjdk-17-doc", "usr/share/doc/openjdk-17-jre-headless/api"),
)
"""Crawled where they are asked for by name: other generators, other habits."""
SERVER = ("nginx", "nginx-common")


class Missing(Exception):
    """What this machine does not give, and how to get it."""


def unpacked(folder: Path, trees: Sequence[Tree]) -> Path:
    """The root that holds all of them; what is there already is not fetched again."""
    for tool, package in (("apt-get", "apt"), ("dpkg-deb", "dpkg"), ("wget", "wget")):
        if shutil.which(tool) is None:
            raise Missing(f"{tool} is not here\n  hint: on Debian or Ubuntu, apt-get install {package}")
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "root"
    names = [*SERVER, *(tree.package for tree in trees)]
    wanted = [name for name in names if not list(folder.glob(f"{name}_*.deb"))]
    if wanted:
        _download(wanted, folder)
    for name in names:
        _run(["dpkg-deb", "--extract", str(next(folder.glob(f"{name}_*.deb"))), str(root)], folder)
    return root


def _download(names: Sequence[str], folder: Path) -> None:
    try:
        _run(["apt-get", "download", *names], folder)
    except Missing:
        # Its lists may be older than the packages: of use only where we may renew them.
        _run(["apt-get", "update"], folder)
        _run(["apt-get", "download", *names], folder)


def _run(argv: list[str], folder: Path) -> None:
    ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Missing(f"{' '.join(argv)} failed:\n{ended.stderr.strip()}")
