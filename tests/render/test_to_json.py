"""Lists of objects in JSON, which are printed by column."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from hlo_lens.render.result import Column, Unit
from hlo_lens.render.table import RenderOptions, Report
from hlo_lens.render.to_json import RowObjects, render_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.0, -0.0, 1.0, float("inf")])
    | st.text('a%\n"\\{},: \u20ac', max_size=4)
)
CELLS = SCALARS | st.lists(SCALARS, max_size=2).map(tuple) | st.dictionaries(st.just("k"), SCALARS)
ROWS = st.lists(st.tuples(SCALARS, CELLS, CELLS), max_size=40)


def printed(data: Mapping[str, object]) -> str:
    out = io.StringIO()
    render_json(Report(kind="x", sections=(), data=data), out, RenderOptions())
    return out.getvalue()


def one_by_one(rows: Sequence[object]) -> str:
    if not rows:
        return '{"rows": []}\n'
    return "{\n  " + '"rows": [\n    ' + ",\n    ".join(map(json.dumps, rows)) + "\n  ]\n}\n"


@given(ROWS)
def test_rows_with_equal_keys_are_printed_as_one_by_one(rows: list[tuple[object, ...]]) -> None:
    objects = [dict(zip(("a", "%b", "c\n"), row, strict=True)) for row in rows]
    assert printed({"rows": objects}) == one_by_one(objects)


def test_rows_of_a_result_are_printed_from_its_records() -> None:
    columns = [Column(name, Unit.NONE, "") for name in ("name", "count")]
    records = [(f"r{number}", number % 3) for number in range(2000)]
    objects = RowObjects(columns, records)
    assert printed({"rows": objects}) == one_by_one(list(objects))
    assert objects[1999] == {"name": "r1999", "count": 1}
    assert list(objects[5:7]) == [{"name": "r5", "count": 2}, {"name": "r6", "count": 0}]


def test_rows_that_hold_objects_are_printed_on_several_lines() -> None:
    rows = [{"a": k, "b": {"c": [{"d": k}], "e": 0}} for k in range(20)]
    text = printed({"rows": rows})
    assert json.loads(text) == {"rows": rows}
    assert '    {\n      "a": 19,\n      "b": {\n        "c": [\n          {"d": 19}\n' in text
