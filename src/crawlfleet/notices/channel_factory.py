"""The factory of channels: what kinds there are, how their fields are checked, and how each is opened."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence

from crawlfleet.errors import InvalidInput
from crawlfleet.model.notice import Language
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.apprise_channel import AppriseChannel, check_apprise_url
from crawlfleet.notices.channel_fields import check_known_fields, parse_address, parse_webhook_secret
from crawlfleet.notices.dingtalk import DingtalkAdapter, check_dingtalk_url
from crawlfleet.notices.feishu import FeishuAdapter, check_feishu_url
from crawlfleet.notices.http_channel import HttpChannel, ServiceAdapter
from crawlfleet.notices.http_post import HttpPoster
from crawlfleet.notices.mail import MailChannel, check_mail_fields, parse_route
from crawlfleet.notices.secret_filter import SecretFilter
from crawlfleet.notices.slack import SlackAdapter, check_slack_url
from crawlfleet.notices.webhook import WebhookAdapter
from crawlfleet.notices.wecom import WecomAdapter, check_wecom_url
from crawlfleet.ports.notice_channel import SEND_S, ChannelField, ChannelKind, NoticeChannel

HINT = "notices may go there where alert_allow_hosts names it"
"""How a user allows a private address, for the message of a refusal."""
KEYWORD_CHARS = 50

_KEYWORD = ChannelField("keyword", "the keyword that the robot asks for, if it does; it ends each message")
_KINDS = (
    ChannelKind(
        "webhook",
        "A signed POST of JSON to an address of yours (Standard Webhooks).",
        (
            ChannelField("url", "the https:// address that receives notices", is_required=True, is_secret=True),
            ChannelField(
                "secret",
                "the secret of the signature: whsec_ and 24 to 64 bytes in base64",
                is_required=True,
                is_secret=True,
            ),
            ChannelField("previous_secret", "the secret before, while receivers change to the new one", is_secret=True),
        ),
        max_notices=60,
        window_s=60,
    ),
    ChannelKind(
        "dingtalk",
        "The custom robot of a DingTalk group.",
        (
            ChannelField("url", "the robot's address, or only its access_token", is_required=True, is_secret=True),
            ChannelField("secret", "the secret that begins with SEC, where the robot signs", is_secret=True),
            _KEYWORD,
        ),
        max_notices=15,
        window_s=60,
    ),
    *(
        ChannelKind(
            name,
            f"The custom bot of a {name.capitalize()} group.",
            (
                ChannelField("url", "the bot's address, or only its last part", is_required=True, is_secret=True),
                ChannelField("secret", "the secret of the signature, where the bot verifies it", is_secret=True),
                _KEYWORD,
            ),
            max_notices=60,
            window_s=60,
        )
        for name in ("feishu", "lark")
    ),
    ChannelKind(
        "wecom",
        "The robot of a WeCom group.",
        (ChannelField("url", "the robot's address, or only its key", is_required=True, is_secret=True),),
        max_notices=15,
        window_s=60,
    ),
    ChannelKind(
        "slack",
        "An incoming webhook of Slack.",
        (ChannelField("url", "the webhook's address", is_required=True, is_secret=True),),
        max_notices=1,
        window_s=1,
    ),
    ChannelKind(
        "mail",
        "Mail over SMTP.",
        (
            ChannelField("host", "the mail server", is_required=True),
            ChannelField("port", "587 by default, 465 with tls, 25 with none"),
            ChannelField("security", "starttls (the default), tls or none"),
            ChannelField("username", "the user at the mail server"),
            ChannelField("password", "the user's password there", is_secret=True),
            ChannelField("sender", "the address that the mails come from", is_required=True),
            ChannelField("recipients", "1 to 50 addresses, separated by commas", is_required=True),
        ),
        max_notices=30,
        window_s=60,
    ),
    ChannelKind(
        "apprise",
        "Another service, by its address of apprise; needs the extra crawlfleet[notices].",
        (ChannelField("url", "the address, such as tgram://TOKEN/CHAT", is_required=True, is_secret=True),),
        max_notices=15,
        window_s=60,
    ),
)
KINDS: Mapping[str, ChannelKind] = {kind.name: kind for kind in _KINDS}


class NoticeChannels:
    """Checks the configuration of channels, and opens them."""

    def __init__(
        self, allow_hosts: Sequence[str] = (), *, send_s: float = SEND_S, tls: ssl.SSLContext | None = None
    ) -> None:
        self._allow_hosts = tuple(allow_hosts)
        self._guard = AddressGuard(self._allow_hosts, hint=HINT)
        self._send_s = send_s
        self._tls = tls

    @property
    def kinds(self) -> Mapping[str, ChannelKind]:
        return KINDS

    def check_fields(self, kind: str, fields: Mapping[str, str]) -> dict[str, str]:
        if kind not in KINDS:
            raise InvalidInput(f"has to be one of: {', '.join(KINDS)}", field="kind")
        values = check_known_fields({field.name: field for field in KINDS[kind].fields}, fields)
        if len(values.get("keyword", "")) > KEYWORD_CHARS:
            raise InvalidInput(f"is longer than {KEYWORD_CHARS} characters", field="keyword")
        match kind:
            case "webhook":
                parse_address("url", values["url"], self._guard)
                for name in ("secret", "previous_secret"):
                    if name in values:
                        parse_webhook_secret(name, values[name])
            case "dingtalk":
                values["url"] = check_dingtalk_url(values["url"], self._guard)
            case "feishu" | "lark":
                values["url"] = check_feishu_url(values["url"], self._guard, kind)
            case "wecom":
                values["url"] = check_wecom_url(values["url"], self._guard)
            case "slack":
                values["url"] = check_slack_url(values["url"], self._guard)
            case "mail":
                values = check_mail_fields(values, self._guard)
            case _:
                values["url"] = check_apprise_url(values["url"], self._guard)
        return values

    def open_channel(self, kind: str, fields: Mapping[str, str], language: Language) -> NoticeChannel:
        match kind:
            case "mail":
                return MailChannel(parse_route(fields), self._guard, language, send_s=self._send_s, tls=self._tls)
            case "apprise":
                return AppriseChannel(fields["url"], self._allow_hosts, HINT, language, send_s=self._send_s)
            case _:
                secrets = SecretFilter(
                    [fields[name] for name in ("url", "secret", "previous_secret") if name in fields]
                )
                poster = HttpPoster(self._guard, send_s=self._send_s, tls=self._tls)
                return HttpChannel(_open_adapter(kind, fields, language), poster, secrets)


def _open_adapter(kind: str, fields: Mapping[str, str], language: Language) -> ServiceAdapter:
    url, secret, keyword = fields["url"], fields.get("secret", ""), fields.get("keyword", "")
    match kind:
        case "webhook":
            names = ("secret", "previous_secret")
            keys = [parse_webhook_secret(name, fields[name]) for name in names if name in fields]
            return WebhookAdapter(url, keys, language)
        case "dingtalk":
            return DingtalkAdapter(url, secret, keyword, language)
        case "feishu" | "lark":
            return FeishuAdapter(url, secret, keyword, language)
        case "wecom":
            return WecomAdapter(url, language)
        case "slack":
            return SlackAdapter(url, language)
        case _:
            raise InvalidInput(f"has to be one of: {', '.join(KINDS)}", field="kind")
