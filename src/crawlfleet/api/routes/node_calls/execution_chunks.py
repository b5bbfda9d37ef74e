"""Items, log lines and archived answers that running executions send up, in numbered chunks."""

from __future__ import annotations

from starlette.responses import Response

from crawlfleet.api.http.auth import require_principal, write_audit_entry
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import check_query_names
from crawlfleet.api.http.request_bodies import read_body
from crawlfleet.api.http.responses import ResponseSpec, empty_response
from crawlfleet.api.http.route_table import RouteTable, describe_parameter
from crawlfleet.api.http.services import get_services
from crawlfleet.api.routes import PREFIX
from crawlfleet.control.results.page_notes import OWN
from crawlfleet.control.results.result_collection import StaleExecution
from crawlfleet.errors import InvalidInput
from crawlfleet.model import ids
from crawlfleet.model.principal import Role
from crawlfleet.ports.chunk_store import CHUNK_BYTES, CHUNKS, ChunkKind

routes = RouteTable("executions", PREFIX)

_EXECUTION_PARAMETER = describe_parameter("execution_id", "path", "Of a live execution of the node.")
_TASK_PARAMETER = describe_parameter("task", "query", "The task it executes.", is_required=True)
_CHUNK_PARAMETERS = [
    _EXECUTION_PARAMETER,
    describe_parameter(
        "number", "path", "From 0 on, without gaps.", {"type": "integer", "minimum": 0, "maximum": CHUNKS - 1}
    ),
    _TASK_PARAMETER,
    describe_parameter(
        "Content-Encoding", "header", "How it is packed.", {"type": "string", "enum": ["identity", "zstd"]}
    ),
]
_CHUNK_BODY = {
    "application/x-ndjson": {"type": "string"},
    "application/octet-stream": {"type": "string", "format": "binary"},
}
_CHUNK_STORED = ResponseSpec(None, "It is on disk.")
_CHUNK_RULES = (
    f"At most {CHUNK_BYTES} bytes before they are packed. The same number again replaces the chunk. Only the node that "
    "holds the execution may send it: 409 `stale_execution` for any other."
)


@routes.plain(
    "GET",
    "/executions/{execution_id}/earlier/{number}",
    ResponseSpec({"text/plain": {"type": "string"}}, "The number of parts on the first line, then JSON lines."),
    summary="Read what an earlier crawl noted of its pages",
    description="For the node that holds the execution: 409 `stale_execution` for any other.",
    parameters=[
        _EXECUTION_PARAMETER,
        describe_parameter("number", "path", "The part, from 0 on."),
        _TASK_PARAMETER,
        describe_parameter(
            "of",
            "query",
            "The earlier task, or the group of an earlier crawl over many nodes, of the same "
            "project; `own`: the crawl that the task takes part in, as far as it is.",
            is_required=True,
        ),
    ],
    name="get_earlier",
)
async def get_earlier_notes(request: PlainRequest) -> Response:
    check_query_names(request, "task", "of")
    principal = await require_principal(request, Role.NODE)
    assert principal.node is not None
    execution = ids.parse_id(request.path_params["execution_id"], "exec", field="execution_id")
    task = ids.parse_id(request.query_params.get("task", ""), "task", field="task")
    of = request.query_params.get("of", "")
    number = _parse_chunk_number(request.path_params["number"])
    services = get_services(request)
    await services.collect.check_live(principal.node, task, execution)
    if of == OWN or of.startswith("group-"):
        notes = await services.page_notes.read_crawl(task, of, number)
    else:
        notes = await services.page_notes.read_task(task, ids.parse_id(of, "task", field="of"), number)
    return Response(b"%d\n%s" % (notes.parts, notes.lines), media_type="text/plain")


@routes.plain(
    "PUT",
    "/executions/{execution_id}/items/{number}",
    _CHUNK_STORED,
    status=204,
    summary="Send a chunk of items",
    description=f"JSON lines, each an object. {_CHUNK_RULES}",
    parameters=_CHUNK_PARAMETERS,
    body=_CHUNK_BODY,
)
async def put_items(request: PlainRequest) -> Response:
    return await _put_chunk(request, "items")


@routes.plain(
    "PUT",
    "/executions/{execution_id}/log/{number}",
    _CHUNK_STORED,
    status=204,
    summary="Send a chunk of the log",
    description='JSON lines: `{"at": unix ms, "level": "info", "message": "..."}`. ' + _CHUNK_RULES,
    parameters=_CHUNK_PARAMETERS,
    body=_CHUNK_BODY,
)
async def put_log(request: PlainRequest) -> Response:
    return await _put_chunk(request, "log")


@routes.plain(
    "PUT",
    "/executions/{execution_id}/warc/{number}",
    _CHUNK_STORED,
    status=204,
    summary="Send a chunk of archived answers",
    description=f"Records of WARC, each compressed by itself with gzip. {_CHUNK_RULES}",
    parameters=_CHUNK_PARAMETERS,
    body=_CHUNK_BODY,
)
async def put_warc(request: PlainRequest) -> Response:
    return await _put_chunk(request, "warc")


async def _put_chunk(request: PlainRequest, kind: ChunkKind) -> Response:
    check_query_names(request, "task")
    principal = await require_principal(request, Role.NODE)
    assert principal.node is not None
    execution = ids.parse_id(request.path_params["execution_id"], "exec", field="execution_id")
    task = ids.parse_id(request.query_params.get("task", ""), "task", field="task")
    number = _parse_chunk_number(request.path_params["number"])
    collect = get_services(request).collect
    try:
        # Before the body is read: a stale sender need not send all of it.
        await collect.check_live(principal.node, task, execution)
    except StaleExecution:
        await _note_if_anothers(request, task, execution)
        raise
    data = await read_body(request, CHUNK_BYTES)
    await collect.collect_chunk(principal.node, task, execution, kind, number, data)
    return empty_response()


async def _note_if_anothers(request: PlainRequest, task: int, execution: int) -> None:
    """Late is usual; speaking for an execution that another node holds is not."""
    principal = await require_principal(request)
    assert principal.node is not None
    if await get_services(request).collect.is_anothers(principal.node, task, execution):
        await write_audit_entry(request, principal, "execution.refused", ids.execution_text(execution))


def _parse_chunk_number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= len(str(CHUNKS)):
        return int(text)
    raise InvalidInput(f"a whole number from 0 to {CHUNKS - 1}", field="number")
