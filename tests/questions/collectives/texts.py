"""Texts with collectives, and what is read of them."""

from __future__ import annotations

from hlo_lens.questions.collectives.collective import Collective, Collectives, collectives
from tests.questions.texts import module_of

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""


def counted(lines: str, header: str = ", num_partitions=8", before: str = "") -> Collectives:
    """Return the collectives of an entry with these lines, and of computations before it."""
    text = f"HloModule m{header}\n{ADD}{before}\nENTRY main {{\n{lines}\n}}\n"
    return collectives(module_of(text))


def one_of(line: str, header: str = ", num_partitions=8") -> Collective:
    """Return the only collective, of one line."""
    (found,) = counted(f"  x = f32[8,4] parameter(0)\n  ROOT c = {line}", header).collectives
    return found


TPU_PART = """
{name} {{
  p = f32[8,4] parameter(0)
  g{number} = f32[16,4] all-gather(p), channel_id={channel}, replica_groups={{}}, dimensions={{0}}
  ROOT t = f32[16,4] {root}
}}
"""


def tpu_part(name: str, number: int, channel: int) -> str:
    """Return a computation that is a part of an asynchronous collective of TPUs."""
    target = {"start": "AsyncCollectiveStart", "end": "AsyncCollectiveDone"}.get(name)
    root = (
        f'custom-call(g{number}), custom_call_target="{target}"' if target else f"negate(g{number})"
    )
    return TPU_PART.format(name=name, number=number, channel=channel, root=root)


BETWEEN_SLICES = """HloModule m, is_scheduled=true, num_partitions=4

ENTRY main {
  x = f32[2,4] parameter(0)
  y = f32[8,4] parameter(1)
  t = token[] after-all()
  r2 = (f32[8,4], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true, ACROSS"two"}
  s1 = (f32[2,4], u32[], token[]) send(x, t), channel_id=2, is_host_transfer=true, ACROSS"one"}
  s2 = (f32[8,4], u32[], token[]) send(y, t), channel_id=3, is_host_transfer=true, ACROSS"two"}
  r1 = (f32[8,4], u32[], token[]) recv(t), channel_id=4, is_host_transfer=true, ACROSS"one"}
  d1 = token[] send-done(s1), channel_id=2, is_host_transfer=true
  n = f32[8,4] negate(y)
  e1 = (f32[8,4], token[]) recv-done(r1), channel_id=4, is_host_transfer=true
  d2 = token[] send-done(s2), channel_id=3, is_host_transfer=true
  e2 = (f32[8,4], token[]) recv-done(r2), channel_id=1, is_host_transfer=true
  ROOT f = f32[8,4] get-tuple-element(e2), index=0
}
""".replace(
    "ACROSS",
    'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
    '_xla_megascale_transfer_type="ALL_GATHER",_xla_host_transfer_rendezvous=',
)
