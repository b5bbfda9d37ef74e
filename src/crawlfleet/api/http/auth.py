"""Authentication and authorization: who calls, and whether the caller may.

A token makes a Principal; each route checks its role. It comes as `Authorization: Bearer` or as `X-API-Key`. Wrong
tokens are counted by address: after too many of them the address has to wait, except for tokens that have been valid
there before, so that one misconfigured agent does not lock out the other nodes behind the same address.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from fastapi import Depends
from fastapi.security import HTTPBearer
from starlette.requests import HTTPConnection, Request
from starlette.types import Scope

from crawlfleet.api.http.connection_table import CallerConnection
from crawlfleet.api.http.errors import NotAuthenticated, RoleTooLow, TooManyAttempts
from crawlfleet.api.http.services import Services, get_services
from crawlfleet.api.http.settings import ApiSettings
from crawlfleet.control.admin.tokens import hash_secret
from crawlfleet.errors import InvalidInput, NotAllowed, Unavailable
from crawlfleet.model.principal import Principal, Role

WINDOW_S = 60.0
_MAX_ADDRESSES = 10_000
_MAX_PROOFS = 10_000
_MAX_REPORTED = 100
"""Maximum number of addresses, or of refused principals, that are written to the audit log in a minute."""
_SECRET_CHARS = 200
_TARGET_CHARS = 200

JOIN_PATHS = ("/api/v1/nodes:register", "/api/distribution/devices/register")
METRICS_PATHS = ("/metrics", "/metrics/installation")
"""Paths that a metrics token opens."""
_GENERAL_ROLES = tuple(role for role in Role if role is not Role.METRICS)
API_KEY_HEADER = b"x-api-key"


class NotFromHere(NotAllowed):
    code = "address_not_allowed"


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    principal: Principal
    address: str
    secret: str
    """Secret as it was sent, for a token whose uses are counted."""


class AuditRateLimit:
    """Rate limit of audit entries: each subject once a minute, and a limited number of subjects in all."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._reported_at: dict[str, float] = {}

    def may_report(self, subject: str) -> bool:
        now = self._monotonic()
        self._reported_at = {
            reported: instant for reported, instant in self._reported_at.items() if instant > now - WINDOW_S
        }
        # A caller with many addresses must not fill the disk with them either.
        if subject in self._reported_at or len(self._reported_at) >= _MAX_REPORTED:
            return False
        self._reported_at[subject] = now
        return True


class FailedAttempts:
    """Wrong tokens by address in a sliding window; kept in memory, for a limited number of addresses."""

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self.limit = limit
        self._monotonic = monotonic
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._reports = AuditRateLimit(monotonic)

    def wait_s(self, address: str) -> float:
        """Return how many seconds the address has to wait until its next attempt is accepted; 0 for none."""
        times = self._failed.get(address)
        if times is None:
            return 0.0
        since = self._monotonic() - WINDOW_S
        while times and times[0] <= since:
            times.popleft()
        if not times:
            del self._failed[address]
        return times[0] - since if len(times) >= self.limit else 0.0

    def count_failure(self, address: str) -> bool:
        """Count a wrong token. Returns whether it is to be reported: the attempts are too many, and the address was not
        reported in the last minute."""
        times = self._failed.setdefault(address, deque(maxlen=self.limit))
        times.append(self._monotonic())
        self._failed.move_to_end(address)
        if len(self._failed) > _MAX_ADDRESSES:
            self._failed.popitem(last=False)
        return len(times) == self.limit and self._reports.may_report(address)


class Gate:
    """The state of authentication that is remembered between requests."""

    def __init__(self, settings: ApiSettings, services: Services) -> None:
        self._services = services
        self._networks: Sequence[IPv4Network | IPv6Network] = [ip_network(str(n)) for n in settings.allowed_networks]
        self._attempts = FailedAttempts(settings.failed_attempts_per_minute, services.clock.monotonic)
        self._proven: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._refused = AuditRateLimit(services.clock.monotonic)

    async def identify_caller(self, scope: Scope) -> RequestIdentity:
        """Identify the caller of a request. Raises NotAuthenticated, TooManyAttempts, NotAllowed, or InvalidInput for
        two headers with different tokens."""
        client = scope.get("client")
        address = client[0] if client else ""
        if self._networks and not self._is_allowed(address):
            raise NotFromHere(f"calls from {address} are not allowed")
        secret = _read_token(scope)
        proof = (address, secret_hash := hash_secret(secret))
        is_proven = proof in self._proven
        if is_proven and (trusted := self._services.tokens.find_trusted(secret_hash)) is not None:
            _identify_connection(scope)
            return await self._admit_caller(RequestIdentity(trusted, address, secret), scope)
        if not is_proven and (wait_s := self._attempts.wait_s(address)):
            raise TooManyAttempts(f"too many wrong tokens from {address}", retry_after_s=wait_s)
        try:
            principal = await self._services.tokens.authenticate(secret, is_joining=_is_joining(scope))
        except NotAllowed as exc:
            self._proven.pop(proof, None)
            if self._attempts.count_failure(address):
                await self._note_limit(address)
            raise NotAuthenticated("this token is not valid") from exc
        self._remember_proof(proof)
        _identify_connection(scope)
        return await self._admit_caller(RequestIdentity(principal, address, secret), scope)

    async def _admit_caller(self, identity: RequestIdentity, scope: Scope) -> RequestIdentity:
        """Refuse a metrics token on all paths but its own; other roles are checked by the routes."""
        if identity.principal.role is Role.METRICS and scope["path"] not in METRICS_PATHS:
            await self.note_refused(identity, scope)
            raise RoleTooLow(f"a token of role metrics reads {' and '.join(METRICS_PATHS)} only")
        return identity

    async def _note_limit(self, address: str) -> None:
        # One entry for all attempts: a caller that guesses must not fill the disk, nor find out that it is full.
        with contextlib.suppress(Unavailable):
            await self._services.audit.write_entry(
                None, address, "token.refused", address, {"attempts": self._attempts.limit}
            )

    async def note_refused(self, identity: RequestIdentity, scope: Scope) -> None:
        """Write an audit entry, at most once a minute, for an identified caller that tried what its role does not
        allow."""
        who = identity.principal
        if self._refused.may_report(f"{who.token}:{who.node}"):
            with contextlib.suppress(Unavailable):
                target = f"{scope.get('method', 'GET')} {scope['path']}"[:_TARGET_CHARS]
                await self._services.audit.write_entry(
                    who, identity.address, "role.refused", target, {"role": who.role.word}
                )

    def _is_allowed(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        # A dual-stack socket shows IPv4 callers as ::ffff:a.b.c.d.
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in self._networks)

    def _remember_proof(self, proof: tuple[str, str]) -> None:
        self._proven[proof] = None
        self._proven.move_to_end(proof)
        if len(self._proven) > _MAX_PROOFS:
            self._proven.popitem(last=False)


def _identify_connection(scope: Scope) -> None:
    """Mark the connection as identified: from here on it is not counted among those of callers without a token."""
    connection: CallerConnection | None = scope.get("state", {}).get("connection")
    if connection is not None and not connection.is_identified:
        connection.identify()


def caller_address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client is not None else ""


async def load_identity(connection: HTTPConnection) -> RequestIdentity:
    """Return the identity of the caller, found once per request, before its body is read."""
    state = connection.scope.setdefault("state", {})
    identity = state.get("identity")
    if not isinstance(identity, RequestIdentity):
        gate: Gate = connection.app.state.gate
        state["identity"] = identity = await gate.identify_caller(connection.scope)
    return identity


async def require_principal(request: HTTPConnection, *roles: Role) -> Principal:
    """Return the principal of a request, for plain routes. With roles it checks them as `allow` does; without, any
    role but that of metrics will do."""
    identity = await load_identity(request)
    try:
        require_role(identity.principal, *roles or _GENERAL_ROLES)
    except RoleTooLow:
        gate: Gate = request.app.state.gate
        await gate.note_refused(identity, request.scope)
        raise
    return identity.principal


def require_role(principal: Principal, *roles: Role) -> None:
    """Raise NotAllowed unless the principal has one of the roles, or one of people's roles above it."""
    if principal.role in roles or any(principal.is_at_least(role) for role in roles):
        return
    wanted = " or ".join(role.word for role in roles)
    raise RoleTooLow(f"this needs a token of role {wanted}, and yours has role {principal.role.word}")


BEARER_SCHEME = HTTPBearer(scheme_name="bearer", auto_error=False, description="A token of `crawlfleet token create`.")


def allow(*roles: Role) -> Any:
    """Declare a dependency on the caller's role: `principal: Principal = allow(Role.OPERATOR)` allows that role or a
    higher one of people; nodes only where named."""

    async def principal(connection: HTTPConnection, _: object = Depends(BEARER_SCHEME)) -> Principal:
        return await require_principal(connection, *roles)

    return Depends(principal)


async def write_audit_entry(
    request: Request, principal: Principal, action: str, target: str, details: Mapping[str, Any] | None = None
) -> None:
    """Write an audit entry for a change by a person, once it has happened."""
    await get_services(request).audit.write_entry(
        principal, caller_address(request), action, target, dict(details or {})
    )


def _is_joining(scope: Scope) -> bool:
    """Return whether the request is a registration. There a used up enrol token may still repeat one whose answer was
    lost; the route decides."""
    return bool(scope["path"] in JOIN_PATHS and scope["method"] == "POST")


def _read_token(scope: Scope) -> str:
    """Return the token of either header. Raises InvalidInput when the headers hold different tokens: each of them names
    a caller, and neither choice would be right."""
    bearer = api_key = b""
    for name, value in scope["headers"]:
        if name == b"authorization" and not bearer:
            scheme, _, credentials = value.partition(b" ")
            bearer = credentials.strip() if scheme.lower() == b"bearer" else b""
        elif name == API_KEY_HEADER and not api_key:
            api_key = value.strip()
    if bearer and api_key and bearer != api_key:
        raise InvalidInput("it differs from the token in Authorization: send one of the two", field="X-API-Key")
    secret = bearer or api_key
    if not secret:
        raise NotAuthenticated("a token is needed, as Authorization: Bearer or as X-API-Key")
    if len(secret) > _SECRET_CHARS or not secret.isascii():
        raise NotAuthenticated("this token is not valid")
    return str(secret, "ascii")
