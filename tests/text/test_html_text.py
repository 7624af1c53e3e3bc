"""Texts copied from the source of a web page are read as the page shows them."""

from __future__ import annotations

import html

import pytest

from hlo_lens.syntax.logs.log import parse_log
from hlo_lens.text.html_text import without_html
from hlo_lens.text.source import clean

MESSAGE = (
    "Ran out of memory in memory space hbm. Used 3.00G of 1.00G hbm. Exceeded hbm capacity by "
    "2.00G.\n\nTotal hbm usage >= 3.00G:\n    program           3.00G \n\n"
    "  Largest program allocations in hbm:\n\n  1. Size: 1.00G\n"
    '     Operator: op_name="jit(f)/a" source_file="x.py" source_line=3\n'
    "     Shape: f32[8]{0}\n     Unpadded size: 1.00G\n     XLA label: a = add(b)\n"
    "     Allocation type: HLO temp\n     ==========================\n"
)
PAGES = {
    "entities": html.escape(MESSAGE),
    "in tags": f"<details><pre><code>{html.escape(MESSAGE)}</code></pre></details>",
    "lines in tags": "".join(
        f'<span class="line">{html.escape(line)}</span>\n' for line in MESSAGE.splitlines()
    ),
}


@pytest.mark.parametrize("text", PAGES.values(), ids=PAGES)
def test_message_of_a_page_is_read_as_it_is_shown(text: str) -> None:
    log = parse_log(text)
    assert log.compile_ooms == parse_log(MESSAGE).compile_ooms
    assert log.gaps == ()


def test_columns_are_those_of_the_file() -> None:
    text = "a &gt; b &quot;c&quot; x\n&lt;y <b>z</b>\n"
    source = without_html(clean(text))
    assert source.text == 'a > b "c" x\n<y z\n'
    assert source.line_column(source.text.index("x")) == (1, text.index("x") + 1)
    assert source.line_column(source.text.index("z")) == (2, len("&lt;y <b>") + 1)


@pytest.mark.parametrize("text", ["a & b", "f(&x); y", "<b>bold</b>", "a&amp;b"])
def test_text_that_is_no_page_remains(text: str) -> None:
    source = clean(text)
    assert without_html(source) is source
