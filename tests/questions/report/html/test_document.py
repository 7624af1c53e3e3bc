"""The HTML file, its scripts and styles: what is in it, what it allows, and how large it is."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

import hlo_lens
import hlo_lens.questions.report
from hlo_lens.cli import main
from hlo_lens.load.devices import gpu_config
from hlo_lens.questions.report.html_pages import data_element, how_to_read, manifest, scripts, style
from hlo_lens.questions.report.html_views import VIEWS, Strings
from hlo_lens.render.table import Report
from hlo_lens.render.to_json import envelope
from tests.commands import output_of
from tests.corpus import SAMPLES
from tests.questions.report.html.pages import SMALL, data_of, page_of, sample_page

LARGEST_EMPTY = 300_000


def test_the_page_has_the_json_of_the_report() -> None:
    printed = output_of(["report", f"sample_dumps/{SMALL}", "-f", "json"])
    made = output_of(["report", f"sample_dumps/{SMALL}", "-f", "html"])
    assert data_of(made)["hlo-lens-data"] == json.loads(printed)


def test_the_same_report_makes_the_same_bytes() -> None:
    first = output_of(["report", f"sample_dumps/{SMALL}", "-f", "html"])
    assert first == output_of(["report", f"sample_dumps/{SMALL}", "-f", "html"])


def test_every_script_and_style_is_allowed_by_its_hash() -> None:
    page = sample_page()
    policy = re.search(r'Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    texts = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    texts += re.findall(r'<script type="(?!application/json").*?>(.*?)</script>', page, re.DOTALL)
    assert len(texts) == len((style(), *scripts()))
    for text in texts:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy[1]
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]


def test_the_page_is_ascii_whatever_the_encoding_of_the_output() -> None:
    assert sample_page().isascii()


def test_nothing_in_the_page_names_a_file_elsewhere() -> None:
    page = sample_page()
    assert re.findall(r"<(?:script|img|iframe|object|embed|audio|video)[^>]+src=", page) == []
    assert re.findall(r'<link[^>]+href="([^"]*)"', page) == ["data:,"]


def test_data_ends_no_element_and_begins_no_comment() -> None:
    text = '{"name": "</script><!-- <script>"}'
    element = data_element("a", text)
    assert element.count("<") == 2
    assert data_of(element)["a"] == json.loads(text)


def test_the_json_is_compressed_where_a_page_would_be_too_large() -> None:
    rows = [{"name": f"name {k}"} for k in range(30_000)]
    report = Report(kind="report", sections=(), data=envelope("report", modules=rows))
    page = page_of(report)
    assert len(page) < 500_000
    assert data_of(page)["hlo-lens-data"]["modules"] == rows


def test_strings_are_stored_once_without_control_characters() -> None:
    strings = Strings()
    assert strings.numbers(["a", None, "b", "a", "\x1b[31m"]) == [0, -1, 1, 0, 2]
    assert strings.texts == ["a", "b", "\\x1b[31m"]


def test_a_page_without_data_is_small() -> None:
    page = sample_page()
    data = sum(
        len(text)
        for text in re.findall(
            r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL
        )
    )
    assert len(page.encode()) - data < LARGEST_EMPTY


def test_a_log_has_its_sections_on_the_page() -> None:
    log = "sample_dumps/logs/tpu_oom_libtpu_0_0_51.txt"
    alone = data_of(output_of(["report", log, "-f", "html"]))["hlo-lens-views"]
    assert alone["sections"]
    both = output_of(["report", f"sample_dumps/{SMALL}", "--log", log, "-f", "html"])
    views = data_of(both)["hlo-lens-views"]
    assert len(views["modules"]) == 1
    assert views["sections"]


def test_the_memory_of_the_device_is_known_where_the_dump_names_it(tmp_path: Path) -> None:
    for path in (SAMPLES / "gpu" / "tp_mlp").glob("module_0001*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = tmp_path / "module_0001.jit_train_step.gpu_target_config.pbtxt"
    config.write_text(gpu_config("h100_sxm"))
    views = data_of(page_of(hlo_lens.report_on(tmp_path)))["hlo-lens-views"]
    limit, source = views["modules"][0]["views"]["memory"]["limit"]
    assert limit > 64 << 30
    assert "XLA" in source


@pytest.mark.parametrize("command", ["collectives", "memory", "sharding", "loops", "doctor"])
def test_other_commands_have_a_page_of_their_sections(command: str) -> None:
    page = output_of([command, f"sample_dumps/{SMALL}", "-f", "html"])
    views = data_of(page)["hlo-lens-views"]
    assert views["modules"] == []
    assert views["sections"][0]["tables"] or views["sections"][0]["facts"]


ASSETS = Path(hlo_lens.questions.report.__file__).parent / "assets"
OWN = sorted((ASSETS / "scripts").rglob("*.js"))


def test_vendored_files_are_those_of_the_manifest() -> None:
    listed: dict[str, str] = {}
    for package in manifest():
        listed |= dict(package["sha256"])  # type: ignore[arg-type]
    vendored = ASSETS / "vendored"
    found = {
        path.relative_to(vendored).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vendored.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert found == listed


def test_no_text_ends_its_element() -> None:
    for text in (*(text for _, text in scripts()), style()):
        assert not re.search(r"</(?:script|style)|<!--", text, re.IGNORECASE)
        assert "\r" not in text


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.relative_to(ASSETS)))
def test_own_scripts_make_no_markup_and_ask_no_network(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    forbidden = (
        "innerHTML outerHTML insertAdjacentHTML document.write eval( new Function DOMParser "
        "createContextualFragment srcdoc fetch( XMLHttpRequest WebSocket sendBeacon http: https:"
    )
    words = forbidden.replace("new Function", "new\tFunction").split(" ")
    assert [word for word in words if word.replace("\t", " ") in text] == []


def test_every_view_is_explained() -> None:
    assert sorted(how_to_read()) == sorted(["page", *(view.name for view in VIEWS)])
    assert all(how_to_read().values())


def test_every_import_is_in_the_import_map() -> None:
    (imports,) = (json.loads(text)["imports"] for kind, text in scripts() if kind == "importmap")
    assert [
        path.relative_to(ASSETS / "scripts").with_suffix("").as_posix() for path in OWN
    ] == sorted(imports)
    for path in OWN:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r'^import .* from "(.*)";$', text, re.MULTILINE)) <= set(imports)
        name = path.relative_to(ASSETS / "scripts").with_suffix("").as_posix()
        assert unquote(imports[name].partition(",")[2]) == text


def test_source_lines_link_to_files_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "tp_mlp.py").touch()
    report = hlo_lens.report_on(str(SAMPLES / SMALL))
    monkeypatch.chdir(tmp_path)
    paths = {
        url: data_of(page_of(report, url))["hlo-lens-views"]["source_paths"]["programs/tp_mlp.py"]
        for url in ("https://host/{path}#L{line}", "vscode://file/{path}:{line}")
    }
    assert list(paths.values()) == ["programs/tp_mlp.py", str(tmp_path / "programs/tp_mlp.py")]


@pytest.mark.parametrize("url", ["javascript:{path}", "{path}", "https://host/#L{line}"])
def test_a_template_without_a_path_or_with_a_script_is_refused(url: str) -> None:
    result = CliRunner().invoke(main, ["report", "x", "--source-url", url])
    assert (result.exit_code, "--source-url" in result.output) == (2, True)
