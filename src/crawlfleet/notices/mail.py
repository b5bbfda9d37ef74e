"""Mail: a notice as text and HTML. Its Message-ID is the id of the notice, so that a copy can be recognised."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Notice, NoticeState, Severity
from crawlfleet.network.address_guard import AddressGuard, AddressRefused, as_address, plain_host
from crawlfleet.notices.channel_fields import check_host
from crawlfleet.notices.dialects import PLAIN, cut_title, lay_out, lay_out_html
from crawlfleet.notices.http_channel import hide_secrets
from crawlfleet.notices.secret_filter import SecretFilter
from crawlfleet.notices.smtp_session import SmtpRefused, SmtpSession
from crawlfleet.notices.texts import NoticeText, write_notice
from crawlfleet.ports.notice_channel import SEND_S, Delivery

RECIPIENTS_MAX = 50
TEXT_BYTES = 60_000
_SUBJECT_BYTES = 400
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_POLICY = SMTP.clone(cte_type="7bit")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_PRIORITIES = {Severity.CRITICAL: "urgent", Severity.WARNING: "normal", Severity.INFO: "non-urgent"}


@dataclass(frozen=True, slots=True)
class MailRoute:
    """A mail server, and who writes to whom."""

    host: str
    port: int
    security: str
    """`starttls`, `tls` or `none`."""
    username: str
    password: str
    sender: str
    recipients: Sequence[str]


class MailChannel:
    """Sends notices by SMTP, each over a connection of its own."""

    def __init__(
        self,
        route: MailRoute,
        guard: AddressGuard,
        language: Language,
        *,
        send_s: float = SEND_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._route = route
        self._guard = guard
        self._language = language
        self._send_s = send_s
        self._tls = tls
        self._secrets = SecretFilter([route.password])

    async def send(self, notice: Notice, now: Instant) -> Delivery:
        message = compose_mail(notice, self._route, self._language, now)
        try:
            async with asyncio.timeout(self._send_s):
                delivery = await self._deliver(message)
        except AddressRefused as exc:
            delivery = Delivery(is_delivered=False, answer=str(exc), is_permanent=True)
        except SmtpRefused as exc:
            is_lasting = exc.code is not None and exc.code >= 500
            delivery = Delivery(is_delivered=False, answer=str(exc), status=exc.code, is_permanent=is_lasting)
        except TimeoutError:
            delivery = Delivery(is_delivered=False, answer=f"no confirmation within {self._send_s:g} s")
        except ssl.SSLError as exc:
            reason = getattr(exc, "verify_message", "") or exc.reason or "failed"
            delivery = Delivery(is_delivered=False, answer=f"no TLS connection to {self._route.host}: {reason}")
        except OSError as exc:
            words = f"no connection to {self._route.host}:{self._route.port}: {exc.strerror or 'it was closed'}"
            delivery = Delivery(is_delivered=False, answer=words)
        return hide_secrets(delivery, self._secrets)

    async def close(self) -> None:
        """Hold nothing: each mail has a connection of its own."""

    async def _deliver(self, message: bytes) -> Delivery:
        route = self._route
        context = await asyncio.to_thread(ssl.create_default_context) if self._tls is None else self._tls
        connection = await self._connect()
        try:
            is_tls = route.security == "tls"
            reader, writer = await asyncio.open_connection(
                sock=connection, ssl=context if is_tls else None, server_hostname=route.host if is_tls else None
            )
        except BaseException:
            connection.close()
            raise
        try:
            session = SmtpSession(reader, writer, _local_name())
            await session.greet()
            if route.security == "starttls":
                await session.start_tls(context, route.host)
            if route.username:
                await session.sign_in(route.username, route.password)
            reply, refusals = await session.send_mail(route.sender, route.recipients, message)
            # The message is accepted: what happens to the connection from here on changes nothing.
            words = "; ".join([str(reply), *(f"refused {words}" for words in refusals)])
            return Delivery(is_delivered=True, answer=words, status=reply.code)
        finally:
            writer.transport.abort()

    async def _connect(self) -> socket.socket:
        """Connect to the first address that answers, of those that may be connected to."""
        host, port = self._route.host, self._route.port
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        failure: OSError | AddressRefused | None = None
        for info in infos:
            try:
                self._guard.check_address(host, port, str(info[4][0]))
                connection = self._guard.open_socket(info)
            except (OSError, AddressRefused) as exc:
                failure = failure or exc
                continue
            try:
                await loop.sock_connect(connection, info[4])
            except OSError as exc:
                connection.close()
                failure = exc
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise failure or OSError("the name has no address")


def compose_mail(notice: Notice, route: MailRoute, language: Language, now: Instant) -> bytes:
    """Compose the mail of a notice, in ASCII only."""
    text = write_notice(notice, language)
    message = EmailMessage(policy=_POLICY)
    message["Subject"] = cut_title(text, _SUBJECT_BYTES)
    message["From"] = Address("crawlfleet", addr_spec=route.sender)
    message["To"] = ", ".join(route.recipients)
    message["Date"] = datetime.fromtimestamp(now / 1000, UTC)
    message["Message-ID"] = f"<{notice.id}@{route.sender.rpartition('@')[2]}>"
    # Without this, automatic replies of absent people would come back.
    message["Auto-Submitted"] = "auto-generated"
    message["Priority"] = "normal" if notice.state is NoticeState.RECOVERED else _PRIORITIES[notice.severity]
    message.set_content(_plain_body(text))
    message.add_alternative(lay_out_html(text), subtype="html")
    return message.as_bytes()


def check_mail_fields(values: Mapping[str, str], guard: AddressGuard) -> dict[str, str]:
    """Return the fields of a mail channel as they are stored. Raises InvalidInput."""
    fields = dict(values)
    security = fields.setdefault("security", "starttls")
    if security not in _PORTS:
        raise InvalidInput("has to be starttls, tls or none", field="security")
    port = fields.setdefault("port", str(_PORTS[security]))
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
        raise InvalidInput("has to be a number from 1 to 65535", field="port")
    host = fields["host"] = plain_host(fields["host"])
    if not re.fullmatch(r"[a-z0-9._:-]{1,253}", host) or (":" in host and as_address(host) is None):
        raise InvalidInput("has to be the name or address of a mail server, without a port", field="host")
    check_host("host", host, int(port), guard)
    if security == "none" and not guard.is_listed(host, int(port)):
        raise InvalidInput(
            f"none would send in the clear: use starttls or tls, or list {host} in alert_allow_hosts", field="security"
        )
    if ("username" in fields) != ("password" in fields):
        missing = "password" if "username" in fields else "username"
        raise InvalidInput("is needed: user name and password go together", field=missing)
    fields["sender"] = _check_addresses("sender", fields["sender"], 1)
    fields["recipients"] = _check_addresses("recipients", fields["recipients"], RECIPIENTS_MAX)
    return fields


def parse_route(fields: Mapping[str, str]) -> MailRoute:
    """Read the route from checked fields."""
    return MailRoute(
        host=fields["host"],
        port=int(fields["port"]),
        security=fields["security"],
        username=fields.get("username", ""),
        password=fields.get("password", ""),
        sender=fields["sender"],
        recipients=tuple(fields["recipients"].split(",")),
    )


def _check_addresses(name: str, value: str, limit: int) -> str:
    addresses = list(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not 1 <= len(addresses) <= limit:
        number = "one address" if limit == 1 else f"1 to {limit} addresses, separated by commas"
        raise InvalidInput(f"has to be {number}", field=name)
    for address in addresses:
        if not _ADDRESS.fullmatch(address):
            raise InvalidInput(f"{address[:100]!r} is no mail address such as name@example.com", field=name)
    return ",".join(addresses)


def _plain_body(text: NoticeText) -> str:
    return f"{text.title}\n\n{lay_out(text, PLAIN, TEXT_BYTES)}\n"


def _local_name() -> str:
    """Return the name by which this machine greets: a literal address would be refused by many servers."""
    name = socket.gethostname()
    return name if re.fullmatch(r"[A-Za-z0-9.-]{1,200}", name) else "localhost"
