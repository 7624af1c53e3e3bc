"""Pages of a report, of two compiles, and of a judged compile: their modules with views."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from html import escape
from importlib import resources
from importlib.resources import files
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

from hlo_lens.load.devices import device_assignment, topology_of
from hlo_lens.load.module import ModuleDump
from hlo_lens.program.summary import hlo_text, own_target
from hlo_lens.questions.check.checked import Checked
from hlo_lens.questions.diff.dump_diff import Diff, diff_sides
from hlo_lens.questions.diff.page import memory_facts, module_object
from hlo_lens.questions.dumps.groups import module_order
from hlo_lens.questions.dumps.page import ListedModules
from hlo_lens.questions.findings.finding import savings_text
from hlo_lens.questions.findings.findings import module_findings
from hlo_lens.questions.findings.settings import with_sifted_findings
from hlo_lens.questions.matching.program_diff import side_by_side
from hlo_lens.questions.memory.page import verdict_text
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.report.first_page import devices_line
from hlo_lens.questions.report.html_views import VIEWS, Strings, Subject, section_object
from hlo_lens.questions.report.module_page import (
    command_on,
    fit_answer,
    others_sections,
    path_words,
)
from hlo_lens.questions.report.page import ReportedModules, page_of_module
from hlo_lens.render.table import Report, Section
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import printable
from hlo_lens.text.names import shell_word
from hlo_lens.text.source_files import Checkout
from hlo_lens.text.units import format_bytes, plural
from hlo_lens.text.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

    from hlo_lens.questions.matching.program_diff import ComputationPair
    from hlo_lens.render.table import RenderOptions


MOST_MODULES = 24
"""Modules with views of their own on a page; the others are in a table."""

MOST_INSTRUCTIONS = 200_000
"""Instructions of all modules with views besides the first, which bound the size of the page."""

_ROWS = 20
"""Rows of a table where the user asks for no number."""

_MODULE_ROWS = 200
"""Rows of the table of other modules, and of tables of logs."""

_DIFF_ROWS = 200
"""Rows of the table of changed modules."""

_CHECK_ROWS = 50
"""Rows of tables that precede the views."""


@functools.cache
def how_to_read() -> Mapping[str, Sequence[str]]:
    """Return the paragraphs that explain the page and each view, by name."""
    file = resources.files("hlo_lens.questions.report") / "assets" / "how_to_read.md"
    parts = file.read_text(encoding="utf-8").split("\n## ")[1:]
    named = (part.strip().split("\n\n") for part in parts)
    return {name: [" ".join(one.split()) for one in texts] for name, *texts in named}


def page_data(
    kind: str,
    title: str,
    subjects: Sequence[tuple[int, Subject]] = (),
    sections: Sequence[Mapping[str, object]] = (),
) -> Mapping[str, object]:
    """Return the data of a page, as `page.js` reads it.

    `subjects` are the modules in the order of the page, each with its number in the JSON object,
    and `sections` are on all modules.
    """
    strings, modules = Strings(), list[Mapping[str, object]]()
    for number, subject in subjects:
        dump = subject.analysis
        found = module_findings(dump).findings if dump.has_hlo else ()
        made = {v.name: v.data(subject, strings) for v in VIEWS if kind in v.kinds}
        modules.append(
            {
                "title": subject.title,
                "role": subject.role,
                "devices": subject.devices,
                "verdict": {"text": subject.verdict, "fits": subject.fits},
                "command": subject.command_tail,
                "pair": subject.pair_tail,
                "number": number,
                "savings": [savings_text(o.saves, o.share, o.share_of) for o in found],
                "objects": subject.objects or {},
                "views": {name: data for name, data in made.items() if data is not None},
            }
        )
    return {
        "kind": kind,
        "title": title,
        "tool_version": __version__,
        "modules": modules,
        "sections": sections,
        "how": how_to_read(),
        "strings": strings.texts,
    }


@singledispatch
def page_of(subject: object, report: Report, options: RenderOptions) -> Mapping[str, object]:
    """Return the data of the page of a report: its views, or its sections where it has none.

    `subject` is what the report is about, `Report.subject`.
    """
    del subject
    rows = _ROWS if options.rows is None else options.rows
    sections = [section_object(section, rows) for section in report.pages]
    title = report.pages[0].title if report.pages else report.kind
    return page_data(report.kind, title, sections=sections)


@page_of.register(ReportedModules)
def _report_page(
    subject: ReportedModules, report: Report, options: RenderOptions
) -> Mapping[str, object]:
    del report, options
    known = subject.modules
    shown = [k for k, one in enumerate(known) if one.log is None]
    sections = [section_object(one, _MODULE_ROWS) for one in subject.logs]
    if not shown:
        title = str(sections[0]["title"]) if sections else "report"
        return page_data("report", title, (), sections)
    subjects, others = _module_subjects(known, shown)
    title = subjects[0][1].analysis.title
    return page_data("report", title, subjects, [*others, *sections])


@page_of.register(ListedModules)
def _ls_page(
    subject: ListedModules, report: Report, options: RenderOptions
) -> Mapping[str, object]:
    del options
    sums = accumulate(instructions or 0 for _, instructions in subject.rows)
    shown = [k for k, total in enumerate(sums) if total <= MOST_INSTRUCTIONS][:MOST_MODULES]
    stated = [subject.rows[k][0].stating(limits_estimate=True, is_quick=True) for k in shown]
    dumps = with_sifted_findings(stated)
    titles = dict(zip(shown, _unique_titles(dumps), strict=True))
    pairs = zip(shown, dumps, strict=True)
    subjects = [(k, _with_report(_subject(one, titles[k]))) for k, one in pairs]
    (section,) = report.pages
    listed, *others = section.tables
    leading = Section(title=listed.title, tables=(replace(listed, title=""),))
    modules = section_object(leading, 0, is_leading=True)
    _merge_rows(modules, [titles.get(k) for k in range(len(subject.rows))])
    rest = section_object(replace(section, tables=tuple(others)), _MODULE_ROWS)
    return page_data("ls", section.title, subjects, [modules, rest])


def _merge_rows(section: dict[str, Any], opens: Sequence[str | None]) -> None:
    """Make one row of rows that differ in their process alone; the first with views opens."""
    (table,) = section["tables"]
    names = [name for name, *_ in table["columns"]]
    place = names.index("process") if "process" in names else len(names)
    merged: dict[tuple[str, ...], list[int]] = {}
    for k, row in enumerate(table["rows"]):
        merged.setdefault((*row[:place], *row[place + 1 :]), []).append(k)
    rows = [list(table["rows"][some[0]]) for some in merged.values()]
    for row, some in zip(rows, merged.values(), strict=True):
        if len(some) > 1 and place < len(names):
            row[place] += f" and {plural(len(some) - 1, 'equal one')}"
    table["rows"] = rows
    section["opens"] = [
        next(filter(None, (opens[k] for k in some)), None) for some in merged.values()
    ]


def _module_subjects(
    known: Sequence[ModuleDump], shown: Sequence[int]
) -> tuple[list[tuple[int, Subject]], list[Mapping[str, object]]]:
    """Return the modules with views, the one to lead with first, and the sections on the others.

    `shown` are the places of those that are modules, not logs.
    """
    order = module_order([known[k] for k in shown])
    places, lead = [shown[k] for k in order.places], order.lead
    sizes = (  # the first one has views however long it is
        len(hlo_text(known[k]).columns) if known[k].has_hlo and k != places[0] else 0
        for k in places[:MOST_MODULES]
    )
    sums = takewhile(MOST_INSTRUCTIONS.__ge__, accumulate(sizes))
    chosen = [k for k, _ in zip(places, sums, strict=False)]
    titles = dict(zip(chosen, _unique_titles([known[k] for k in chosen]), strict=True))
    roles = {places[0]: lead.role}
    subjects = [(k, _subject(known[k], titles[k], roles.get(k, ""))) for k in chosen]
    notes: tuple[str, ...] = ()
    if without := places[len(chosen) :]:
        count = plural(len(without), "module")
        command = command_on("report", known[without[0]], "-f html -o page.html")
        notes = (f"{count} without views in this file; a page of the first: {command}",)
    opened = [titles.get(shown[k]) for k in order.others]
    others: list[Mapping[str, object]] = []
    for one in others_sections(known[places[0]], lead):
        made = section_object(replace(one, title="Other modules", notes=notes), _MODULE_ROWS)
        others.append({**made, "opens": opened[:_MODULE_ROWS]})
    return subjects, others


def _subject(dump: ModuleDump, title: str, role: str = "") -> Subject:
    target, devices = own_target(dump), device_assignment(dump)
    verdict, fits = _verdict(dump)
    return Subject(
        analysis=dump,
        title=title,
        role=role,
        devices=devices_line(dump) if dump.has_hlo else "",
        command_tail=path_words(dump),
        verdict=verdict,
        fits=fits,
        topology=None if target is None or devices is None else topology_of(target, devices),
    )


def _with_report(subject: Subject) -> Subject:
    made = _plain(page_of_module(subject.analysis).make_object())
    return subject._replace(objects={"report": made})


def _verdict(dump: ModuleDump) -> tuple[str, bool | None]:
    memory = memory_results(dump)
    if memory is None or memory.statement.total_bytes is None:
        return "", None
    statement = memory.statement
    size = f"{'~' * (statement.source == 'estimate')}{format_bytes(statement.total_bytes)}"
    if statement.limit_bytes is None:
        return f"{size} needed; the memory of the device is not known (--limit)", None
    if text := verdict_text(statement):
        return "; ".join((text, *fit_answer(dump))), statement.fits
    device = (statement.limit_source or "").partition(":")[0]
    of_device = "" if device == "--limit" else f" of a {device}"
    return f"fits: {size} of {format_bytes(statement.limit_bytes)}{of_device}", True


def _unique_titles(dumps: Sequence[ModuleDump]) -> list[str]:
    """Return the titles of modules, with folder and number where several have the same.

    Views and addresses refer to modules by title.
    """
    titles = [one.title for one in dumps]
    folders, names = [one.folder for one in dumps], [one.name for one in dumps]
    numbers = [f"number {k + 1}" for k in range(len(dumps))]
    for endings in (folders, names, numbers):
        counts = Counter(titles)
        titles = [
            title if counts[title] == 1 or not ending else f"{title}, {ending}"
            for title, ending in zip(titles, endings, strict=True)
        ]
    return titles


@page_of.register(Diff)
def _diff_page(diff: Diff, report: Report, options: RenderOptions) -> Mapping[str, object]:
    del options
    order = sorted(range(len(diff.modules)), key=lambda k: diff.modules[k].identical)
    subjects = [_pair_subject(diff, number) for number in order[:MOST_MODULES]]
    titles = _unique_titles([subject.analysis for subject in subjects])
    named = [one._replace(title=title) for one, title in zip(subjects, titles, strict=True)]
    sections = [section_object(report.pages[0], _DIFF_ROWS)] if report.pages else []
    title = report.pages[0].title if report.pages else "diff"
    return page_data("diff", title, [*zip(order, named, strict=False)], sections)


def _pair_subject(diff: Diff, number: int) -> Subject:
    place_base, place_head = diff.places[number]
    module = diff.modules[number]
    base, head = diff.base.modules[place_base].dump, diff.head.modules[place_head].dump
    shown = head or ModuleDump(name=module.head.name, kind=DumpKind.HLO)
    texts = [None if side is None else side.hlo for side in (base, head)]
    computations: Sequence[ComputationPair] = ()
    if module.program is not None and texts[0] is not None and texts[1] is not None:
        computations = side_by_side(module.program, texts[0], texts[1])
    changes = {} if module.memory is None else dict(memory_facts(module.memory))
    paths = " ".join(shell_word(side.path or "PATH") for side in (diff.base, diff.head))
    return Subject(
        analysis=shown.stating(limits_estimate=True, is_quick=True),
        title=shown.title,
        command_tail=paths,
        pair_tail=paths,
        base=None if base is None else base.stating(limits_estimate=True, is_quick=True),
        diff=module,
        computations=computations,
        verdict=changes.get("memory", ""),
    )


@page_of.register(Checked)
def _check_page(checked: Checked, report: Report, options: RenderOptions) -> Mapping[str, object]:
    """Return the data of the page on a judged compile: verdicts, then its modules.

    Of a snapshot there are only verdicts.
    """
    del options
    diff = checked.diff
    if diff is not None:  # with the programs, which rules do not need
        diff = diff_sides(diff.base, diff.head, is_forced=checked.is_forced)
    sections = [
        section_object(one, _CHECK_ROWS, is_leading=True, command="" if number else checked.command)
        for number, one in enumerate(report.pages)
    ]
    title = report.pages[0].title if report.pages else "check"
    heads = [(k, module.dump) for k, module in enumerate(checked.head.modules)]
    dumps = {k: dump for k, dump in heads if dump is not None and dump.log is None}
    stated = [one.stating(limits_estimate=True, is_quick=True) for one in dumps.values()]
    known = with_sifted_findings(stated)
    if not known:
        return page_data("check", title, (), sections)
    subjects, others = _module_subjects(known, range(len(known)))
    pairs = {} if diff is None else {head: k for k, (_, head) in enumerate(diff.places)}
    numbers = [pairs.get(place) for place in dumps]
    fits = not checked.judgement.is_failed
    named = [(k, one._replace(verdict=title, fits=fits)) for k, one in subjects]
    judged = [(k, _judged(one, diff, numbers[k])) for k, one in named]
    return page_data("check", title, judged, [*sections, *others])


def _judged(subject: Subject, diff: Diff | None, number: int | None) -> Subject:
    """Return a module with its changes, and its JSON objects, which verdicts do not have."""
    subject = _with_report(subject)
    if diff is None or number is None:
        return subject
    pair = _pair_subject(diff, number)
    return subject._replace(
        base=pair.base,
        diff=pair.diff,
        computations=pair.computations,
        pair_tail=pair.pair_tail,
        objects={**(subject.objects or {}), "diff": _plain(module_object(diff.modules[number]))},
    )


def _plain(data: Mapping[str, object]) -> Mapping[str, object]:
    """Return a JSON object without sequences that are made on access."""
    return Report(kind="", sections=(), data=data).to_dict()


_START = 'import "page";'
_CLASSIC = "text/javascript"
_PLAIN = " !$&'()*+,/:;=?@[]^`{|}~"
"""Characters that a ``data:`` address and a JSON string have as they are."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def assets() -> Traversable:
    """Return the folder of scripts and styles."""
    return files("hlo_lens.questions.report") / "assets"


@functools.cache
def scripts() -> tuple[tuple[str, str], ...]:
    """Return type and text of the page's scripts: vendored ones, the import map, the start."""
    imports = {
        name: f"data:text/javascript,{quote(text, safe=_PLAIN)}"
        for name, text in _modules(assets() / "scripts", "")
    }
    folder = assets() / "vendored"
    vendored = (
        (_CLASSIC, folder.joinpath(*name.split("/")).read_text(encoding="utf-8"))
        for package in manifest()
        for name in package["scripts"]
    )
    return (*vendored, ("importmap", json.dumps({"imports": imports})), ("module", _START))


@functools.cache
def style() -> str:
    """Return the style of the page in ASCII, which keeps its bytes in any encoding."""
    own = (assets() / "page.css").read_text(encoding="utf-8")
    return _NOT_ASCII.sub(lambda match: f"\\{ord(match[0]):06x}", own)


def notices() -> str:
    """Return names, versions and licence texts of the vendored packages."""
    folder = assets() / "vendored"
    parts = []
    for one in manifest():
        name = f"{one['name']}-{one['version']}"
        licence = (folder / name / "LICENSE").read_text(encoding="utf-8")
        parts.append(f"{name}, {one['licence']}, {one['source']}\n{licence}")
    return "\n".join(parts)


def manifest() -> list[dict[str, str]]:
    """Return the vendored packages: name, version, licence, source, files, checksums."""
    text = (assets() / "vendored" / "manifest.json").read_text(encoding="utf-8")
    packages: list[dict[str, str]] = json.loads(text)["packages"]
    return packages


def _modules(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".js"):
            yield f"{prefix}{entry.name.removesuffix('.js')}", entry.read_text(encoding="utf-8")


LARGEST_PLAIN = 1 << 20
LARGEST_PLAIN_VIEWS = 1 << 17
"""Characters of the largest JSON, and data of views, that are stored as they are."""

LARGEST_PLAIN_DATA = 450_000
"""Characters of all data beyond which the JSON is compressed below 1 MB too."""


def render_page(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write a report as one HTML file: its views, or its sections where it has none."""
    url = options.source_url
    made = {**page_of(report.subject, report, options), "source_url": url, "source_paths": {}}
    text = _compact(report.to_dict())
    if url is not None:
        is_web = url.startswith("http")
        made["source_paths"] = _checkout_paths(text + json.dumps(made), is_web=is_web)
    data = data_element("hlo-lens-data", text)
    views = data_element("hlo-lens-views", _compact(made), LARGEST_PLAIN_VIEWS)
    if len(data) + len(views) > LARGEST_PLAIN_DATA:
        data = data_element("hlo-lens-data", text, 0)
    title = printable(str(made.get("title") or report.kind))
    out.writelines(_parts(title, data + views))


_SOURCE_PATH = re.compile(r'"([^":\\]+\.\w+)(?=:\d)|"source_file": ?"([^"\\]+)"')


def _checkout_paths(text: str, *, is_web: bool) -> dict[str, str]:
    """Return the paths of source files in the checkout, by their paths in the dump.

    Links of the web get the path below its root, those of editors the whole one.
    """
    checkout = Checkout.here()
    files = sorted({one or other for one, other in _SOURCE_PATH.findall(text)})
    found = {file: path for file in files if (path := checkout.find(file)) is not None}
    return found if is_web else {file: str(checkout.root / path) for file, path in found.items()}


def _compact(data: Mapping[str, object]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True)


def data_element(name: str, text: str, largest_plain: int = LARGEST_PLAIN) -> str:
    """Return the script element of a JSON text, compressed if it is longer than `largest_plain`.

    ``<`` is escaped, so that no string ends the element or begins a comment.
    """
    encoding, stored = "", text.replace("<", "\\u003c")
    if len(stored) > largest_plain:
        encoding = ' data-encoding="gzip+base64"'
        packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
        stored = base64.b64encode(packed).decode()
    return f'<script type="application/json" id="{name}"{encoding}>{stored}</script>\n'


def _parts(title: str, data: str) -> Iterator[str]:
    own = [text for _, text in scripts()]
    sources = [f"script-src data: {' '.join(map(_hash, own))}"]
    sources += [f"style-src {_hash(style())}", "img-src data:", "base-uri 'none'"]
    sources += ["form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"]
    policy = "; ".join(("default-src 'none'", *sources))
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield f'<meta name="generator" content="hlo-lens {__version__}">\n'
    yield '<meta name="referrer" content="no-referrer">\n'
    shown = escape(title).encode("ascii", "xmlcharrefreplace").decode()
    yield f"<title>{shown} - hlo-lens</title>\n"
    yield '<link rel="icon" href="data:,">\n'
    yield f"<style>{style()}</style>\n"
    yield "</head>\n<body>\n"
    yield (
        "<noscript>This page draws its data with scripts of its own, which are switched off "
        "here. The same numbers are printed by hlo-lens report.</noscript>\n"
    )
    yield '<main id="page"></main>\n'
    yield data
    yield from (f'<script type="{kind}">{text}</script>\n' for kind, text in scripts())
    yield f"<!--\nThis file contains, unchanged:\n\n{notices()}-->\n"
    yield "</body>\n</html>\n"


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
