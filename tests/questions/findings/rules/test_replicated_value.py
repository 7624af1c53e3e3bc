"""M003: values that a free mesh axis could divide."""

from __future__ import annotations

from hlo_lens import lint
from hlo_lens.questions.findings.finding import Remedy, Severity
from tests.corpus import ROOT
from tests.questions.findings.programs import findings_of
from tests.questions.sharding.programs import AFTER, BEFORE, SDY

DEVICES = "num_partitions=8"


def _larger(text: str) -> str:
    """Return a text of arrays with 64 rows, so that savings are worth mentioning."""
    return text.replace("f32[8,", "f32[64,").replace("f32[6,", "f32[48,")


def test_a_value_is_divided_over_the_axis_that_saves_most() -> None:
    found = findings_of(_larger(AFTER), "M003", _larger(BEFORE))
    by_value = {one.values: one for one in found}
    one = by_value[("x",)]
    assert one.message == "x (12.0KiB of inputs) is replicated over data and model (8 copies)"
    assert one.fix == "PartitionSpec P(None, 'model') divides dimension 1 over model"
    assert one.changes == (Remedy(kind="shard", target="x=P(None, 'model')"),)
    assert one.saves.bytes is None  # model divides w: a tensor-parallel product may need x whole
    assert by_value[("w",)].fix == "PartitionSpec P('data', 'model') divides dimension 0 over data"


def test_values_in_host_memory_take_no_memory_of_the_device() -> None:
    text = _larger(AFTER)
    values = {one.values for one in findings_of(text, "M003", _larger(BEFORE))}
    row = next(line for line in text.splitlines() if 'op_name="x"' in line and "} param" in line)
    on_host = row.replace("} parameter", ":S(5)} parameter")
    assert on_host != row
    left = {one.values for one in findings_of(text.replace(row, on_host), "M003", _larger(BEFORE))}
    assert ("x",) in values
    assert ("x",) not in left
    assert ("w",) in left


def test_values_divided_over_all_axes_have_no_finding() -> None:
    divided = "sharding={devices=[2,4]<=[8]}"
    before = _larger(BEFORE).replace("sharding={replicated}", divided)
    before = before.replace("{{replicated}, {replicated}}", f"{{{divided[9:]}, {divided[9:]}}}")
    before = before.replace("[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate", "[2,4]<=[8]")
    before = before.replace('[{}, {\\"model\\"}]', '[{\\"data\\"}, {\\"model\\"}]')
    after = _larger(AFTER).replace("f32[64,16]", "f32[32,16]").replace("f32[48,64]", "f32[24,16]")
    assert findings_of(after, "M003", before) == ()


STEP = """HloModule jit_step, is_scheduled=true, num_partitions=8, \
input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias), {2}: (2, {}, may-alias) }

ENTRY main {
  w = f32[256,256]{1,0} parameter(0), metadata={op_name="params.w"}
  m = f32[256,256]{1,0} parameter(1), metadata={op_name="opt.m"}
  n = f32[256,256]{1,0} parameter(2), metadata={op_name="opt.n"}
  x = f32[8,256]{1,0} parameter(3), metadata={op_name="x"}
  h = f32[8,256]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[256,256]{1,0} dot(x, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  m2 = f32[256,256]{1,0} add(m, g)
  n2 = f32[256,256]{1,0} multiply(n, g)
  u = f32[256,256]{1,0} add(m2, n2)
  w2 = f32[256,256]{1,0} subtract(w, u)
  ROOT t = (f32[256,256]{1,0}, f32[256,256]{1,0}, f32[256,256]{1,0}) tuple(w2, m2, n2)
}
"""


REPLICATED = "{replicated}"
ON_LAST = "sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"


def _before() -> str:
    """Return the step before partitioning: all is replicated."""
    text = STEP.replace("is_scheduled=true, ", "").replace("num_partitions=8", f"{DEVICES}, {SDY}")
    for number in range(4):
        given = f"parameter({number})"
        text = text.replace(given, f"{given}, sharding={REPLICATED}")
    results = ", ".join([REPLICATED] * 3)
    return text.replace("tuple(w2, m2, n2)", f"tuple(w2, m2, n2), sharding={{{results}}}")


def test_weights_and_optimizer_state_are_one_warning() -> None:
    (found,) = (one for one in findings_of(STEP, "M003", _before()) if "opt.m" in one.values)
    assert found.severity is Severity.WARNING
    assert found.message == (
        "opt.m and 2 others (768.0KiB of optimizer state and weights) are replicated over data and "
        "model (8 copies)"
    )
    assert found.saves.bytes == 3 * 256 * 256 * 4 * 3 // 4
    assert [one.target for one in found.changes] == ["opt['**']=P('model')", "params.w=P('model')"]


def test_data_parallelism_is_one_info_without_a_fix() -> None:
    """The axis divides the batch and no weight."""
    batch = "parameter(3), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
    after = STEP.replace("f32[8,256]", "f32[2,256]")
    before = _before().replace("parameter(3), sharding={replicated}", batch)
    (found,) = findings_of(after, "M003", before)
    assert found.severity is Severity.INFO
    assert found.message == (
        "3 arrays of optimizer state and weights (768.0KiB) are whole along model, as data "
        "parallelism has it"
    )
    assert found.is_by_design
    assert [one.target for one in found.changes] == ["opt['**']=P('model')", "params.w=P('model')"]


def test_weights_are_a_warning_if_the_axis_divides_others() -> None:
    other = 'parameter(4), SHARDING metadata={op_name="params.v"}\n  h ='
    after = STEP.replace("  h =", f"  v = f32[256,64]{{1,0}} {other.replace('SHARDING ', '')}")
    whole = f"  v = f32[256,256]{{1,0}} {other.replace('SHARDING', f'{ON_LAST},')}"
    found = findings_of(after, "M003", _before().replace("  h =", whole))
    assert [one.severity for one in found if "params.w" in one.values] == [Severity.WARNING]


def test_the_line_of_a_result_is_that_of_what_it_copies() -> None:
    """Else that of the call, which chooses the shardings of results."""
    for backend, line in (("cpu", "programs/wasteful.py:114"), ("tpu", "compile_program.py:165")):
        found = lint(ROOT / "sample_dumps" / backend / "wasteful", select=["M003"])
        (one,) = (one for one in found if one.values == ("result{3}",))
        assert one.source == line
