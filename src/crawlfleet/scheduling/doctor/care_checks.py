"""Checks of what people have to care for: tokens, secret files, alert channels and backups."""

from __future__ import annotations

from collections.abc import Iterator

from crawlfleet.model.instants import Instant
from crawlfleet.model.principal import Role
from crawlfleet.scheduling.doctor.findings import FoundProblem, error, note, warning
from crawlfleet.scheduling.doctor.snapshot import AccessPart, AlertPart, BackupPart, FilePart, Unchecked
from crawlfleet.scheduling.doctor.wording import count_text, list_names, span_text

RECENT_MS = 86_400_000
OLD_BACKUP_MS = 7 * 86_400_000
NEW_INSTALLATION_MS = 86_400_000
_POWERFUL = (Role.ADMIN, Role.OPERATOR)


def find_weak_access(access: AccessPart, files: FilePart | Unchecked, now: Instant) -> Iterator[FoundProblem]:
    if isinstance(files, FilePart):
        for file in files.open_files:
            yield error(f"others may read {file.path} (mode {file.mode:o})", f"chmod go-rwx {file.path}")
    first = [token for token in access.tokens if token.role is Role.ADMIN and token.name == access.first_admin]
    used = [token for token in first if token.last_used_at is not None and now - token.last_used_at < RECENT_MS]
    others = [token for token in access.tokens if token.role is Role.ADMIN and token not in first]
    if used and not others:
        yield note(
            "the first admin token is in use, and it is the only one",
            "crawlfleet token create --role admin --name NAME for each person, with an expiry",
        )
    endless = [token for token in access.tokens if token.role in _POWERFUL and token.expires_at is None]
    endless = [token for token in endless if token not in first]
    if endless:
        names = list_names([f"{token.name} ({token.id})" for token in endless])
        yield note(
            f"{count_text(len(endless), 'token')} of admins and operators never end: {names}",
            f"crawlfleet token rotate {endless[0].id}, or make new ones with --expires",
        )
    enrol = [
        token
        for token in access.tokens
        if token.role is Role.ENROL and token.expires_at is None and token.uses_left is None
    ]
    if enrol:
        names = list_names([f"{token.name} ({token.id})" for token in enrol])
        yield warning(
            f"an enrol token never ends and may be used any number of times: {names}",
            f"crawlfleet token revoke {enrol[0].id}; make one with --uses 1 or --expires",
        )


def find_failing_channels(alerts: AlertPart, now: Instant) -> Iterator[FoundProblem]:
    enabled = [channel for channel in alerts.channels if channel.is_enabled]
    if not enabled:
        yield note("no alert goes anywhere: there is no channel", "crawlfleet alert channel kinds, then set")
    for channel in alerts.channels:
        if channel.disabled_why:
            yield warning(
                f"alert channel {channel.name} was disabled: {channel.disabled_why}",
                f"crawlfleet alert channel test {channel.name}",
            )
        elif channel.is_enabled and channel.failures:
            since = channel.failing_since
            span = "" if since is None else f" for {span_text((now - since) / 1000)}"
            yield warning(
                f"the last delivery by alert channel {channel.name} failed{span}: {channel.last_answer}",
                f"crawlfleet alert channel test {channel.name}",
            )


def find_old_backups(backups: BackupPart, now: Instant) -> Iterator[FoundProblem]:
    if backups.newest_at is None:
        is_new = backups.installed_at is not None and now - backups.installed_at < NEW_INSTALLATION_MS
        if not is_new:
            yield warning("there is no backup", "crawlfleet backup FOLDER")
    elif now - backups.newest_at > OLD_BACKUP_MS:
        days = (now - backups.newest_at) // 86_400_000
        yield warning(f"the newest backup is {days:,} days old", "crawlfleet backup FOLDER")
