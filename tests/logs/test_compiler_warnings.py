"""Compiler warnings in all wordings, and their instructions in a dump."""

from __future__ import annotations

import pytest

from hlo_lens.logs.compiler_output import (
    CompilerWarning,
    WarningKind,
    logged_warnings,
    printed_instruction,
)
from hlo_lens.logs.log import parse_log, without_repeats
from tests import corpus

LOGS = corpus.SAMPLES / "logs"
LOG = (LOGS / "warned_jax_0_10_2.txt").read_text("utf-8")

OP = (
    "%copy.1 = f32[8,4,2]{2,1,0} copy(f32[8,4,2]{2,1,0} %p.0), "
    'metadata={op_name="jit(f)/a. b" source_file="x.py" source_line=7}'
)
FROM = "{devices=[8,1,1]0,1,2,3,4,5,6,7}"
TO = "{devices=[1,1,2,4]<=[8] last_tile_dim_replicate}"
REMATERIALIZATIONS = {
    "2021": (
        f"[spmd] Involuntary full rematerialization. The compiler was not able to go from sharding "
        f"{FROM} to {TO} without doing a full rematerialization of the tensor for HLO operation: "
        f"{OP}. You probably want to enrich the sharding annotations to prevent this."
    ),
    "2024": (
        f"[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding {FROM} "
        f"to {TO} efficiently for HLO operation {OP}. As the last resort, SPMD will replicate the "
        "tensor and then partition it to obtain the target sharding, which is inefficient."
    ),
    "cut off after the operation": (
        f"Involuntary full rematerialization. The compiler cannot go from sharding {FROM} to {TO} "
        f"efficiently for HLO operation {OP}"
    ),
}


def one(text: str) -> CompilerWarning:
    (warning,) = parse_log(text).warnings
    return warning


@pytest.mark.parametrize("text", REMATERIALIZATIONS.values(), ids=REMATERIALIZATIONS)
def test_full_rematerialization_is_read_in_all_wordings(text: str) -> None:
    warning = one(f"x\nE0101 00:00:00.1 1 spmd_partitioner.cc:1] {text}\ny\n")
    assert warning.kind is WarningKind.FULL_REMATERIALIZATION
    assert warning.line == 2
    assert warning.from_sharding is not None
    assert warning.to_sharding is not None
    assert (warning.from_sharding.text, warning.to_sharding.text) == (FROM, TO)
    printed = warning.instruction
    assert printed is not None
    assert (printed.text, printed.name, printed.opcode) == (OP, "copy.1", "copy")
    assert printed.metadata is not None
    assert (printed.metadata.op_name, printed.metadata.source_line) == ("jit(f)/a. b", 7)


def test_a_warning_is_read_whose_lines_are_wrapped() -> None:
    wrapped = REMATERIALIZATIONS["2021"].replace(" last_", "\nlast_").replace('b" so', 'b"\nso')
    warning = one(wrapped.replace("was not able", "was not\nable").replace("), meta", "),\nmeta"))
    assert warning.to_sharding is not None
    assert warning.to_sharding.text == TO
    assert warning.instruction is not None
    assert warning.instruction.metadata is not None
    assert warning.instruction.metadata.source_line == 7


DONATIONS = {
    "types of 2019": ("f32[2,3]{1,0}, s32[]", ("f32[2,3]{1,0}", "s32[]")),
    "shaped arrays": (
        "ShapedArray(float32[784,50]), ShapedArray(bfloat16[8@x,4]).",
        ("float32[784,50]", "bfloat16[8@x,4]"),
    ),
    "types of 2025": ("float32[32,7], bfloat16[3].", ("float32[32,7]", "bfloat16[3]")),
}


@pytest.mark.parametrize(("types", "expected"), DONATIONS.values(), ids=DONATIONS)
def test_donations_are_read_in_all_spellings(types: str, expected: tuple[str, ...]) -> None:
    warning = one(
        f"/x/mlir.py:1: UserWarning: Some donated buffers were not usable: {types}\n"
        'See an explanation at x\n  warnings.warn("Some donated buffers were not usable:"\n'
    )
    assert (warning.kind, warning.donated) == (WarningKind.UNUSED_DONATION, expected)
    assert None not in warning.donated_shapes


STARS = "********************************"
ALARMS = {
    "begun": (
        f"\n{STARS}\n[Compiling module jit_f for GPU] Very slow compile? If you want\n{STARS}\n",
        ("jit_f", "GPU", None),
    ),
    "finished": (
        f"The operation took 2m1.5s\n\n{STARS}\n[Compiling module jit_f] Very slow compile? If\n",
        ("jit_f", "", 121.5),
    ),
    "old": (f"{STARS}\nVery slow compile?  If you want to file a bug\n", (None, "", None)),
}


@pytest.mark.parametrize(("text", "expected"), ALARMS.values(), ids=ALARMS)
def test_slow_compiles_are_read(text: str, expected: tuple[object, ...]) -> None:
    warning = one(text)
    found = (warning.module, warning.platform, warning.duration_seconds)
    assert found == expected


@pytest.mark.parametrize(("before", "took"), [("", None), ("The operation took 17.5s\n", 17.5)])
def test_constant_folding_names_its_instruction(before: str, took: float | None) -> None:
    warning = one(
        f"{before}Constant folding an instruction is taking > 1s:\n\n  {OP}\n\nThis isn't\n"
    )
    assert warning.kind is WarningKind.CONSTANT_FOLDING
    assert warning.instruction == printed_instruction(OP)
    assert (warning.duration_seconds, warning.limit_seconds) == (took, 1.0)


FOLDING = f"Constant folding an instruction is taking > 1s:\n\n  {OP}\n\nThis isn't a bug\n"


@pytest.mark.parametrize("end", [FOLDING, "Constant folding an instruction is taking > 1s:\n"])
def test_end_of_an_alarm_has_the_duration_of_the_first(end: str) -> None:
    log = without_repeats(parse_log(f"{FOLDING}x\nThe operation took 2.5s\n{end}"))
    (warning,) = log.warnings
    assert (warning.duration_seconds, warning.limit_seconds, warning.line) == (2.5, 1.0, 1)


def test_large_arguments_have_both_sizes() -> None:
    warning = one(
        "The byte size of input/output arguments (300) exceeds the base limit (200). This "
        "indicates an error in the calculation!\n"
    )
    assert warning.kind is WarningKind.LARGE_ARGUMENTS
    assert (warning.size_bytes, warning.limit_bytes) == (300, 200)


def test_bytes_of_donated_arguments_are_their_sum_if_all_are_known() -> None:
    known = one("Some donated buffers were not usable: float32[8], bfloat16[3].\n")
    assert known.size_bytes == 38
    unknown = one("Some donated buffers were not usable: float32[8], key<fry>[3].\n")
    assert unknown.size_bytes is None


def test_damaged_warning_is_a_gap() -> None:
    log = parse_log(
        f"{LOG}\nInvoluntary full rematerialization. The compiler cannot go from here\n"
    )
    assert len(log.warnings) == 2
    assert [gap.line for gap in log.gaps] == [LOG.count("\n") + 2]


def test_equal_warnings_are_one_with_a_count() -> None:
    (first, second) = logged_warnings(parse_log(LOG + LOG).warnings).warnings
    assert (first.times, second.times) == (2, 2)
