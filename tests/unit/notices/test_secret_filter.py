"""Secrets are hidden in every spelling."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest

from crawlfleet.notices.secret_filter import SecretFilter

SECRET = 'p+/w =&"ä'


@pytest.mark.parametrize(
    "spelling", [SECRET, quote(SECRET), quote_plus(SECRET), quote(SECRET, safe=""), json.dumps(SECRET)]
)
def test_every_spelling_is_hidden(spelling: str) -> None:
    shown = SecretFilter([SECRET]).hide(f"before {spelling} after")
    assert "***" in shown
    assert SECRET not in shown
    assert quote_plus(SECRET) not in shown


def test_the_parts_of_an_address_are_secrets_too_but_not_its_host() -> None:
    hidden = SecretFilter(["https://hooks.example/services/T0AAA1111/c3d4e5f6a7b8?key=0123456789"])
    shown = hidden.hide("no c3d4e5f6a7b8 with key=0123456789 at hooks.example/services/T0AAA1111/c3d4e5f6a7b8")
    assert shown == "no *** with *** at hooks.example***"


def test_nothing_is_hidden_without_secrets() -> None:
    assert SecretFilter(["", "http://[broken"]).hide("status 500") == "status 500"
