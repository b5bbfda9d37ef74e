"""`crawlfleet token`: who may call, and as what."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from crawlfleet.cli.command import Call, api_command

app = typer.Typer(no_args_is_help=True)

TokenId = Annotated[int, typer.Argument(help="The token's number: crawlfleet token list shows it.", show_default=False)]


class Role(StrEnum):
    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"
    ENROL = "enrol"
    METRICS = "metrics"


@api_command(
    app,
    "create",
    "crawlfleet token create --role operator --name ci",
    "crawlfleet token create --role enrol --uses 10 --expires 24h --json",
    "crawlfleet token create --role metrics --name prometheus",
)
def create_token(
    call: Call,
    role: Annotated[
        Role, typer.Option("--role", help="What it allows; enrol lets nodes join, metrics reads /metrics only.")
    ],
    name: Annotated[str | None, typer.Option("--name", help="A name, for lists and the audit log.")] = None,
    uses: Annotated[int | None, typer.Option("--uses", help="Of an enrol token: how many nodes may join.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Until when: 90s, 15m, 24h, 7d, 2w.")] = None,
) -> None:
    """Create a token and print it. It is shown this once: only a hash of it is kept."""
    issued = call.client.create_token(role.value, name=name, uses=uses, expires_in=expires)
    call.out.print_answer(issued, issued.token)


@api_command(app, "list", "crawlfleet token list")
def list_tokens(call: Call) -> None:
    """List the tokens, without their secrets."""
    call.out.print_listing(
        "tokens",
        call.client.tokens(),
        ("ID", "ROLE", "NAME", "USABLE", "USES LEFT", "EXPIRES", "LAST USED", "CREATED BY"),
        lambda token: (
            token.id,
            token.role,
            token.name,
            token.is_usable,
            token.uses_left,
            token.expires_at,
            token.last_used_at,
            token.created_by,
        ),
        prose=("NAME",),
        drop=("CREATED BY", "LAST USED", "USES LEFT", "EXPIRES"),
    )


@api_command(app, "rotate", "crawlfleet token rotate 3")
def rotate_token(call: Call, token_id: TokenId) -> None:
    """Give a token another secret and print it; the old one is over."""
    issued = call.client.rotate_token(token_id)
    call.out.print_answer(issued, issued.token)


@api_command(app, "revoke", "crawlfleet token revoke 3")
def revoke_token(call: Call, token_id: TokenId) -> None:
    """End a token."""
    call.client.revoke_token(token_id)
    call.out.print_answer({"revoked": token_id}, f"{token_id}: revoked")
