"""The user and the directory of a server of the test kit: PostgreSQL refuses to run as root, and no server needs to."""

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from testkit.servers.process import ServerFailed

NOBODY = "nobody"


def server_user() -> str | None:
    """Return the user to change to, or None when the current one is unprivileged."""
    return NOBODY if os.geteuid() == 0 else None


def run_as_server(command: Sequence[str | Path], cwd: Path = Path("/")) -> None:
    user = server_user()
    done = subprocess.run(
        command,
        cwd=cwd,
        user=user,
        group=pwd.getpwnam(user).pw_gid if user else None,
        extra_groups=[] if user else None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ServerFailed(f"{command[0]} ended with {done.returncode}\n{done.stdout}{done.stderr}")


def new_directory(prefix: str, base: Path | None) -> Path:
    """Make a directory that belongs to the server's user, in the first location which that user can reach."""
    places = [base] if base else [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    user = server_user()
    for place in places:
        if user is None:
            return Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        if _is_open_to_all(place):
            directory = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            os.chown(directory, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
            return directory
    raise ServerFailed(f"the user {user} can reach none of: {', '.join(map(str, places))}")


def _is_open_to_all(folder: Path) -> bool:
    folder = folder.resolve()
    return all(place.stat().st_mode & stat.S_IXOTH for place in (folder, *folder.parents))


def wheel_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ServerFailed(f"the package {package} is not installed\nhint: make setup")
    return Path(spec.submodule_search_locations[0])


def runnable(program: Path, root: Path, needs: Iterable[Path], directory: Path) -> Path:
    """Return the program where the server's user can run it: in place, or in a copy when the venv is, say, below /root.

    `needs` are the folders to copy, all below `root`: programs in wheels find their libraries by relative paths.
    """
    try:
        run_as_server([program, "--version"])
        return program
    except (PermissionError, ServerFailed):
        copy = directory / "programs"
    for folder in needs:
        shutil.copytree(folder, copy / folder.relative_to(root), symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
    program = copy / program.relative_to(root)
    run_as_server([program, "--version"])
    return program
