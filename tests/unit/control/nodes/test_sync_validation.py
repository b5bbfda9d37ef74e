"""What a node sends with a sync is checked: a faulty node is refused by name of the field, before a batch fails."""

import msgspec
import pytest

from crawlfleet.control.nodes.sync_validation import check_sync, is_valid_progress
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.wire.sync import MeasurementBody, OutcomeBody, ProgressBody, StartBody, SyncUp

UP = SyncUp(node=1, session=2, number=3, wait_ms=0, held=[])
START = StartBody(task=1, execution=2, started_ms_ago=0)
OUTCOME = OutcomeBody(task=1, execution=2, end=0)
PROGRESS = ProgressBody(execution=2, figures=msgspec.Raw(b"{}"))
ENDS_MAX = [("x" * limits.LABEL_CHARS, 0, limits.FIGURE_MAX - 1)] * limits.LABELS

ALLOWED = [
    {},
    {"number": (1 << limits.INTEGER_BITS) - 1},
    {"started": [START] * (2 * limits.SLOTS_MAX)},
    {"outcomes": [OUTCOME] * limits.OUTCOMES_PER_SYNC},
    {"progress": [PROGRESS] * limits.PROGRESS_PER_SYNC},
    {"held": list(range(2 * limits.SLOTS_MAX))},
    {"measurement": MeasurementBody(ends=ENDS_MAX)},
]
REFUSED = [
    ({"node": -1}, "number"),
    ({"session": 1 << limits.INTEGER_BITS}, "number"),
    ({"number": 1 << limits.INTEGER_BITS}, "number"),
    ({"started": [START] * (2 * limits.SLOTS_MAX + 1)}, "started"),
    ({"outcomes": [OUTCOME] * (limits.OUTCOMES_PER_SYNC + 1)}, "outcomes"),
    ({"progress": [PROGRESS] * (limits.PROGRESS_PER_SYNC + 1)}, "progress"),
    ({"held": list(range(2 * limits.SLOTS_MAX + 1))}, "held"),
    ({"measurement": MeasurementBody(ends=[*ENDS_MAX, ("echo", 0, 0)])}, "ends"),
    ({"measurement": MeasurementBody(ends=[("", 0, 0)])}, "ends"),
    ({"measurement": MeasurementBody(ends=[("x" * (limits.LABEL_CHARS + 1), 0, 0)])}, "ends"),
    ({"measurement": MeasurementBody(ends=[("a\0b", 0, 0)])}, "ends"),
    ({"measurement": MeasurementBody(ends=[("echo", -1, 0)])}, "ends"),
    ({"measurement": MeasurementBody(ends=[("echo", 0, limits.FIGURE_MAX)])}, "ends"),
]


@pytest.mark.parametrize("changes", ALLOWED)
def test_what_an_agent_may_send_is_accepted_up_to_the_limit(changes: dict[str, object]) -> None:
    check_sync(msgspec.structs.replace(UP, **changes))


@pytest.mark.parametrize(("changes", "field"), REFUSED)
def test_what_is_over_a_limit_is_refused_by_its_field(changes: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_sync(msgspec.structs.replace(UP, **changes))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("figures", "is_valid"),
    [
        (b"{}", True),
        (b'{"pages": 3}', True),
        (b"[]", False),
        (b"3", False),
        (b'{"x": "' + b"x" * (limits.PROGRESS_BYTES - 9) + b'"}', True),
        (b'{"x": "' + b"x" * (limits.PROGRESS_BYTES - 8) + b'"}', False),
    ],
)
def test_progress_is_a_json_object_of_a_limited_size(figures: bytes, is_valid: bool) -> None:
    assert is_valid_progress(ProgressBody(execution=2, figures=msgspec.Raw(figures))) is is_valid
