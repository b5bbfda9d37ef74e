"""The end of a certificate, read from files that openssl made."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crawlfleet.bootstrap.certificate_end import CertificateUnreadable, read_certificate_end


@pytest.mark.parametrize("days", [30, 20_000])
def test_the_end_is_the_one_that_openssl_wrote(tmp_path: Path, days: int) -> None:
    path = tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(tmp_path / "key.pem"), "-out", str(path), "-days", str(days), "-subj", "/CN=x"]
    subprocess.run(command, check=True, capture_output=True)
    expected = datetime.now(UTC) + timedelta(days=days)
    assert abs(read_certificate_end(path) / 1000 - expected.timestamp()) < 60


@pytest.mark.parametrize("body", ["", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(tmp_path: Path, body: str) -> None:
    path = tmp_path / "cert.pem"
    path.write_text(body)
    with pytest.raises(CertificateUnreadable):
        read_certificate_end(path)


def test_a_file_that_is_missing_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_certificate_end(tmp_path / "missing.pem")
