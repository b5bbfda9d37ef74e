"""The record of a nasty behaviour: its path, what it does, and what a good crawler does with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crawlfleet.demo_shop.http_messages import write_response
from testkit.site.connection import Answerer

PREFIX = "/nasty/"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One nasty behaviour."""

    path: str
    """Path for which it answers, with all paths below it."""
    does: str
    """Description of what it does, for the documentation."""
    good: str
    """Description of what a good crawler does, for the documentation."""
    answer: Answerer


class Family:
    """Behaviours of one kind, in one file, under one path."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.behaviours: list[Behaviour] = []

    def path(self, name: str) -> str:
        return f"{PREFIX}{self.name}/{name}"

    def add(self, name: str, does: str, good: str, answer: bytes | Answerer) -> None:
        answerer = _always(answer) if isinstance(answer, bytes) else answer
        self.behaviours.append(Behaviour(self.path(name), does, good, answerer))

    def answers(self, name: str, does: str, good: str) -> Callable[[Answerer], Answerer]:
        """Return a decorator that adds a function as a behaviour."""

        def register(answerer: Answerer) -> Answerer:
            self.add(name, does, good, answerer)
            return answerer

        return register


def _always(answer: bytes) -> Answerer:
    return lambda _: answer


def simple_page(title: str, body: str = "") -> str:
    return (
        f'<!doctype html><html lang="en"><head><title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>'
    )


def moved(location: str, status: int = 302) -> bytes:
    return write_response(status, b"", [("Location", location)])


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def ok(title: str, body: str = "") -> bytes:
    return write_response(200, simple_page(title, body))
