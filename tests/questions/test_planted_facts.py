"""Results of passes on the sample dumps, against planted facts and figures of the compiler."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hlo_lens.load import load
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import collectives

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

SAMPLES = Path(__file__).parents[2] / "sample_dumps"
FACTS = sorted(SAMPLES.glob("*/*/expect.json"))
WIDTH = {"f32": 4, "bf16": 2, "s32": 4, "pred": 1}

sample = pytest.mark.parametrize("path", FACTS, ids=lambda path: "/".join(path.parts[-3:-1]))


@functools.cache
def _results(path: Path) -> ModuleDump:
    (text,) = path.parent.glob("*after_optimizations.txt")
    found = load(text).modules[0]
    assert hlo_text(found).gaps == ()
    return found


def _facts(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8")))


@sample
def test_arguments_and_aliases_are_those_of_the_compiler(path: Path) -> None:
    signature, memory = entry_signature(_results(path)), _facts(path)["memory_analysis"]
    arguments = [value.padded_size_bytes or 0 for value in signature.parameters]
    aliased = [v.padded_size_bytes or 0 for v in signature.outputs if v.aliased_with is not None]
    assert sum(arguments) == memory["argument_size_in_bytes"]
    assert sum(aliased) == memory["alias_size_in_bytes"]


@sample
def test_parameters_have_the_names_and_shapes_of_the_arguments(path: Path) -> None:
    values = {value.number: value for value in entry_signature(_results(path)).parameters}
    for argument in _facts(path)["inputs"]:
        number = argument["hlo_parameter"]
        if number is not None:
            assert values[number].name == argument["name"]
            shape = ",".join(map(str, argument["shard_shape"]))
            assert (values[number].shape or "").endswith(f"[{shape}]")


@sample
def test_collectives_are_those_that_were_planted(path: Path) -> None:
    found = collectives(_results(path)).collectives
    for planted in _facts(path)["planted"].get("collectives", ()):
        rows = [c for c in found if f"/{planted.get('scope')}/" in f"{c.op_name}/"]
        kinds = {planted.get("opcode"), "recv" if planted.get("opcode") == "send" else ""}
        elements = [
            math.prod(planted[shape])
            for shape in ("operand_shape", "result_shape")
            if shape in planted
        ]
        for row in rows:
            assert row.kind in kinds
            assert row.group_size
            if row.source_target_pairs is None:
                assert row.group_size == planted["group_size"]
            assert planted["group_size"] % row.group_size == 0
            assert row.payload_bytes == max(elements) * WIDTH[row.element_type or ""]


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_every_planted_collective_is_counted_once(backend: str) -> None:
    path = SAMPLES / backend / "shard_map_collectives" / "expect.json"
    found = collectives(_results(path))
    planted = [fact["opcode"] for fact in _facts(path)["planted"]["collectives"]]
    counts = found.static_counts()
    assert counts == {kind: planted.count(kind) for kind in counts} | {"recv": counts["send"]}
