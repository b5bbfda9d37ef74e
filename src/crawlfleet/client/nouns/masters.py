"""Calls for masters: which there are, and the checks of the installation."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.client._generated.models import DoctorView, MastersView, MasterView
from crawlfleet.client.nouns.base import Calls


class MasterListCalls(Calls):
    async def masters(self) -> Sequence[MasterView]:
        """The masters that are alive, and silent ones that were not started again; the newest start first."""
        return (await self._transport.get(MastersView, "/masters")).masters

    async def doctor(self, only: Sequence[str] = ()) -> DoctorView:
        """The checks of the installation, made on the master: all, or those of these ids and areas."""
        return await self._transport.get(DoctorView, "/doctor", {"only": ",".join(only)} if only else {})
