"""`crawlfleet token`: who may call, and as what."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from crawlfleet.cli.command import Call, api_command

if TYPE_CHECKING:
    from crawlfleet.client.models import IssuedTokenView

app = typer.Typer(no_args_is_help=True)

TokenId = Annotated[int, typer.Argument(help="The token's number: crawlfleet token list shows it.", show_default=False)]


class Role(StrEnum):
    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"
    ENROL = "enrol"


@api_command(
    app,
    "create",
    "crawlfleet token create --role operator --name ci",
    "crawlfleet token create --role enrol --uses 10 --expires 24h --json",
)
def create(
    call: Call,
    role: Annotated[Role, typer.Option("--role", help="What it allows; enrol lets nodes join.")],
    name: Annotated[str | None, typer.Option("--name", help="A name, for lists and the audit log.")] = None,
    uses: Annotated[int | None, typer.Option("--uses", help="Of an enrol token: how many nodes may join.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Until when: 90s, 15m, 24h, 7d, 2w.")] = None,
) -> None:
    """Create a token and print it. It is shown this once: only a hash of it is kept."""
    _print(call, call.client.create_token(role.value, name=name, uses=uses, expires_in=expires))


@api_command(app, "list", "crawlfleet token list")
def list_tokens(call: Call) -> None:
    """List the tokens, without their secrets."""
    tokens = call.client.tokens()
    if call.out.is_json:
        call.out.json({"tokens": tokens})
        return
    call.out.table(
        ("ID", "ROLE", "NAME", "USABLE", "USES LEFT", "EXPIRES", "LAST USED", "CREATED BY"),
        [
            (one.id, one.role, one.name, one.is_usable, one.uses_left, one.expires_at, one.last_used_at, one.created_by)
            for one in tokens
        ],
    )


@api_command(app, "rotate", "crawlfleet token rotate 3")
def rotate(call: Call, token_id: TokenId) -> None:
    """Give a token another secret and print it; the old one is over."""
    _print(call, call.client.rotate_token(token_id))


@api_command(app, "revoke", "crawlfleet token revoke 3")
def revoke(call: Call, token_id: TokenId) -> None:
    """End a token."""
    call.client.revoke_token(token_id)
    if call.out.is_json:
        call.out.json({"revoked": token_id})
    else:
        call.out.text(f"{token_id}: revoked")


def _print(call: Call, issued: IssuedTokenView) -> None:
    if call.out.is_json:
        call.out.json(issued)
    else:
        call.out.text(issued.token)
