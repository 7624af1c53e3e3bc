"""Pages of dumps with hostile names, in a real browser: names are text, and nothing else."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from hlo_lens.questions.report import report_on
from tests.corpus import SAMPLES
from tests.questions.report.html.pages import page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

NAMES = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "__proto__",
    "constructor",
    "hasOwnProperty/valueOf",
    "\u202egnp.exe",
    "\U0001f600",
    "x" * 10_000,
    "javascript:alert(3)",
    "'><svg onload=alert(4)>",
    "${alert(5)}",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of a sample whose operations, files, axes, module and instructions have such names."""
    folder = tmp_path_factory.mktemp("hostile") / "dump"
    shutil.copytree(SAMPLES / "tpu" / "tp_mlp", folder)
    for path in folder.glob("*.txt"):
        path.write_text(_renamed(path.read_text()), encoding="utf-8")
    return page_of(report_on(str(folder)))


def _renamed(text: str) -> str:
    names = iter(NAMES * (len(text) // 20))
    text = re.sub(r'(op_name="|^\d+ ")', lambda one: f"{one[1]}{next(names)}/", text, flags=re.M)
    text = text.replace('"data"', '"__proto__"').replace('"model"', '"</script><b>"')
    text = text.replace("HloModule jit_train_step", "HloModule __proto__")
    return re.sub(r"\bcopy-start\.12\b", "constructor", text)


def test_hostile_names_are_text_in_every_view(open_page: Opener, hostile: str) -> None:
    opened = open_page(hostile)
    dialogs: list[str] = []
    opened.page.on("dialog", lambda one: dialogs.append(one.message))
    page = opened.open()
    opened.draw_all()
    for picture in ("Treemap", "Icicle", "Places in the heap", "Table"):
        page.get_by_role("button", name=picture, exact=True).click()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.wait_for_timeout(50)
    assert page.locator("main :is(img, script, iframe, [onload], [onerror], [src])").count() == 0
    assert page.locator(".failed").count() == 0
    assert dialogs == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    text = page.locator("main").inner_text()
    assert "<img src=x onerror=alert(1)>" in text
    assert "[object Object]" not in text
    assert "function " not in text
    assert "\u202e" not in text
    opened.assert_quiet()


def test_an_axis_of_any_name_has_its_bytes(open_page: Opener, hostile: str) -> None:
    opened = open_page(hostile)
    page = opened.open()
    opened.draw_all()
    table = page.locator("#view-collectives").get_by_label("bytes by axis").inner_text()
    assert "__proto__" in table
    assert "</script><b>" in table
    assert page.locator("#view-collectives .link.idle").count() == 0
    page.locator("#view-collectives").get_by_role("button", name="__proto__").click()
    rows = page.locator("#view-collectives .singles tbody tr td:nth-child(2)").all_inner_texts()
    assert rows
    assert set(rows) == {"__proto__"}


def test_an_instruction_named_constructor_is_selected(open_page: Opener, hostile: str) -> None:
    opened = open_page(hostile)
    page = opened.open("#i=constructor")
    opened.draw_all()
    assert "copy-start(" in page.locator("aside.card").inner_text()
    opened.assert_quiet()
