"""Calls for tokens: create, list, rotate, revoke."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.client._generated.models import IssuedTokenView, TokenList, TokenView
from crawlfleet.client.errors import ApiError
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.types import Role


class TokenCalls(Calls):
    async def create_token(
        self, role: Role, *, name: str | None = None, uses: int | None = None, expires_in: str | None = None
    ) -> IssuedTokenView:
        """Its secret is in this answer and nowhere else. `expires_in`: 90s, 15m, 24h, 7d, 2w."""
        fields = {"role": role, "name": name, "uses": uses, "expires_in": expires_in}
        body = {name: value for name, value in fields.items() if value is not None}
        try:
            return await self._transport.create(IssuedTokenView, "/tokens", body)
        except ApiError as exc:
            token_id = exc.more.get("token_id")
            if exc.error_code != "token_already_made" or not isinstance(token_id, int):
                raise
            # The first answer was lost, and the secret with it: the key was this call's own, so the token is too.
            return await self.rotate_token(token_id)

    async def tokens(self) -> Sequence[TokenView]:
        return (await self._transport.get(TokenList, "/tokens")).tokens

    async def rotate_token(self, token_id: int) -> IssuedTokenView:
        """The same token under another secret; the old one is over."""
        return await self._transport.change(IssuedTokenView, "POST", f"/tokens/{quote_segment(token_id)}:rotate")

    async def revoke_token(self, token_id: int) -> None:
        return await self._transport.change(
            type(None), "DELETE", f"/tokens/{quote_segment(token_id)}", is_repeatable=True
        )
