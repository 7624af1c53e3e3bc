"""Mutated inputs lead to a result or a HloLensError: a short seeded run, and past findings."""

from __future__ import annotations

import contextlib
import re

import pytest

import hlo_lens
from hlo_lens.program.origins import origins
from hlo_lens.text.errors import HloLensError
from tests import fuzz

LONG = "9" * 4400
HEAD = "HloModule m, is_scheduled=true\n\n"
ENTRY = f"{HEAD}ENTRY e {{\n  p = f32[8] parameter(0)\n"

HLO = {
    "an instruction that names itself": f"{ENTRY}  ROOT q = f32[8] add(q, p)\n}}\n",
    "a view of itself": f"{ENTRY}  ROOT b = f32[8] bitcast(b)\n}}\n",
    "recv-done of another shape": f"{HEAD}ENTRY e {{\n  t = token[] after-all()\n"
    "  r = (f32[8], u32[], token[]) recv(t), channel_id=1\n"
    "  ROOT d = f32[9] recv-done(r), channel_id=1\n}\n",
    "async-update before its source": f"{HEAD}f {{\n  ROOT a = f32[8] parameter(0)\n}}\n\n"
    "ENTRY e {\n  p = f32[8] parameter(0)\n"
    "  u = ((f32[8]), f32[8], s32[]) async-update(s), calls=f\n"
    "  s = ((f32[8]), f32[8], s32[]) async-start(p), calls=f\n"
    "  ROOT d = f32[8] async-done(u), calls=f\n}\n",
    "async-update of itself": f"{ENTRY}  u = ((f32[8]), f32[8], s32[]) async-update(u)\n"
    "  ROOT d = f32[8] async-done(u)\n}\n",
    "all-gather-done before its start": f"{ENTRY}  d = f32[16] all-gather-done(s)\n"
    "  s = (f32[8], f32[16]) all-gather-start(p), replica_groups={{0,1}}, dimensions={0}\n"
    "  ROOT r = f32[8] copy(p)\n}\n",
    "a fusion whose computation is cut off": f"{HEAD}f {{\n  a = f32[8] parameter(0)\n"
    "  b = f32[8] add(a, a)\n\nENTRY e {\n  p = f32[8] parameter(0)\n  c = f32[8] copy(p)\n"
    "  q = f32[8] fusion(c), kind=kLoop, calls=f\n  ROOT r = f32[8] copy(q)\n}\n",
    "a loop whose body contains it": f"{HEAD}ENTRY e {{\n  p = (s32[]) parameter(0)\n"
    "  ROOT w = (s32[]) while(w), condition=e, body=e\n}\n",
    "a fusion that calls its own computation": f"{ENTRY}"
    "  ROOT q = f32[8] fusion(p), kind=kLoop, calls=e\n}\n",
    "long numbers": f"HloModule m, replica_count={LONG}, num_partitions={LONG}, "
    f"input_output_alias={{ {{{LONG}}}: ({LONG}, {{}}, may-alias) }}\n\nENTRY e {{\n"
    f"  p = f32[8] parameter({LONG}), sharding={{devices=[{LONG}]<=[{LONG}]}}\n"
    f"  q = f32[{LONG}] get-tuple-element(p), index={LONG}\n"
    f"  c = s32[] constant({LONG})\n"
    f"  ROOT r = f32[8] all-reduce(p), channel_id={LONG}, replica_groups={{{{{LONG},1}}}}\n}}\n",
    "NUL bytes": "HloModule m\0\n\nENTRY e {\n  ROOT p = f32[8] parameter(0)\0\n}\n\0",
}


def test_a_seeded_run_has_no_findings() -> None:
    counts, found = fuzz.fuzzed(14, 400)
    assert found == {}
    assert counts.total() == 400


@pytest.mark.parametrize("target", ["hlo", "hlo-pages", "hlo-diff", "hlo-file"])
@pytest.mark.parametrize("text", HLO.values(), ids=HLO.keys())
def test_strange_hlo_gives_a_result_or_an_error(text: str, target: str) -> None:
    _, run, _ = fuzz.TARGETS[target]
    with contextlib.suppress(HloLensError):
        run(text.encode())


@pytest.mark.parametrize("number", re.findall(r"\w+=\W*\d+", fuzz.FIELDS))
def test_a_field_of_many_digits_gives_a_result_or_an_error(number: str) -> None:
    changed = re.sub(r"\d+$", "9" * 5000, number)
    with contextlib.suppress(HloLensError):
        fuzz.hlo_pages(fuzz.FIELDS.replace(number, changed, 1).encode())


@pytest.mark.parametrize("line", [1, LONG])
def test_a_source_line_of_many_digits_is_not_known(line: int | str) -> None:
    text = fuzz.FIELDS.replace("source_line=3", f"source_line={line}")
    (module,) = hlo_lens.modules_of(hlo_lens.parse_hlo(text))
    place = origins(module).place(0)
    assert place is not None
    assert place.line == (1 if line == 1 else None)


@pytest.mark.parametrize(
    "line", ["{{0,1},'y'}", f"collectives.static.all-reduce<={LONG}", "{devices=[2,2]0,1\x1f,2,3}"]
)
def test_strange_small_texts_give_a_result_or_an_error(line: str) -> None:
    fuzz.small_texts(line.encode())


@pytest.mark.parametrize(
    ("target", "old", "new"),
    [
        ("budget", "threshold = 0", f"threshold = {LONG}"),
        ("budget", "14.5GiB", LONG),
        ("stablehlo", "tensor<16x?xbf16>", "tensor<16x?0xbf16>"),
    ],
)
def test_a_changed_seed_gives_a_result_or_an_error(target: str, old: str, new: str) -> None:
    kind, run, _ = fuzz.TARGETS[target]
    seed = fuzz.seeds()[kind][0].decode()
    assert old in seed
    with contextlib.suppress(HloLensError):
        run(seed.replace(old, new, 1).encode())


@pytest.mark.parametrize("shape", [f"float32[{LONG}]", f"float32[{LONG}@data]"])
def test_a_log_with_a_long_dimension_gives_a_result_or_an_error(shape: str) -> None:
    _, run, _ = fuzz.TARGETS["log"]
    with contextlib.suppress(HloLensError):
        run(f"jax._src.core.ShardingTypeError: Got operand=ShapedArray({shape})\n".encode())
