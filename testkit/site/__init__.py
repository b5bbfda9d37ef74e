"""The nasty site: a web server of our own that does to a crawler what the web does.

It serves the demo shop or a nasty one (`storefront`, `product_pages`, `link_pages`, `feeds`) from a
`versioned_catalogue`, and the behaviours of `nasty/`; it keeps a `request_log`, holds pages back (`page_gate`) and is
controlled under `/-/` (`control_endpoints`). `server` runs it in a test, `site_process` as a process of its own.
"""

from __future__ import annotations

from testkit.site.nasty.behaviour_table import BEHAVIOURS, is_trap
from testkit.site.page_gate import PageGate
from testkit.site.page_list import Rules
from testkit.site.server import RunningSite, running_site, site_in_thread, start_shop, start_site
from testkit.site.site import Site, SiteOptions
from testkit.site.site_process import SiteProcess, site_process

__all__ = [
    "BEHAVIOURS",
    "PageGate",
    "Rules",
    "RunningSite",
    "Site",
    "SiteOptions",
    "SiteProcess",
    "is_trap",
    "running_site",
    "site_in_thread",
    "site_process",
    "start_shop",
    "start_site",
]
