"""Facts of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

import hlo_lens
from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.load.module import ModuleDump
from hlo_lens.load.programs import modules_of
from hlo_lens.program.summary import (
    backend_of_dump,
    backend_of_text,
    coverage_of,
    summary,
    undefined_names,
)
from hlo_lens.text.dump_kinds import DumpKind
from tests.corpus import corpus_hlo, read, sample_hlo
from tests.questions.texts import LOOP, entry_of, module_of
from tests.strategies.modules import modules
from tests.strategies.printing import STYLES, print_module

if TYPE_CHECKING:
    from pathlib import Path

    from tests.strategies.programs import Module


def test_facts_are_those_of_header_and_text() -> None:
    assert {str(row[0]): row[1] for row in summary(module_of(LOOP)).rows()} == {
        "name": "jit_step",
        "backend": None,
        "is_scheduled": True,
        "num_partitions": 4,
        "evident_partitions": 4,
        "replica_count": 1,
        "computations": 4,
        "instructions": 18,
        "gaps": 0,
        "gap_lines": 0,
        "passed_lines": 0,
        "coverage": 1.0,
        "is_truncated": False,
        "undefined": 0,
    }


def test_gaps_lower_coverage() -> None:
    module = hlo_lens.parse_hlo(
        "HloModule m\nENTRY e {\n  x = f32[2 parameter(0)\n  y = f32[] iota()\n}"
    )
    facts = summary(modules_of(module)[0])
    assert (facts.instructions, facts.coverage.gaps) == (1, 1)
    assert facts.coverage.ratio == coverage_of(module, module.gaps)
    assert facts.coverage.ratio == 1 / (1 + facts.coverage.gap_lines)


@pytest.mark.parametrize(
    ("line", "backend"),
    [
        ("ROOT x = f32[8,128]{1,0:T(8,128)} parameter(0)", "tpu"),
        (
            'ROOT x = f32[8] iota(), iota_dimension=0, backend_config={"operation_queue_id":"0"}',
            "gpu",
        ),
        (
            "ROOT x = f32[8] iota(), iota_dimension=0, "
            'backend_config="{\\"operation_queue_id\\":0}"',
            "gpu",
        ),
        ('ROOT x = f32[8] custom-call(), custom_call_target="__cublas$gemm"', "gpu"),
        (
            "ROOT x = f32[8] iota(), iota_dimension=0, "
            'backend_config={"outer_dimension_partitions":["2"]}',
            "cpu",
        ),
        ("ROOT x = f32[8] parameter(0)", None),
    ],
)
def test_backend_is_found_in_the_text(line: str, backend: str | None) -> None:
    module = entry_of(line).module
    assert backend_of_text(module, range(len(module.columns))) == backend


@pytest.mark.parametrize(
    ("stage", "file", "backend"),
    [
        ("cpu_after_optimizations", "f.txt", "cpu"),
        ("sm_8.0_gpu_after_optimizations", "f.txt", "gpu"),
        ("after_optimizations", "module_0001.jit_f.cl_1003875606.after_optimizations.txt", "tpu"),
        ("after_optimizations", "f.txt", None),
        (None, "f.txt", None),
    ],
)
def test_backend_is_found_in_names(stage: str | None, file: str, backend: str | None) -> None:
    dump = ModuleDump(name="m", kind=DumpKind.HLO, stage=stage, files=(file,))
    assert backend_of_dump(dump) == backend


TEXT = """HloModule m

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%then (c: f32[8]) -> f32[8] {
  ROOT %c = f32[8]{0} parameter(0)
}

ENTRY %main (p: f32[8], q: pred[]) -> f32[8] {
  %p = f32[8]{0} parameter(0), frontend_attributes={note="to, calls=%nobody, body=%none"}
  %q = pred[] parameter(1)
  %zero = f32[] constant(0)
  %cond = f32[8]{0} conditional(%q, %p, %p), branch_computations={%then, %then}
  %t = (f32[8]{0}, f32[8]{0}) tuple(%cond, %p)
  %r = f32[] reduce(f32[8]{0} %t#1, f32[] %zero), dimensions={0}, to_apply=%sum
  ROOT %b = f32[8]{0} broadcast(%r), dimensions={}
}
"""


def lost(text: str, *, with_operands: bool = True) -> tuple[str, ...]:
    return undefined_names(parse_hlo(text), with_operands=with_operands)


@pytest.mark.parametrize("sign", ["%", ""])
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("", ()),
        ("  %zero = f32[] constant(0)\n", ("zero",)),
        ("  %t = (f32[8]{0}, f32[8]{0}) tuple(%cond, %p)\n", ("t",)),
        (TEXT[TEXT.index("%sum") : TEXT.index("%then")], ("sum",)),
        (TEXT[TEXT.index("%then") : TEXT.index("ENTRY")], ("then",)),
    ],
    ids=["nothing", "a constant", "a tuple", "a reducer", "a branch"],
)
def test_undefined_names_of_a_lost_part(line: str, names: tuple[str, ...], sign: str) -> None:
    assert line in TEXT
    text = TEXT.replace(line, "") if line else TEXT
    assert lost(text.replace("%", sign)) == names


def test_lost_result_is_listed_for_texts_printed_by_xla() -> None:
    line = "  ROOT %b = f32[8]{0} broadcast(%r), dimensions={}\n"
    printed = TEXT.replace("m\n", "m, entry_computation_layout={(f32[8], pred[])->f32[8]}\n", 1)
    assert lost(printed) == ()
    assert lost(printed.replace(line, "")) == ("ROOT of main",)
    assert lost(TEXT.replace(line, "")) == ()


def test_operands_are_looked_up_on_request() -> None:
    text = TEXT.replace("  %zero = f32[] constant(0)\n", "").replace("to_apply=%sum", "to_apply=%a")
    assert lost(text) == ("a", "zero")
    assert lost(text, with_operands=False) == ("a",)


@settings(max_examples=50, deadline=None)
@given(modules(), st.sampled_from(sorted(STYLES)))
def test_whole_modules_lack_nothing(module: Module, style: str) -> None:
    assert lost(print_module(module, STYLES[style])) == ()


@pytest.mark.parametrize("path", [*sample_hlo(), *corpus_hlo()], ids=lambda p: p.name[-40:])
def test_real_modules_lack_nothing(path: Path) -> None:
    assert lost(read(path).decode("utf-8", "replace")) == ()
