"""Screenshots of pages for the handbook, made from samples: ``python -m tests.pictures``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.report.page import report_modules
from tests.corpus import ROOT
from tests.questions.report.html.conftest import chromium, options
from tests.questions.report.html.pages import page_of

FOLDER = ROOT / "hlo_lens" / "manual" / "pictures"
LARGEST = 200_000
"""Bytes of a picture at most."""

WIDTH, HEIGHT = 1100, 1600


class Picture(NamedTuple):
    """A screenshot: file, sample, view, button to press, colour scheme."""

    name: str
    sample: str
    view: str
    press: str = ""
    scheme: str = "light"


PICTURES = (
    Picture("memory", "gpu/tp_mlp", "memory"),
    Picture("treemap", "gpu/tp_mlp", "alive", "Treemap"),
    Picture("heap", "cpu/fsdp_transformer", "alive", "Places in the heap", "dark"),
)


def main() -> None:
    """Write all pictures."""
    from playwright.sync_api import sync_playwright

    found = chromium()
    if found is None:
        raise SystemExit("Chromium is not installed (Debian: apt-get install chromium)")
    FOLDER.mkdir(exist_ok=True)
    os.chdir(ROOT)  # for the commands in the pictures
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=found, args=options())
        for picture in PICTURES:
            path = Path(folder) / "page.html"
            report = report_modules(modules_of(f"sample_dumps/{picture.sample}"))
            path.write_text(page_of(report), encoding="utf-8")
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="dark" if picture.scheme == "dark" else "light",
            )
            page.goto(path.as_uri())
            page.wait_for_selector("main[data-ready]")
            page.evaluate(f"document.getElementById('view-{picture.view}').draw()")
            if picture.press:
                page.get_by_role("button", name=picture.press, exact=True).click()
            page.wait_for_timeout(300)
            target = FOLDER / f"{picture.name}.png"
            page.locator(f"#view-{picture.view}").screenshot(path=str(target))
            page.close()
            size = target.stat().st_size
            print(f"{target.relative_to(ROOT)}: {size:,} bytes")  # noqa: T201
            if size > LARGEST:
                raise SystemExit(f"{target}: larger than {LARGEST:,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
