"""Tokens, for admins: made, listed, given another secret, revoked."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from fastapi import Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.errors import problem_response
from crawlfleet.api.http.idempotency import IdempotencyKey, make_body_claim
from crawlfleet.api.http.parameters import Body, Name, Text
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time, instant_text
from crawlfleet.control.admin.tokens import USES_MAX, IssuedToken, TokenAlreadyMade
from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.principal import Principal, Role, TokenRecord

routes = RouteTable("tokens", PREFIX)

_SPAN = re.compile(r"(\d{1,9})([smhdw])")
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST_S = 10 * 366 * 86_400

TokenInPath = Annotated[int, Path(ge=1, le=(1 << 63) - 1)]


class TokenBody(Body):
    role: Literal["viewer", "operator", "admin", "enrol", "metrics"]
    name: Annotated[Name, Field(min_length=1)] | None = None
    uses: Annotated[int, Field(ge=1, le=USES_MAX)] | None = None
    """How many nodes may join with it; only for `enrol`. null: any number."""
    expires_in: Annotated[Text, Field(max_length=20, examples=["24h"])] | None = None
    """A number with `s`, `m`, `h`, `d` or `w`. null: never."""


class TokenView(msgspec.Struct, frozen=True):
    id: int
    role: str
    name: str
    is_usable: bool
    created_at: Time
    created_by: str
    expires_at: Time | None
    uses_left: int | None
    last_used_at: Time | None
    rotated_at: Time | None
    revoked_at: Time | None


class IssuedTokenView(msgspec.Struct, frozen=True):
    token: str
    """Told this once; only a hash of it is kept."""
    id: int
    role: str
    name: str
    expires_at: Time | None
    uses_left: int | None


class TokenList(msgspec.Struct, frozen=True):
    tokens: list[TokenView]


@routes.post("/tokens", ResponseSpec(IssuedTokenView, "Made.", {"Location": "Where it is."}), status=201, name="create")
async def create_token(
    request: Request,
    body: TokenBody,
    services: TheServices,
    idempotency_key: IdempotencyKey = None,
    principal: Principal = allow(Role.ADMIN),
) -> Response:
    """Make a token. Its secret is in this answer and nowhere else: the same request again, under its
    `Idempotency-Key`, is 409 `token_already_made` with the `token_id`, and `:rotate` gives that token a new secret."""
    now = services.clock.now()
    expires_at = None if body.expires_in is None else now + parse_span_ms(body.expires_in, field="expires_in")
    try:
        issued = await services.tokens.create_token(
            Role.of_word(body.role),
            name=body.name or body.role,
            by=principal,
            expires_at=expires_at,
            uses=body.uses,
            claim=make_body_claim("tokens", principal, idempotency_key, body, now),
        )
    except TokenAlreadyMade as exc:
        where = {"Location": f"{PREFIX}/tokens/{exc.token}"}
        return problem_response(409, exc.code, str(exc), headers=where, extra={"token_id": exc.token})
    made = issued.record
    details = {"role": body.role, "name": made.name, "uses": body.uses, "expires_in": body.expires_in}
    await write_audit_entry(request, principal, "token.create", str(made.id), details)
    return json_response(_issued_token_view(issued), 201, {"Location": f"{PREFIX}/tokens/{made.id}"})


@routes.get("/tokens", TokenList)
async def list_tokens(services: TheServices, _: Principal = allow(Role.ADMIN)) -> Response:
    """All of them, newest first, without their secrets."""
    now = services.clock.now()
    return json_response(TokenList([_token_view(record, now) for record in await services.tokens.list_tokens()]))


@routes.delete("/tokens/{token_id}", status=204, name="revoke")
async def revoke_token(
    request: Request, token_id: TokenInPath, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """It stops within two seconds on every master. Doing it again changes nothing."""
    await services.tokens.revoke_token(token_id)
    await write_audit_entry(request, principal, "token.revoke", str(token_id))
    return empty_response()


@routes.post("/tokens/{token_id}:rotate", IssuedTokenView, name="rotate")
async def rotate_token(
    request: Request, token_id: TokenInPath, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """The same token under another secret; the old one is over."""
    issued = await services.tokens.rotate_token(token_id, by=principal)
    await write_audit_entry(request, principal, "token.rotate", str(token_id))
    return json_response(_issued_token_view(issued))


def parse_span_ms(text: str, *, field: str) -> int:
    """`90s`, `15m`, `24h`, `7d`, `2w`."""
    match = _SPAN.fullmatch(text)
    seconds = int(match[1]) * _UNIT_S[match[2]] if match and text.isascii() else 0
    if not 0 < seconds <= _LONGEST_S:
        raise InvalidInput("a number with s, m, h, d or w, such as 24h; at most ten years", field=field)
    return seconds * 1000


def _issued_token_view(issued: IssuedToken) -> IssuedTokenView:
    made = issued.record
    return IssuedTokenView(
        issued.secret, made.id, made.role.word, made.name, instant_text(made.expires_at), made.uses_left
    )


def _token_view(record: TokenRecord, now: Instant) -> TokenView:
    return TokenView(
        record.id,
        record.role.word,
        record.name,
        record.is_usable(now),
        to_text(record.created_at),
        record.created_by,
        instant_text(record.expires_at),
        record.uses_left,
        instant_text(record.last_used_at),
        instant_text(record.rotated_at),
        instant_text(record.revoked_at),
    )
