"""Messages and bodies that cross a process boundary, with their versions.

    sync.py                 a node: opening a session (`OpenUp`, `OpenDown`), the sync (`SyncUp`, `SyncDown`)
    crawl.py                URL batches between a member of a crawl and a master
    cookies.py              a jar between an execution and a master; products.py the same for products
    proxies.py              the health of a node's proxies
    tasks.py                bodies that users submit; also groups.py and schedules.py
    warc.py                 records of an archive
    field_messages.py       sentences about fields, for all validators; schema_errors.py those about JSON schemas
    json_error_location.py  the place at which a JSON body is broken

A node joins before it opens a session: `POST /nodes:register` of the HTTP API, whose bodies are `NodeRegistration` and
`NodeRegistered` in `api/views/nodes.py`.
"""
