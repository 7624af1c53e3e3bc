"""Modules by function and process: retraces, the likely step, differences between processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hlo_lens
from hlo_lens.questions.dumps.groups import module_groups
from hlo_lens.questions.dumps.listing import (
    Fingerprint,
    ListingFacts,
    fingerprint,
    first_difference,
    hashed_facts,
)
from hlo_lens.questions.dumps.processes import across_processes
from tests.corpus import SAMPLES


def some(name: str, number: int, **changes: object) -> ListingFacts:
    """Return the facts of a module."""
    facts = ListingFacts(
        name=name,
        key=f"module_{number:04}.{name}",
        number=number,
        folder="",
        stage="after_optimizations",
        stages=2,
        passes=0,
        files=6,
        signature=("f32[8]",),
        fingerprint=Fingerprint("exact", "nameless"),
    )
    return replace(facts, **changes)  # type: ignore[arg-type] # any field


STEP = some("jit_step", 3, peak_bytes=900, flops=700, flops_at_least=700, instructions=50)
EVAL = some("jit_eval", 4, peak_bytes=300, flops=200, flops_at_least=200, instructions=60)
UNDIVIDED = replace(EVAL, stage="before_optimizations", devices=8, peak_bytes=None)
HELPER = some("jit_add", 1, peak_bytes=8, flops=0, flops_at_least=0, instructions=3)


def test_compiles_of_one_function_are_one_group_whose_largest_is_shown() -> None:
    again = replace(STEP, number=9, peak_bytes=1000, signature=("f32[9]",))
    same = replace(STEP, number=8)
    (step, _) = module_groups([HELPER, STEP, same, again]).groups
    assert (step.name, len(step.modules), step.largest.number) == ("jit_step", 3, 9)
    assert [*step.shapes.items()] == [(("f32[8]",), 2), (("f32[9]",), 1)]
    each = module_groups([HELPER, STEP, same, again], is_grouped=False)
    assert [g.largest.number for g in each.groups] == [9, 3, 8, 1]


def test_shapes_of_all_devices_are_no_retrace_of_those_of_one() -> None:
    begun = replace(STEP, number=9, stage="before_optimizations", devices=8, peak_bytes=None)
    begun = replace(begun, signature=("f32[64]",))
    (step,) = module_groups([STEP, begun]).groups
    assert (len(step.modules), [*step.shapes.items()]) == (2, [(("f32[8]",), 1)])
    (step,) = module_groups([begun, replace(begun, number=10)]).groups
    assert [*step.shapes.items()] == [(("f32[64]",), 2)]


def test_text_without_a_number_is_no_retrace() -> None:
    text = replace(STEP, number=None, key="compiled.txt", stages=0)
    found = module_groups([replace(text, folder="other"), STEP, text]).groups
    assert [(len(g.modules), g.mark) for g in found if g.largest.number is None] == [(1, None)] * 2
    assert [(len(g.modules), g.mark) for g in found if g.largest.number == 3] == [(1, "step")]
    assert [g.mark for g in module_groups([text]).groups] == ["step"]


@pytest.mark.parametrize(
    ("modules", "marks"),
    [
        ([STEP, EVAL, HELPER], {"jit_step": "step"}),
        (
            [STEP, EVAL, replace(HELPER, peak_bytes=5000)],
            {"jit_step": "step", "jit_add": "largest memory"},
        ),
        (
            [STEP, EVAL, replace(HELPER, peak_bytes=5000, opaque=1)],
            {"jit_step": "most flops", "jit_add": "largest memory"},
        ),
        (
            [STEP, replace(UNDIVIDED, flops=8 * 699)],
            {"jit_step": "step"},
        ),
        (
            [STEP, replace(UNDIVIDED, flops=8 * 701)],
            {"jit_step": "largest memory", "jit_eval": "most flops"},
        ),
        (
            [STEP, replace(EVAL, peak_bytes=5000), HELPER],
            {"jit_step": "most flops", "jit_eval": "largest memory"},
        ),
        (
            [replace(STEP, peak_bytes=None), EVAL],
            {"jit_step": "most flops", "jit_eval": "largest memory"},
        ),
        ([replace(STEP, peak_bytes=None), replace(EVAL, peak_bytes=None)], {"jit_step": "step"}),
        ([replace(STEP, flops=None, flops_at_least=701), EVAL], {"jit_step": "step"}),
        ([HELPER], {"jit_add": "step"}),
        ([replace(HELPER, peak_bytes=None)], {}),
        ([replace(STEP, stages=0, passes=4), EVAL], {"jit_eval": "step"}),
    ],
)
def test_step_has_most_arithmetic_and_memory(
    modules: list[ListingFacts], marks: dict[str, str]
) -> None:
    assert {g.name: g.mark for g in module_groups(modules).groups if g.mark} == marks


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("peak", ["jit_step", "jit_eval", "jit_add"]),
        ("size", ["jit_eval", "jit_step", "jit_add"]),
        ("flops", ["jit_step", "jit_eval", "jit_add"]),
        ("name", ["jit_add", "jit_eval", "jit_step"]),
    ],
)
def test_order_is_the_one_asked_for(sort: str, names: list[str]) -> None:
    assert [g.name for g in module_groups([HELPER, STEP, EVAL], sort=sort).groups] == names


@pytest.mark.parametrize(
    ("folder", "process"),
    [
        ("", ""),
        ("rank_0", "rank_0"),
        ("jit_step/host_17", "host_17"),
        ("a/jit_step/host_17", "a/host_17"),
    ],
)
def test_process_is_the_folder_without_the_name_of_the_module(folder: str, process: str) -> None:
    assert replace(STEP, folder=folder).process == process


def test_processes_are_compared_compile_by_compile() -> None:
    other = Fingerprint("other", "other")
    renamed = Fingerprint("renamed", "nameless")
    modules = [
        replace(STEP, folder="a"),
        replace(EVAL, folder="a"),
        replace(HELPER, folder="a"),
        replace(HELPER, folder="a", number=2),
        replace(STEP, folder="b", number=13),
        replace(EVAL, folder="b", fingerprint=renamed),
        replace(HELPER, folder="b"),
        replace(STEP, folder="c", fingerprint=other),
        replace(EVAL, folder="c"),
        replace(HELPER, folder="c", fingerprint=None, problem="no"),
    ]
    found = across_processes(modules)
    assert found.processes == ("a", "b", "c")
    assert list(found.rows()) == [
        ("jit_step", 0, "different", 3, "c"),
        ("jit_add", 0, "not known", 3, "c"),
        ("jit_add", 1, "not in all processes", 1, "b"),
        ("jit_eval", 0, "same up to names", 3, "b"),
    ]
    assert found.programs[0].modules == (0, 7)


def test_one_more_compile_in_one_process_shifts_no_others() -> None:
    prints = {k: Fingerprint(f"exact {k}", f"nameless {k}") for k in "abcd"}

    def compiles(folder: str, *kinds: str) -> list[ListingFacts]:
        return [
            replace(
                STEP, folder=folder, number=k, fingerprint=prints[kind], signature=(f"f32[{kind}]",)
            )
            for k, kind in enumerate(kinds)
        ]

    found = across_processes([*compiles("host0", *"abc"), *compiles("host1", *"adbc")])
    assert list(found.rows()) == [
        ("jit_step", 2, "not in all processes", 1, "host0"),
        ("jit_step", 0, "same", 2, None),
        ("jit_step", 1, "same", 2, None),
        ("jit_step", 3, "same", 2, None),
    ]


def test_different_programs_are_paired_by_their_shapes_before_their_order() -> None:
    one = replace(STEP, folder="host0", signature=("f32[1]",))
    two = replace(STEP, folder="host0", number=4, signature=("f32[2]",))
    other = Fingerprint("x", "y")
    same = replace(one, folder="host1", number=8)
    changed = replace(two, folder="host1", number=7, fingerprint=other)
    two = replace(two, fingerprint=Fingerprint("u", "v"))
    found = across_processes([one, two, changed, same])
    assert [(p.verdict, p.modules) for p in found.programs] == [
        ("different", (1, 2)),
        ("same", None),
    ]


@pytest.mark.parametrize(
    ("folders", "are_processes"),
    [
        (("rank_0", "rank_1"), True),
        (("dump/host0", "dump/host1"), True),
        (("0", "1", "10"), True),
        (("10.0.0.1", "10.0.0.2"), True),
        (("t1v-n-1a2b-w-0", "t1v-n-1a2b-w-1"), True),
        (("process-3", "Process-4"), True),
        (("jax-0.10.2", "jax-0.12.0"), False),
        (("host0.tar.gz/tmp/dump", "host1.tar.gz/tmp/dump"), True),
        (("baseline", "tuned"), False),
        (("exp1", "exp2"), False),
        (("jit_step/me_17", "jit_step/me_18"), True),
    ],
)
def test_processes_are_recognized_by_folder_names(
    folders: tuple[str, ...], are_processes: bool
) -> None:
    found = across_processes([replace(STEP, folder=folder) for folder in folders])
    assert found.are_processes is are_processes


BASE = """HloModule m, num_partitions=2

f { %a = f32[8] parameter(0)
  ROOT %b = f32[8] negate(%a) }

ENTRY %e (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), metadata={op_name="p" source_file="/a/b.py" x={1}}
  %q = f32[8]{0} fusion(%p), kind=kLoop, calls=f, metadata={op_name="q}" source_line=3}
  ROOT %r = f32[8]{0} add(%q, %p), backend_config={"a":"q"}
}
"""


@pytest.mark.parametrize(
    ("old", "new", "is_exact", "is_nameless"),
    [
        ("x={1}", "x={2}", True, True),
        ("source_line=3", "source_line=4 stack_frame_id=7", True, True),
        ("%q", "%other", False, True),
        ("f {", "region_7 {", False, False),
        ("add(%q, %p)", "add(%p, %q)", False, False),
        ("add(", "subtract(", False, False),
        ('"a":"q"', '"a":"p"', False, False),
        ("num_partitions=2", "num_partitions=4", False, False),
        ("f32[8]{0} add", "f32[8]{0:T(8)} add", False, False),
    ],
)
def test_fingerprints_ignore_metadata_and_optionally_names(
    old: str, new: str, is_exact: bool, is_nameless: bool
) -> None:
    base, head = hlo_lens.parse_hlo(BASE), hlo_lens.parse_hlo(BASE.replace(old, new))
    one, two = fingerprint(base), fingerprint(head)
    assert (one.exact == two.exact, one.nameless == two.nameless) == (is_exact, is_nameless)
    assert (first_difference(base, head) is None) == is_exact


def test_first_difference_is_the_first_in_the_text() -> None:
    head = BASE.replace("add(%q, %p)", "add(%p, %q)").replace("kLoop", "kInput")
    found = first_difference(hlo_lens.parse_hlo(BASE), hlo_lens.parse_hlo(head))
    assert found is not None
    assert [line.place for line in found if line] == ["e/q", "e/q"]
    assert "kInput" in (found[1].exact if found[1] else "")


def test_renamed_computation_is_the_same_where_it_is_called() -> None:
    head = BASE.replace("f {", "g {").replace("calls=f", "calls=g")
    one, two = (fingerprint(hlo_lens.parse_hlo(text)) for text in (BASE, head))
    assert one.nameless == two.nameless
    assert one.exact != two.exact


def test_facts_of_a_sample() -> None:
    folder = SAMPLES / "tpu" / "tp_mlp"
    (dump,) = hlo_lens.load(folder).modules
    facts = hashed_facts(dump)
    files = len(list(folder.glob("module_*")))
    assert (facts.name, facts.number, facts.stages, facts.files) == ("jit_train_step", 0, 2, files)
    assert (facts.backend, facts.partitions, facts.instructions) == ("tpu", 8, 428)
    assert (facts.peak_bytes, facts.flops) == (159456768, 206158430208)
    assert facts.total_bytes == 160226304
    assert facts.signature is not None
    assert len(facts.signature) == 6
    assert (facts.coverage, facts.gaps, facts.problem) == (1.0, 0, None)
