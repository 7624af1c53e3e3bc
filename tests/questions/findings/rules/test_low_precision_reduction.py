"""C009: sums of 16 bits whose result is converted at once."""

from __future__ import annotations

from functools import partial

from hlo_lens.questions.findings.findings import all_findings
from tests.questions.findings.programs import analysis_of_text, findings_of
from tests.timing import cpu_seconds

TEXT = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b)
}

ENTRY main {
  x = bf16[4096]{0} parameter(0)
  r = bf16[4096]{0} all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}},\
 use_global_device_ids=true, to_apply=add
  ROOT c = USE
}
"""


def test_a_sum_that_is_converted_to_f32_is_found() -> None:
    (found,) = findings_of(TEXT.replace("USE", "f32[4096]{0} convert(r)"), "C009")
    assert found.message == (
        "all-reduce over axis_0 adds bf16 values, converted to f32 at once: sums in f32 are more "
        "precise and send 12.0KiB more"
    )


def test_a_sum_that_stays_bf16_is_not() -> None:
    assert findings_of(TEXT.replace("USE", "bf16[4096]{0} negate(r)"), "C009") == ()


COMBINED = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b)
}

ENTRY main {
  x = bf16[4096]{0} parameter(0)
  y = bf16[64]{0} parameter(1)
  r = (bf16[4096]{0}, bf16[64]{0}) all-reduce(x, y), channel_id=1, replica_groups={{0,1,2,3}},\
 use_global_device_ids=true, to_apply=add
  p = bf16[4096]{0} get-tuple-element(r), index=0
  q = bf16[64]{0} get-tuple-element(r), index=1
  c = f32[4096]{0} convert(p)
  d = USE
  ROOT t = (f32[4096]{0}, f32[64]{0}) tuple(c, d)
}
"""


def test_all_sums_that_xla_combined_must_be_converted() -> None:
    assert len(findings_of(COMBINED.replace("USE", "f32[64]{0} convert(q)"), "C009")) == 1
    kept = COMBINED.replace("USE", "bf16[64]{0} negate(q)").replace("0}, f32[64]", "0}, bf16[64]")
    assert findings_of(kept, "C009") == ()


def combined(count: int) -> str:
    """Return a program with a sum of many arrays, each of which is converted."""
    numbers = range(count)
    lines = [
        *(f"x{n} = bf16[64]{{0}} parameter({n})" for n in numbers),
        f"r = ({', '.join('bf16[64]{0}' for _ in numbers)}) all-reduce("
        f"{', '.join(f'x{n}' for n in numbers)}), channel_id=1, replica_groups={{{{0,1,2,3}}}}, "
        "use_global_device_ids=true, to_apply=add",
        *(f"p{n} = bf16[64]{{0}} get-tuple-element(r), index={n}" for n in numbers),
        *(f"c{n} = f32[64]{{0}} convert(p{n})" for n in numbers),
        "ROOT t = f32[64]{0} add(c0, c1)",
    ]
    return COMBINED[: COMBINED.index("  x = ")] + "  " + "\n  ".join(lines) + "\n}\n"


def test_time_grows_with_the_arrays_that_xla_combined() -> None:
    assert len(findings_of(combined(3), "C009")) == 1
    seconds = []
    for count in (250, 2000):
        runs = [partial(all_findings, analysis_of_text(combined(count))) for _ in range(3)]
        seconds.append(min(map(cpu_seconds, runs)))
    assert seconds[1] < 24 * seconds[0], "8 times is linear, 64 times quadratic"
