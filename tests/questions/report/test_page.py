"""Page of a module: facts for people, JSON for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hlo_lens
from hlo_lens.load.module import ModuleDump, already_read
from hlo_lens.questions.report.page import report_modules
from hlo_lens.text.dump_kinds import DumpKind
from tests.questions.texts import LOOP

if TYPE_CHECKING:
    from hlo_lens.render.table import Report

_MODULE = """
    name stage backend files is_scheduled num_partitions replica_count computations instructions
    opcodes parameters coverage collectives memory sharding
"""
_COLLECTIVE = """
    name kind computation channel_id mode groups group_size num_groups axes payload_bytes
    wire_bytes_per_device element_type static_count dynamic_count loop_path is_async
    overlap_instructions op_name source_file source_line
"""
MODULE_KEYS, COLLECTIVE_KEYS = _MODULE.split(), _COLLECTIVE.split()

COLLECTIVE = """HloModule jit_f, num_partitions=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add
}
"""


def _dump(text: str | None, stage: str | None = None) -> ModuleDump:
    module = None if text is None else hlo_lens.parse_hlo(text)
    return ModuleDump(
        name="of_the_file",
        kind=DumpKind.HLO,
        stage=stage,
        files=("f.txt",),
        module_text=None if module is None else already_read(module),
    )


def _report(*texts: str | None, stage: str | None = None) -> Report:
    return report_modules([_dump(text, stage) for text in texts], is_full=True)


def _module(text: str | None, stage: str | None = None) -> dict[str, Any]:
    data: dict[str, Any] = dict(_report(text, stage=stage).data)
    return dict(data["modules"][0])


def test_json_has_the_contract_keys_in_order() -> None:
    data = _report(COLLECTIVE).data
    assert list(data) == ["schema_version", "kind", "tool_version", "modules"]
    assert (data["schema_version"], data["kind"], data["tool_version"]) == (
        3,
        "report",
        hlo_lens.__version__,
    )
    module = _module(COLLECTIVE)
    assert [key for key in module if key in MODULE_KEYS] == MODULE_KEYS
    assert list(module["coverage"])[:2] == ["instructions", "gaps"]
    (collective,) = module["collectives"]["rows"]
    assert list(collective)[: len(COLLECTIVE_KEYS)] == COLLECTIVE_KEYS
    assert list(module["collectives"])[:4] == ["static", "dynamic", "wire_bytes_per_device", "rows"]


def test_collectives_are_counted_and_what_is_not_there_is_zero() -> None:
    collectives = _module(COLLECTIVE)["collectives"]
    assert collectives["static"]["all-reduce"] == 1
    assert collectives["dynamic"]["all-reduce"] == 1
    (row,) = collectives["rows"]
    assert collectives["wire_bytes_per_device"] == row["wire_bytes_per_device"]
    none = _module(LOOP)["collectives"]
    assert set(none["static"].values()) == set(none["dynamic"].values()) == {0}
    assert none["wire_bytes_per_device"] == 0


def test_module_without_hlo_has_all_keys_with_null() -> None:
    module = _module(None)
    assert set(MODULE_KEYS) <= set(module)
    known = {key for key, value in module.items() if value is not None}
    assert known == {"name", "files"}


def test_facts_of_a_module() -> None:
    facts = dict(_report(LOOP, stage="cpu_after_optimizations").pages[0].facts)
    assert facts == {
        "": "4 devices, CPU; figures are those of one device",
        "memory": "~ 605B needed: arguments 580B (516B reused for outputs), "
        "outputs ~ 532B, temp ~ 1B, constants 8B",
        "peak": "~ 605B at less (7 of 16) in loop, /home/me/step.py ~",
        "donation": "1 argument (512B) donated and aliased with an output; 1 argument (64B) "
        "donated in vain: no output uses the memory; 1 argument (4B) could be donated",
        "replicated": "2 values of 68B on each device; not known for 1 value (4B)",
        "coverage": "100% understood, no gaps; 18 instructions in 4 computations",
        "findings": "2 info, gravest first: hlo-lens lint PATH",
        "M002 info": "argument b (64B) is donated, but its memory is not reused: no "
        "output has its shape",
        "X006 info": "compiled for 4 CPU devices: memory is not that of a TPU or GPU",
        "  fix": "dump again with --xla_dump_hlo_as_text and keep the text from before "
        "optimizations, which hlo-lens what-if compiles for a TPU or GPU",
    }


def test_bytes_in_host_memory_are_marked() -> None:
    text = LOOP.replace("f32[16]{0}", "f32[16]{0:S(5)}")
    assert text != LOOP
    facts = dict(_report(text, stage="cpu_after_optimizations").pages[0].facts)
    assert "1 argument (64B, all in host memory) donated in vain" in facts["donation"]
    assert "2 values of 68B on each device, 64B in host memory" in facts["replicated"]


def test_bytes_with_padding_are_next_to_those_of_the_elements() -> None:
    facts = dict(_report(LOOP.replace("f32[16]{0}", "f32[16]{0:T(128)}")).pages[0].facts)
    assert "1 argument (64B, 512B with padding) donated in vain" in facts["donation"]
    assert "2 values of 68B on each device, 516B with padding" in facts["replicated"]


def test_unknown_opcodes_are_listed() -> None:
    (page,) = _report(LOOP.replace("negate(p0)", "all-warp(p0)")).pages
    unknown = "opcodes or attributes not known to this version of hlo-lens: all-warp"
    assert ("", unknown) in page.facts
    assert page.notes[0] == "not counted as collectives, though named like one: 1 all-warp"


def test_every_table_adds_up() -> None:
    for table in _report(LOOP).sections[0].tables:
        names = [column.name for column in table.columns]
        rows = list(table.all_rows())
        for name, total in table.totals.items():
            cells = [row[names.index(name)] for row in rows]
            assert sum(cell for cell in cells if isinstance(cell, int)) == total
        assert len(list(table.read_rows())) == table.row_count


def test_modules_keep_their_order_in_csv_and_json() -> None:
    report = _report(COLLECTIVE, LOOP, None)
    assert [section.title for section in report.sections] == ["jit_f", "jit_step", "of_the_file"]


def test_people_see_the_largest_module_first_and_the_others_in_a_line_each() -> None:
    (page,) = _report(COLLECTIVE, LOOP, None).pages
    assert page.title == "jit_step"
    table = page.tables[-1]
    assert (table.title, table.command) == ("2 other modules", "hlo-lens ls PATH")
    assert [row[0] for row in table.read_rows()] == ["jit_f", "of_the_file"]


def test_estimates_of_other_modules_are_called_so() -> None:
    scheduled = COLLECTIVE.replace("jit_f,", "jit_g, is_scheduled=true,")
    (page,) = _report(scheduled, LOOP, COLLECTIVE).pages
    assert page.tables[-1].notes == (
        "memory of 1 module is an estimate: there is no buffer assignment",
    )
