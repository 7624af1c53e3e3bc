"""Figures of the views equal those of the commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hlo_lens import report_on
from hlo_lens.text.units import format_bytes
from tests.commands import output_of
from tests.questions.report.html.pages import data_of, page_of, sample_page

if TYPE_CHECKING:
    from tests.questions.report.html.conftest import Drawer


PROGRAMS = ["tpu/fsdp_transformer", "gpu/shard_map_collectives"]
SAMPLE = PROGRAMS[0]


def _printed(command: str, sample: str) -> dict[str, Any]:
    made = json.loads(output_of([command, f"sample_dumps/{sample}", "-f", "json"]))
    found: dict[str, Any] = made["modules"][0]
    return found


def _views(sample: str) -> dict[str, Any]:
    data = data_of(sample_page(sample))["hlo-lens-views"]
    found: dict[str, Any] = data["modules"][0]["views"]
    return found


@pytest.mark.parametrize("sample", PROGRAMS)
def test_tables_of_collectives_have_the_bytes_of_the_command(sample: str) -> None:
    printed, shown = _printed("collectives", sample), _views(sample)["collectives"]
    sums = [
        (_size(one["wire_bytes_per_run"]), one["times"].removeprefix("<=").strip())
        for one in printed["groups"]
    ]
    assert _cells(shown["tables"][0], "wire_bytes_per_run", "times") == sums
    by_axis = output_of(["collectives", f"sample_dumps/{sample}", "--by", "axis", "-f", "json"])
    axes = json.loads(by_axis)["modules"][0]["groups"]
    assert [axis[::2] for axis in shown["axes"]] == [
        [one["group"], one["wire_bytes_per_run"]] for one in axes
    ]
    rows = printed["collectives"]["rows"]
    sizes = sorted((one["name"], _size(one["wire_bytes_per_run"])) for one in rows)
    assert sorted(_cells(shown["singles"], "name", "wire_bytes_per_run")) == sizes
    assert len(shown["start"]) == len(rows)


def _size(size: int | None) -> str:
    return "" if size is None else format_bytes(size)


def _cells(table: dict[str, Any], *names: str) -> list[tuple[str, ...]]:
    """Return the cells of some columns of a table, without marks of bounds."""
    places = [[column[0] for column in table["columns"]].index(name) for name in names]
    return [tuple(row[k].removeprefix("<=").strip() for k in places) for row in table["rows"]]


@pytest.mark.parametrize("sample", PROGRAMS)
def test_loops_are_drawn_as_the_command_prints_them(sample: str) -> None:
    section = _views(sample)["loops"]
    text = output_of(["collectives", f"sample_dumps/{sample}", "--by", "loop", "-f", "md"])
    assert "\n".join(section["drawing"]) in text


LOOPS = """HloModule loops, is_scheduled=true

body {{
  b = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  x = f32[8] get-tuple-element(b), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[8] negate(x)
  ROOT r = (s32[], f32[8]) tuple(next, y)
}}

condition {{
  c = (s32[], f32[8]) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  n = s32[] constant(8)
  ROOT less = pred[] compare(k, n), direction=LT
}}

ENTRY main {{
  zero = s32[] constant(0)
  p = f32[8] parameter(0)
  w.0 = (s32[], f32[8]) tuple(zero, p)
{loops}
  ROOT last = f32[8] get-tuple-element(w.{count}), index=1
}}
"""


def test_equal_loops_are_one_line() -> None:
    loops = "\n".join(
        f"  z.{k} = f32[8] get-tuple-element(w.{k}), index=1\n"
        f"  t.{k} = (s32[], f32[8]) tuple(zero, z.{k})\n"
        f"  w.{k + 1} = (s32[], f32[8]) while(t.{k}), condition=condition, body=body"
        for k in range(120)
    )
    page = page_of(report_on(LOOPS.format(loops=loops, count=120)))
    section = data_of(page)["hlo-lens-views"]["modules"][0]["views"]["loops"]
    assert [line.split("  ")[0] for line in section["drawing"]] == ["main", "└─ 120 x while"]
    assert "120 x while  x8" in section["drawing"][1]


@pytest.mark.parametrize("sample", PROGRAMS)
def test_shardings_and_drawings_are_those_of_the_command(sample: str) -> None:
    printed, shown = _printed("sharding", sample)["values"], _views(sample)["sharding"]
    tables = {table["name"]: table for table in shown["section"]["tables"]}
    cells = [c for name in ("parameters", "outputs") for c in _cells(tables[name], "device_bytes")]
    assert cells == [(format_bytes(one["device_bytes"]),) for one in printed]
    drawn = {}
    for row, number in zip(printed, shown["drawing"], strict=True):
        if number >= 0 and row["sharding"] and "[]" not in row["global_shape"]:
            drawn[row["sharding"], row["global_shape"]] = shown["drawings"][number]
    assert drawn
    for (sharding, shape), lines in [*drawn.items()][:4]:
        text = output_of(["sharding", sharding, "--shape", shape, "-f", "md"])
        assert "\n".join(lines) in text


def test_lines_are_those_of_the_command_and_show_their_values(drawn: Drawer) -> None:
    rows = [row for row in _printed("source", SAMPLE)["rows"] if row["peak_bytes"]]
    places = {f"{row['source_file']}:{row['source_line']}": row for row in rows}
    table = _views(SAMPLE)["source"]["table"]
    shown = {place: size for place, size in _cells(table, "source", "peak_bytes") if size}
    assert shown == {place: format_bytes(row["peak_bytes"]) for place, row in places.items()}
    place, largest = max(places.items(), key=lambda item: item[1]["peak_bytes"])
    page = drawn(sample_page(SAMPLE))
    view = page.locator("#view-source")
    assert largest["text"].strip() in view.locator("tbody tr").first.inner_text()
    view.locator("tbody button.name").first.click()
    assert page.get_by_label("search values").input_value() == place
    cells = page.locator("#view-alive tbody tr td:nth-child(5)").all_inner_texts()
    assert {cell.removesuffix(" ~") for cell in cells} == {place.rpartition("/")[2]}
    page.wait_for_function("document.querySelector('.chart').chart.found !== null")


@pytest.mark.parametrize("sample", ["tpu/wasteful", "cpu/wasteful"])
def test_savings_of_findings_are_those_of_the_first_page(sample: str) -> None:
    data = data_of(sample_page(sample))
    savings = data["hlo-lens-views"]["modules"][0]["savings"]
    findings = data["hlo-lens-data"]["modules"][0]["findings"]
    text = " ".join(output_of(["report", f"sample_dumps/{sample}"]).split())
    assert len(savings) == len(findings)
    assert savings[0].startswith("saves ")
    assert savings[0] in text


@pytest.mark.parametrize("sample", PROGRAMS)
def test_instructions_are_those_of_the_command(sample: str) -> None:
    data, strings = (
        _views(sample)["program"],
        data_of(sample_page(sample))["hlo-lens-views"]["strings"],
    )
    rows = _printed("show", sample)["rows"]
    listed = [
        (strings[name], strings[opcode], strings[computation], users)
        for name, opcode, computation, users in zip(
            *(data[key] for key in ("name", "opcode", "computation", "user_count")), strict=True
        )
    ]
    assert listed == [(r["name"], r["opcode"], r["computation"], r["users"]) for r in rows]
    chosen = {strings[name]: k for k, name in enumerate(data["name"][:40])}
    made = output_of(["show", f"sample_dumps/{sample}", *chosen, "-f", "json"])
    for one in json.loads(made)["modules"][0]["instructions"]:
        k = chosen[one["name"]]
        assert one["text"].startswith(data["text"][k])
        assert len(one["text"]) == len(data["text"][k]) + data["more"][k]
        operands = [other["name"] for other in one["operands"]]
        assert [strings[n] for n in data["operands"][k]] == operands[:16]
        users = list(dict.fromkeys(other["name"] for other in one["users"]))
        assert [strings[n] for n in data["users"][k]] == users[:16]
        stack = "" if data["stack"][k] < 0 else strings[data["stack"][k]]
        assert stack == " < ".join(one["stack"])


def test_a_head_sorts_and_a_search_leaves_what_has_the_word(drawn: Drawer) -> None:
    page = drawn(sample_page(SAMPLE))
    listing = page.locator("#view-collectives .singles .listing")
    page.get_by_label("search single collectives").fill("reduce-scatter")
    kinds = listing.locator("tbody tr td:first-child").all_inner_texts()
    assert kinds
    assert set(kinds) == {"reduce-scatter"}
    page.get_by_label("search single collectives").fill("")
    listing.get_by_role("button", name="name", exact=True).click()
    names = listing.locator("tbody tr button.name").all_inner_texts()
    assert names == sorted(names)
    assert listing.locator("th[aria-sort=ascending]").count() == 1
    listing.get_by_role("button", name="payload_bytes").click()
    sizes = listing.locator("tbody tr td:nth-child(4)").all_inner_texts()
    assert sizes[0].endswith("MiB")
    assert sizes[-1] == "4B"
