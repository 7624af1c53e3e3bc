"""M002: arguments that are donated in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of
from tests.questions.sharding.programs import SDY, V2_MODEL

if TYPE_CHECKING:
    from pathlib import Path

STEP = """HloModule jit_step, is_scheduled=true, HEADER

ENTRY main {
  old = bf16[512,512]{1,0} parameter(0), metadata={op_name="cache"}
  new = TYPE[SIZE,512]{1,0} iota(), iota_dimension=0
  ROOT t = (TYPE[SIZE,512]{1,0}) tuple(new)
}
"""


def _text(kind: str, size: int, header: str = "buffer_donor={ (0, {}) }") -> str:
    return STEP.replace("HEADER", header).replace("TYPE", kind).replace("SIZE", str(size))


@pytest.mark.parametrize(
    ("kind", "size", "reason", "fix", "saved"),
    [
        ("f32", 512, "element type differs: bf16, in output {0} f32", "cast the new", 512 << 10),
        ("bf16", 256, "no output has its shape", "return the new value of cache", None),
    ],
)
def test_the_reason_is_in_the_message(
    kind: str, size: int, reason: str, fix: str, saved: int | None
) -> None:
    (found,) = findings_of(_text(kind, size), "M002")
    assert found.message == (
        f"argument cache (512.0KiB) is donated, but its memory is not reused: {reason}"
    )
    assert found.fix.startswith(fix)
    assert found.saves.bytes == saved


def test_a_donation_that_is_used_has_no_finding() -> None:
    assert findings_of(_text("bf16", 512, "input_output_alias={ {0}: (0, {}) }"), "M002") == ()


def test_an_alias_that_xla_dropped() -> None:
    before = _text("bf16", 512, "input_output_alias={ {0}: (0, {}) }")
    (found,) = findings_of(_text("bf16", 512, "replica_count=1"), "M002", before)
    assert found.message.endswith("requested for {0}, not in XLA's text")


@pytest.mark.parametrize(
    ("stage", "count"), [("after_spmd_partitioner", 0), ("sm_9.0a_gpu_after_optimizations", 1)]
)
def test_a_stage_before_the_last_does_not_show_whether_donations_are_used(
    stage: str, count: int, tmp_path: Path
) -> None:
    text = _text("bf16", 512).replace(" is_scheduled=true,", "")
    (tmp_path / f"module_0001.jit_step.{stage}.txt").write_text(text)
    assert len(hlo_lens.lint(tmp_path, select=["M002"]).findings) == count


_BEFORE = f"""HloModule jit_step, num_partitions=8, {SDY}, DONOR

ENTRY main {{
  k = f32[256,64]{{1,0}} parameter(0), ENTERS, metadata={{op_name="cache['k']"}}
  v = f32[256,64]{{1,0}} parameter(1), ENTERS, metadata={{op_name="cache['v']"}}
  x = f32[1,64]{{1,0}} parameter(2), sharding={{replicated}}, metadata={{op_name="x"}}
  z = s32[] constant(0)
  k2 = f32[256,64]{{1,0}} dynamic-update-slice(k, x, z, z)
  v2 = f32[256,64]{{1,0}} dynamic-update-slice(v, x, z, z)
  ROOT t = (f32[256,64]{{1,0}}, f32[256,64]{{1,0}}) tuple(k2, v2), sharding={{LEAVES, LEAVES}}
}}
"""
_AFTER = """HloModule jit_step, is_scheduled=true, num_partitions=8, DONOR

ENTRY main_spmd {
  k = f32[256,IN]{1,0} parameter(0), metadata={op_name="cache['k']"}
  v = f32[256,IN]{1,0} parameter(1), metadata={op_name="cache['v']"}
  x = f32[1,64]{1,0} parameter(2), metadata={op_name="x"}
  k2 = f32[256,OUT]{1,0} custom-call(k, x), custom_call_target="f"
  v2 = f32[256,OUT]{1,0} custom-call(v, x), custom_call_target="f"
  ROOT t = (f32[256,OUT]{1,0}, f32[256,OUT]{1,0}) tuple(k2, v2)
}
"""
_WHOLE = "sharding={replicated}"


def _step(enters: str, leaves: str, *, is_donated: bool) -> tuple[str, str]:
    """Return a step that overwrites a part of a cache, after and before optimizations."""
    donor = "buffer_donor={ (0, {}), (1, {}) }" if is_donated else "replica_count=1"
    before = _BEFORE.replace("ENTERS", enters).replace("LEAVES", leaves.removeprefix("sharding="))
    sizes = ("64" if enters == _WHOLE else "16"), ("64" if leaves == _WHOLE else "16")
    after = _AFTER.replace("IN]", f"{sizes[0]}]").replace("OUT", sizes[1])
    return after.replace("DONOR", donor), before.replace("DONOR", donor)


@pytest.mark.parametrize("is_donated", [True, False])
def test_an_argument_gets_the_sharding_of_the_result_that_replaces_it(is_donated: bool) -> None:
    after, before = _step(_WHOLE, V2_MODEL, is_donated=is_donated)
    (found,) = findings_of(after, "M002", before)
    lost = "its donation is lost" if is_donated else "its memory cannot be reused"
    assert found.message == (
        f"cache (2 arrays) enters P() and leaves P(None, 'model'): {lost} (128.0KiB)"
    )
    assert found.fix.startswith("in_shardings of cache (2 arrays): P() -> P(None, 'model')")
    assert found.severity is Severity.WARNING
    changes = [f"{one.kind} {one.target}" for one in found.changes]
    assert changes[-1] == "shard cache['**']=P(None, 'model')"
    assert changes[:-1] == ([] if is_donated else ["donate cache['**']"])  # JAX dropped it
    values = {value for one in findings_of(after, "M003", before) for value in one.values}
    assert not {"cache['k']", "result{0}"} & values


def test_a_result_that_is_whole_gets_the_sharding_of_the_argument() -> None:
    after, before = _step(V2_MODEL, _WHOLE, is_donated=True)
    (found,) = findings_of(after, "M002", before)
    assert found.fix.startswith("out_shardings of result{0}, result{1}: P() -> P(None, 'model')")
    targets = [one.target for one in found.changes]
    assert targets == ["result{0}=P(None, 'model')", "result{1}=P(None, 'model')"]


def test_the_memory_of_an_argument_may_be_that_of_another_result() -> None:
    """JAX pairs donated arguments and results by shape and sharding, in their order."""
    after, before = _step(_WHOLE, V2_MODEL, is_donated=False)
    alias = "input_output_alias={ {1}: (0, {}, may-alias) }"
    texts = [one.replace("replica_count=1", alias) for one in (after, before)]
    (found,) = findings_of(texts[0], "M002", texts[1])
    assert found.message.startswith("cache['k'] enters P() and leaves P(None, 'model')")
    assert [one.target for one in found.changes] == ["cache['k']=P(None, 'model')"]
