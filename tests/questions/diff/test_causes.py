"""Causes of known edits, with all bytes under them, on dumps for CPU, TPU and GPU."""

from __future__ import annotations

import functools
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from hlo_lens import diff, load, snapshot
from hlo_lens.questions.snapshots.snapshot_file import read_snapshot, snapshot_text
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens import Dump
    from hlo_lens.questions.diff.causes import Cause
    from hlo_lens.questions.diff.module_diff import ModuleDiff

PAIRS = SAMPLES / "pairs"
every_backend = pytest.mark.parametrize("backend", ["cpu", "tpu", "gpu"])

EDITS = {
    "renamed_weight": "2 arguments renamed, [up] -> [a_in]: state[0]['a_in'], state[1]['a_in']",
    "replicated_weight": "2 arguments renamed, [up] -> [a_in] and replicated, "
    "P(None, 'data', 'model') -> P(): state[0]['a_in'], state[1]['a_in']",
    "other_mesh": "mesh data=4 x model=2 -> data=2 x model=4",
    "larger_batch": "batch 64 -> 128 (1 argument)",
    "longer_sequence": "sequence 32 -> 64 (1 argument)",
    "larger_vocabulary": "vocabulary 1024 -> 2048 (2 arguments)",
    "more_layers": "layers 4 -> 6 (4 arguments)",
    "no_remat": "rematerialisation gone: 6 instructions not computed again",
    "other_policy": "rematerialisation policy changed: 1 instruction no longer computed again of 6",
    "microbatches": "the step runs in a loop of 4 microbatches (gradient accumulation)",
    "unrolled": "loop unrolled: its body appears 4 times",
    "bf16_logits": "logits are bf16, were f32",
    "bf16_weights": "6 arguments bf16 now, was f32: state[0]['up'], state[1]['up'] and 4 more",
    "bf16_momentum": "3 arguments bf16 now, was f32: state[1]['up'], state[1]['down'] and 1 more",
    "f32_layers": "activations are f32, were bf16",
    "no_constraint": "sharding constraint P('data',) -> P()",
    "added_norm": "new line: 4 reduce",
    "undonated": "donation lost for 6 arguments of 640.0KiB",
    "update_apart": "moved out of this jit: module jit_updated has the operations: 6 multiply",
    "added_constraint": "sharding constraint P('data',) added",
    "other_flags": "1 flag of XLA changed: xla_disable_hlo_passes (default) -> all-reduce-combiner",
}
"""Beginning of what the only cause says."""

LINES = {
    "bf16_logits": 95,
    "f32_layers": 66,
    "no_constraint": 56,
    "added_norm": 64,
    "microbatches": 119,
    "unrolled": 93,
    "no_remat": 65,
    "other_policy": 65,
    "added_constraint": 56,
    "larger_batch": 90,
}
"""First line of the cause."""


@functools.cache
def _base(backend: str) -> Dump:
    return load(PAIRS / backend / "step.tar.xz")


def _module(backend: str, edit: str) -> ModuleDiff:
    (module,) = diff(_base(backend), PAIRS / backend / f"{edit}.tar.xz").modules
    return module


def _causes(module: ModuleDiff) -> tuple[Cause, ...]:
    return () if module.lines is None else module.lines.causes


@every_backend
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_the_only_cause_and_has_all_bytes(backend: str, edit: str) -> None:
    module = _module(backend, edit)
    (cause,) = _causes(module)
    assert cause.what.startswith(EDITS[edit])
    if edit in LINES:
        assert cause.sources[0] == f"programs/steps.py:{LINES[edit]}"
    assert module.memory is not None
    assert module.collectives is not None
    assert cause.delta_bytes == module.memory.metrics["total_bytes"].delta
    assert cause.delta_wire_bytes == module.collectives.wire_bytes.delta
    parts = cause.consequences
    assert cause.delta_bytes == sum(part.delta_bytes or 0 for part in parts)
    assert cause.delta_wire_bytes == sum(part.delta_wire_bytes or 0 for part in parts)


@pytest.mark.parametrize(
    ("backend", "edit"),
    [
        ("cpu", "microbatches"),
        ("tpu", "other_policy"),
        ("gpu", "added_norm"),
        ("tpu", "update_apart"),
    ],
)
def test_a_snapshot_has_the_causes_of_its_dump(backend: str, edit: str) -> None:
    text = snapshot_text(snapshot(_base(backend)), tool_version="1")
    saved = read_snapshot(json.loads(text), "base.json")
    module = diff(saved, PAIRS / backend / f"{edit}.tar.xz").modules[0]
    found = [cause.to_dict() for cause in _causes(module)]
    assert found
    assert found == [cause.to_dict() for cause in _causes(_module(backend, edit))]


@pytest.mark.parametrize(
    ("version", "forms"),
    [
        ("0_12_0", "the head has meshes of Shardy, the base has not"),
        ("0_4_30", "the head has call stacks in tables, the base has not; "),
    ],
)
def test_another_version_of_jax_leads_the_causes(version: str, forms: str) -> None:
    (module,) = diff(SAMPLES / f"cpu_jax_{version}" / "tp_mlp", SAMPLES / "cpu" / "tp_mlp").modules
    assert _causes(module)[0].what.startswith(f"another version of JAX or XLA: {forms}")


def test_an_equal_program_names_what_of_the_compiler_is_not_known(tmp_path: Path) -> None:
    for name in ("step", "other_flags"):
        with tarfile.open(PAIRS / "tpu" / f"{name}.tar.xz") as archive:
            kept = [one for one in archive if not one.name.endswith("debug_options")]
            archive.extractall(tmp_path / name, kept, filter="data")
    (module,) = diff(tmp_path / "step", tmp_path / "other_flags").modules
    assert [cause.what for cause in _causes(module)] == [
        "none in the program: the texts from before optimizations are the same; other flags or "
        "target; the same compiler"
    ]


@every_backend
def test_other_names_and_lines_of_functions_are_no_change(backend: str) -> None:
    module = _module(backend, "moved_lines")
    assert module.identical
    assert _causes(module) == ()
