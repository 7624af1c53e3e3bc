"""Messages in strings of JSON and Python and in cells of Markdown are read as their lines."""

from __future__ import annotations

import json

import pytest

from hlo_lens.logs.logs_log import parse_log
from hlo_lens.text.escaped_lines import without_escapes
from hlo_lens.text.source import Source

STATE = """W bfc_allocator.cc:48] Allocator (GPU_0_bfc) ran out of memory trying to allocate 8.00GiB
I BFCAllocator dump for GPU_0_bfc
I Bin (256): \tTotal Chunks: 2, Chunks in use: 2. 512B allocated for chunks. 512B in use in bin.
I Next region of size 1024
I InUse at 7f00 of size 256 next 1
I Free  at 7f20 of size 512 next 3
I 2 Chunks of size 256 totalling 512B
I Sum Total of in-use chunks: 512B
I Stats:
Limit:                            4096
InUse:                             512
MaxInUse:                          512
MaxAllocSize:                      256
LargestFreeBlock:                  512
"""
CELL = STATE.strip().replace("\n", "<br>")
BACKTICKS = STATE.strip().replace("\n", "`<br />`")
FORMS = {
    "a string of JSON": (json.dumps({"ts": "x", "message": STATE, "level": "error"}), 1),
    "JSON in JSON": (json.dumps({"log": json.dumps({"m": STATE})}), 1),
    "a list of JSON": ("x " + json.dumps(["a", STATE]), 1),
    "repr of an exception": (f"XlaRuntimeError({STATE!r})", 1),
    "bytes": (f"stderr: b{STATE!r}", 1),
    "a cell": (f"| step | message |\n|---|---|\n| 1 | {CELL} |\n| 2 | ok |", 3),
    "a cell of code": (f"| step | message |\n|---|---|\n| 1 | `{BACKTICKS}` |", 3),
    "entries of a collector": (
        "\n".join(
            json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in STATE.splitlines()
        ),
        1,
    ),
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
        "a <br> b <br> c\n",
        "Out of memory allocating 5 bytes",
    ):
        assert without_escapes(Source(text)).text == text
