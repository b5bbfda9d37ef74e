"""HTTP messages by hand: how requests are parsed or refused, and the form of an answer."""

from __future__ import annotations

import pytest

from crawlfleet.demo_shop.http_messages import Malformed, parse_request, write_response


def test_requests_are_parsed_or_refused() -> None:
    head = b"GET http://a.test/x?y=1&z= HTTP/1.0\r\nHOST: robots-404.a.test:80\r\nCookie: a=1; b; c=2"
    request = parse_request(head, ("::1", 5))
    assert (request.path, request.parameters) == ("/x", {"y": "1", "z": ""})
    assert (request.label, request.cookies, request.is_kept_alive) == ("robots-404", {"a": "1", "c": "2"}, False)
    for bad in (b"", b"GET /", b"GET / HTTP/2", b"\x16\x03\x01", b"GET  / HTTP/1.1"):
        with pytest.raises(Malformed):
            parse_request(bad, ("", 0))
    assert write_response(200, "é").endswith(b"Content-Length: 2\r\n\r\n\xc3\xa9")
