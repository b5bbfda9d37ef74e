"""Checks of what people care for: each says its sentence when its cause is there."""

from crawlfleet.model.principal import Role
from crawlfleet.scheduling.doctor.findings import FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import AccessPart, AlertPart, BackupPart, FilePart, OpenFile
from tests.unit.scheduling.doctor.doctor_kit import DAY_MS, HOUR_MS, NOW, channel, only_problem, problems, token

FIRST = "first admin"


def access(*tokens: object) -> AccessPart:
    return AccessPart(tokens, FIRST)  # type: ignore[arg-type]


def test_the_first_admin_token_in_use_is_a_note_while_it_is_the_only_one() -> None:
    first = token(1, name=FIRST, last_used_at=NOW - HOUR_MS, expires_at=None)
    assert only_problem("D28", access=access(first)).severity is FindingSeverity.NOTE
    assert problems("D28", access=access(first, token())) == []
    assert problems("D28", access=access(token(1, name=FIRST, last_used_at=NOW - 2 * DAY_MS))) == []


def test_tokens_that_never_end_are_told() -> None:
    finding = only_problem("D28", access=access(token(3, Role.OPERATOR, "ci", expires_at=None)))
    assert finding.sentence == "1 token of admins and operators never end: ci (3)"
    assert problems("D28", access=access(token(3, Role.VIEWER, expires_at=None))) == []


def test_an_endless_enrol_token_is_a_warning() -> None:
    finding = only_problem("D28", access=access(token(4, Role.ENROL, "all", expires_at=None)))
    assert finding.severity is FindingSeverity.WARNING
    assert finding.hint.startswith("crawlfleet token revoke 4")
    assert problems("D28", access=access(token(4, Role.ENROL, expires_at=None, uses_left=1))) == []


def test_a_secret_that_others_may_read_is_an_error() -> None:
    finding = only_problem("D28", files=FilePart(open_files=[OpenFile("/data/admin.token", 0o644)]))
    assert finding.severity is FindingSeverity.ERROR
    assert finding.sentence == "others may read /data/admin.token (mode 644)"
    assert finding.hint == "chmod go-rwx /data/admin.token"


def test_alerts_that_arrive_nowhere_are_told() -> None:
    assert only_problem("D29", alerts=AlertPart([])).severity is FindingSeverity.NOTE
    failing = channel(failures=3, failing_since=NOW - 2 * HOUR_MS, last_answer="errcode 310000")
    finding = only_problem("D29", alerts=AlertPart([failing]))
    assert finding.sentence == "the last delivery by alert channel ops failed for 2 hours: errcode 310000"
    assert finding.hint == "crawlfleet alert channel test ops"
    gone = channel(is_enabled=False, disabled_why="410 Gone")
    assert [each.severity for each in problems("D29", alerts=AlertPart([gone]))] == [
        FindingSeverity.NOTE,
        FindingSeverity.WARNING,
    ]


def test_an_old_or_missing_backup_is_told() -> None:
    finding = only_problem("D30", backups=BackupPart(NOW - 9 * DAY_MS, None))
    assert finding.sentence == "the newest backup is 9 days old"
    assert only_problem("D30", backups=BackupPart(None, NOW - 2 * DAY_MS)).sentence == "there is no backup"
    assert problems("D30", backups=BackupPart(None, NOW - HOUR_MS)) == [], "the installation is new"
