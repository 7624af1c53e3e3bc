"""Leads of the lines of a log, and messages in strings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator

import pytest

from hlo_lens.logs.log import parse_log
from hlo_lens.text.log_prefixes import without_escapes, without_leads
from hlo_lens.text.source import Source
from tests.hlo_texts import E1

OOM = """jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used \
20.00G of 15.75G hbm. Exceeded hbm capacity by 4.25G.

Total hbm usage >= 20.26G:
    reserved        258.00M
    program          16.00G
    arguments         4.00G

Output size 4.00G; shares 0B with arguments.

  Largest program allocations in hbm:

  1. Size: 8.00G
     Operator: op_name="jit(f)/dot_general"
     Shape: f32[2048,1048576]{1,0:T(8,128)}
"""

Lead = Callable[[int], str]

LEADS: dict[str, Lead] = {
    "logging": lambda k: f"2026-03-04 10:00:{k % 60:02},{k % 1000:03} ERROR train.py:7 - ",
    "bracketed": lambda k: f"[2026-03-04 10:00:{k % 60:02},001][jax][ERROR] - ",
    "absl": lambda k: f"E0304 10:00:{k % 60:02}.123456  123 pjrt.cc:99] ",
    "kubectl": lambda k: "[pod/job-0-abcde/main] ",
    "compose": lambda k: "worker-1  | ",
    "ray": lambda k: "(Worker pid=99, ip=10.0.0.7) ",
    "torchrun": lambda k: "[rank12]:",
    "pdsh": lambda k: "node0012: ",
    "kaggle": lambda k: f"{1200 + k / 10:.1f}s {k + 1} ",
    "line numbers": lambda k: f"{k + 95:5} ",
    "quotation": lambda k: "> > ",
    "pytest": lambda k: "E       ",
    "iso": lambda k: f"2026-03-04T10:00:{k % 60:02}.5Z app=train level=error msg=",
}


def led(text: str, lead: Lead) -> str:
    return "".join(f"{lead(k)}{line}" for k, line in enumerate(text.splitlines(keepends=True)))


@pytest.mark.parametrize("name", LEADS)
@pytest.mark.parametrize("text", [OOM, E1], ids=["message", "module"])
@pytest.mark.parametrize("before", ["", "starting the job\nepoch 1\n"], ids=["alone", "in a log"])
def test_lead_is_cut(name: str, text: str, before: str) -> None:
    log = before + led(text, LEADS[name])
    (found,) = without_leads(Source(log))
    assert found.text == before + text
    last = [line for line in text.splitlines() if line][-1]
    offset = found.text.rindex(last)
    line, column = found.line_column(offset)
    assert log.splitlines()[line - 1][column - 1 :] == last


@pytest.mark.parametrize("text", [OOM, E1, f"log\n\n{OOM}\nmore\n", f"1: a\n2: b\n{E1}"])
def test_text_without_lead_stays(text: str) -> None:
    source = Source(text)
    assert without_leads(source) == [source]


def test_blanks_at_the_end_of_a_lead_may_be_missing() -> None:
    log = "\n".join(f"E       {line}".rstrip() for line in OOM.splitlines())
    (found,) = without_leads(Source(log))
    assert found.text == OOM.rstrip("\n")


def _alternating(texts: list[str], leads: list[Lead]) -> Iterator[str]:
    lines = [led(text, lead).splitlines() for text, lead in zip(texts, leads, strict=True)]
    for several in itertools.zip_longest(*lines):
        yield from (line for line in several if line is not None)


@pytest.mark.parametrize(
    "lead",
    [
        lambda rank: lambda k: f"[rank{rank}]: ",
        lambda rank: lambda k: f"{rank}: ",
        lambda rank: lambda k: f"2026-03-04 10:00:{k % 60:02}.{k % 7} node-{rank} | ",
        lambda rank: lambda k: f"(Worker pid={100 + rank}) ",
    ],
)
def test_processes_that_alternate_are_separated(lead: Callable[[int], Lead]) -> None:
    texts = [OOM, OOM.replace("20.00G", "21.00G"), OOM.replace("20.00G", "22.00G")]
    log = "\n".join(_alternating(texts, [lead(rank) for rank in range(3)])) + "\n"
    found = without_leads(Source(log))
    assert ["\n".join(filter(None, one.text.splitlines())) for one in found] == [
        "\n".join(filter(None, text.splitlines())) for text in texts
    ]
    third = found[2].text.index("Total hbm")
    line, column = found[2].line_column(third)
    assert log.splitlines()[line - 1][column - 1 :] == "Total hbm usage >= 20.26G:"


def test_processes_that_do_not_alternate_are_one_text() -> None:
    log = led(OOM, lambda k: "[rank0]: ") + led(OOM, lambda k: "[rank1]: ")
    (found,) = without_leads(Source(log))
    assert found.text == OOM * 2


# ---- messages in strings -----------------------------------------------------------------------

STATE = """W bfc_allocator.cc:48] Allocator (GPU_0_bfc) ran out of memory trying to allocate 8.00GiB
I bfc_allocator.cc:66] BFCAllocator dump for GPU_0_bfc
I bfc_allocator.cc:66] Bin (256): \tTotal Chunks: 2, Chunks in use: 2. 512B allocated for chunks. \
512B in use in bin.
I bfc_allocator.cc:66] Next region of size 1024
I bfc_allocator.cc:66] InUse at 7f00 of size 256 next 1
I bfc_allocator.cc:66] Free  at 7f20 of size 512 next 3
I bfc_allocator.cc:66] 2 Chunks of size 256 totalling 512B
I bfc_allocator.cc:66] Sum Total of in-use chunks: 512B
I bfc_allocator.cc:66] Stats:
Limit:                            4096
InUse:                             512
MaxInUse:                          512
MaxAllocSize:                      256
LargestFreeBlock:                  512
"""
FORMS = {
    "a string of JSON": (json.dumps({"ts": "x", "message": STATE, "level": "error"}), 1),
    "JSON in JSON": (json.dumps({"log": json.dumps({"m": STATE})}), 1),
    "a list of JSON": ("x " + json.dumps(["a", STATE]), 1),
    "repr of an exception": (f"XlaRuntimeError({STATE!r})", 1),
    "bytes": (f"stderr: b{STATE!r}", 1),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_state_of_an_allocator_is_read_from(name: str) -> None:
    text, line = FORMS[name]
    plain, found = parse_log(STATE), parse_log(text)
    assert not found.gaps
    assert found.allocators == plain.allocators
    assert [one.requested for one in found.failures] == [one.requested for one in plain.failures]
    assert found.failures[0].line == line
    assert found.lines == text.count("\n") + 1
    assert found.understood_lines <= found.lines


def test_lines_and_columns_are_those_of_the_file() -> None:
    text = 'first\n{"m": "Out of memory allocating 5 bytes.\\nsecond\\nthird"}\nlast'
    source = without_escapes(Source(text))
    assert source.line_column(source.text.index("Out")) == (2, text.index("Out") - 5)
    assert source.line_column(source.text.index("third")) == (2, text.index("third") - 5)
    assert source.line_column(source.text.index("last")) == (3, 1)
    assert source.line_column(source.text.index("second")) == (2, text.index("second") - 5)


def test_other_lines_stay_as_they_are() -> None:
    for text in (
        'path = "C:\\new\\name"\n',
        "Out of memory allocating 5 bytes",
    ):
        assert without_escapes(Source(text)).text == text
