"""Extraction reads a page by a plan: pure code, text in and records out, no network and no clock.

    extraction_plan.py  a task's parameters -> ExtractionPlan, or every problem with them by name and place
    selectors.py        one CSS selector or XPath, checked before any parser of C sees it (css_check.py)
    dom.py              a page as a DOM: lexbor, or libxml2 where a plan has XPath
    flat_selectors.py   {"product": ..., "title": ..., "price": ...}: the container is found on the page
    records.py          containers with fields, nested ones included; json_pages.py the same over JSON
    values.py           text -> price, number, date, ... (prices.py, numbers.py, dates.py)
    field_counts.py     what each field found, to be added up over pages, executions and shards
    page_links.py       links, base, refresh, canonical, next; the directives of the robots meta
    structured.py       JSON-LD, microdata, Open Graph; metadata.py and main_text.py the page as such
    limits.py           the names and limits that the JSON schema needs as well

A page is parsed once and each selector runs once over the whole of it; each match is given to the container it is in by
walking up. A call per record and field costs more than the parsing.
"""
