"""URL normalisation maps spellings of one page to one URL, beyond what canonical URLs do.

Campaign and session parameters identify a visitor, not a page. A page that is left in ten spellings is fetched ten
times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

TRACKING = (
    "utm_*",
    *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid", "ysclid", "twclid", "ttclid"),
    *("igshid", "li_fat_id", "mc_cid", "mc_eid", "mkt_tok", "_ga", "_gl", "_hsenc", "_hsmi", "hsCtaTracking"),
    *("vero_id", "oly_anon_id", "oly_enc_id", "wickedid", "s_cid", "spm", "scm", "bsft_*", "pk_*", "piwik_*", "mtm_*"),
)
SESSIONS = ("PHPSESSID", "jsessionid", "ASPSESSIONID*", "osCsid", "zenid", "XTCsid")
LIKELY_SESSIONS = ("sid", "sessid", "session", "sessionid", "session_id", "SESSION_ID", "CFTOKEN")
"""Parameter names that pages use too: they are taken for a session only with a long value of letters and digits."""
_TOKEN = r"(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"
# The pattern has capitals only: host names are in lower case by now, so that no part of them matches.
_SESSION_PATHS = re.compile(r"/\((?:[ASF]\([^/()]*\))+\)(?=/)|;jsessionid=[^/;]*")


class Normaliser:
    """Maps canonical URLs to canonical URLs; it is idempotent."""

    def __init__(
        self,
        *,
        strip_tracking: bool = True,
        strip_sessions: bool = True,
        strip: Iterable[str] = (),
        sort_query: bool = False,
    ) -> None:
        forms = [f"{_name_pattern(name)}(?:=[^&]*)?" for name in (*(TRACKING if strip_tracking else ()), *strip)]
        if strip_sessions:
            forms += [f"{_name_pattern(name)}(?:=[^&]*)?" for name in SESSIONS]
            forms += [f"{_name_pattern(name)}={_TOKEN}" for name in LIKELY_SESSIONS]
        self._stripped = re.compile(f"(?:^|&)(?:{'|'.join(forms)})(?=&|$)") if forms else None
        self._strips_sessions = strip_sessions
        self._sorts_query = sort_query

    def __call__(self, url: str) -> str:
        path, mark, query = url.partition("?")
        if self._strips_sessions and (";jsessionid=" in path or "/(" in path):
            path = _SESSION_PATHS.sub("", path)
        if not mark:
            return path
        if self._stripped is not None and query:
            remaining = self._stripped.sub("", query)
            if len(remaining) != len(query):
                query = remaining.lstrip("&")
        if self._sorts_query and "&" in query:
            query = "&".join(sorted(query.split("&")))
        return f"{path}?{query}" if query else path


def _name_pattern(name: str) -> str:
    return f"{re.escape(name[:-1])}[^=&]*" if name.endswith("*") else re.escape(name)
