"""Scan of a text in two parts: the same module as of one scan, wherever the second part begins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from hlo_lens.hlo import columns, module_reader as hlo_module
from hlo_lens.hlo.module_reader import RowsAhead, ScanAhead, parse_hlo_modules, rows_from
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.processes import SecondProcess, start_second
from hlo_lens.text.source import Source, clean
from tests.corpus import ROOT
from tests.strategies.modules import modules, novelties
from tests.strategies.printing import print_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.strategies.programs import Module

TEXT = """HloModule m, is_scheduled=true

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b), made_up=3
}

%double (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %y = f32[8]{0} add(%x, %x)
}, execution_thread="host"

ENTRY %main (p: f32[8]) -> f32[] {
  %p = f32[8]{0} parameter(0)
  %zero = f32[] constant(0)
  %called = f32[8]{0} call(%p), to_apply=%double, frontend_attributes={a="} {"}
  ROOT %r = f32[] reduce(%called, %zero), dimensions={0}, to_apply=sum
}

"""

FORMS = {
    "printed": TEXT,
    "second ROOT": TEXT.replace("  a =", "  ROOT a =").replace("  %p =", "  ROOT %p ="),
    "second ENTRY": TEXT.replace("sum {", "ENTRY sum {"),
    "comments": TEXT.replace("  %p =", "\n  // a line\n\n  %p =").replace("sum {", "/* a */ sum {"),
    "comment of a computation": TEXT.replace("%double (", "/*\n%double (") + "*/\n" + TEXT,
    "gap in a body": TEXT.replace("  %zero =", "  ?\n  %zero ="),
    "wrong value": TEXT.replace("constant(0)", "constant({0})"),
    "line of a log": TEXT.replace("ENTRY", "a line of a log\nENTRY"),
    "two modules": TEXT * 2,
    "header like a computation": TEXT.replace("sum {", "HloModule {"),
    "header like a computation with shapes": TEXT.replace("%double (", "HloModule ("),
    "computation cut off": TEXT.replace("}, execution_thread", "execution_thread"),
    "cut off": TEXT[:-40],
    "without ENTRY": TEXT.replace("ENTRY ", ""),
    "nested": TEXT.replace("add(%x, %x)", "add(negate(%x), f32[8]{0} exp(%x))"),
    "computation in place": TEXT.replace("to_apply=sum", "to_apply={\n z = f32[] parameter(0)\n}"),
    "without shape": TEXT.replace("%p = f32[8]{0} para", "%p = para"),
    "stack tables after": TEXT + 'FileNames\n1 "a.py"\n\nFunctionNames\n1 "f"\n\n',
    "instructions alone": TEXT.split("{\n", 1)[1].split("}")[0],
}


class Done(SecondProcess[RowsAhead | None]):
    """A second process that has ended, or never was: its work was done in this one."""

    def __init__(self, source: Source, start: int) -> None:
        self.source = source
        self.start = start

    def result(self) -> RowsAhead | None:
        return rows_from(self.source, self.start)

    def end(self) -> None:
        pass


def facts(source: Source) -> list[object]:
    """Return all that a scan finds in a text."""
    try:
        found = parse_hlo_modules(source)
    except DumpSyntaxError as error:
        return [str(error)]
    return [
        (
            module.name,
            module.header,
            list(module.columns.spans),
            list(module.columns.roots),
            module.columns.overlays,
            list(module.computation_columns.spans),
            bytes(module.computation_columns.flags),
            module.computation_columns.names,
            module.computation_columns.scattered,
            module.gaps,
            module.passed_lines,
            module.strange_spans,
            module.unknown_attributes,
            module.is_truncated,
        )
        for module in found
    ]


def check_every_start(text: str) -> int:
    """Assert that a scan ahead from any line changes nothing; return how many gave rows."""
    source, used = clean(text), 0
    wanted = facts(source)
    with pytest.MonkeyPatch.context() as patch:
        for start in starts(source.text):
            used += rows_from(source, start) is not None
            ahead = ScanAhead(start, Done(source, start))
            patch.setattr(hlo_module, "start_ahead", lambda _, ahead=ahead: ahead)
            assert facts(source) == wanted, source.text[start : start + 40]
    return used


def starts(text: str) -> Iterator[int]:
    return (match.end() for match in re.finditer("\n", text))


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_scan_ahead_from_any_line_changes_nothing(text: str) -> None:
    check_every_start(text)


def test_every_line_of_a_printed_text_can_be_the_first_of_a_scan_ahead() -> None:
    lines = TEXT.split("\n")[1:]
    assert check_every_start(TEXT) == len([line for line in lines if line])


def test_offsets_of_more_than_32_bits_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_LARGEST_OFFSET", 10)
    check_every_start(TEXT)


@settings(max_examples=40, deadline=None)
@given(module=modules() | novelties())
def test_a_scan_ahead_of_any_program_changes_nothing(module: Module) -> None:
    check_every_start(print_module(module))


@pytest.mark.parametrize("line", ["?", "  q = f32[8] add(p p)", "a line of a log"])
def test_a_scan_ahead_ends_before_the_first_gap(line: str) -> None:
    source = clean(f"{TEXT}\n{line}\n{TEXT}")
    read = rows_from(source, source.text.index("sum {"))
    assert read is not None
    assert source.text[read.end :].startswith(line.strip()[:1])
    assert len(read.computations) == 3


def test_rows_of_a_sample_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(Path(ROOT, "sample_dumps/cpu/fsdp_transformer").glob("*after_optimizations.txt"))
    source = clean(path.read_text())
    start = source.text.index("\n", len(source.text) // 2) + 1
    taken: list[int] = []

    class Counted(ScanAhead):
        def take_body(self, *args: object, **options: object) -> RowsAhead | None:
            taken.append(1)
            return super().take_body(*args, **options)  # type: ignore[arg-type]

    ahead = Counted(start, Done(source, start))
    wanted = facts(source)
    monkeypatch.setattr(hlo_module, "start_ahead", lambda _: ahead)
    assert facts(source) == wanted
    assert taken
    assert ahead.at == -1


def test_a_long_text_is_read_by_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hlo_module, "SHORTEST", 100)
    started: list[object] = []

    def start(function: object) -> object:
        started.append(start_second(function))  # type: ignore[arg-type]
        return started[-1]

    source = clean(TEXT)
    monkeypatch.setattr(hlo_module, "start_second", lambda _: None)
    wanted = facts(source)
    monkeypatch.setattr(hlo_module, "start_second", start)
    assert facts(source) == wanted
    assert len(started) == 1
