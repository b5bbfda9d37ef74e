"""The client knows its words without the server's modules: they are compared here."""

from crawlfleet.client.types import FINAL_STATUSES
from crawlfleet.model import status


def test_the_client_and_the_server_name_the_same_final_statuses() -> None:
    assert {one.word for one in status.FINAL_STATUSES} == FINAL_STATUSES
