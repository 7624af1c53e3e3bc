"""HLO module text to HloModule: by the scanner, or by the grammar alone.

The scanner makes one pass over the text and asks the grammar about instructions that it does not
match: see `hlo_lens.hlo.scan`. The grammar alone is its reference: slower, and strict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from hlo_lens.hlo.columns import InstructionColumns
from hlo_lens.hlo.gaps import repetitions
from hlo_lens.hlo.module import HloModule
from hlo_lens.hlo.rows import HloRows, ReadComputation, first_values, infer_shapes, new_module
from hlo_lens.hlo.scan import HloScan, start_ahead
from hlo_lens.hlo.text import HloReader
from hlo_lens.text.errors import DumpSyntaxError, Gap, UsageError
from hlo_lens.text.source import Source, Span, clean, cut_log_prefixes, decode

ReaderName: TypeAlias = Literal["scanner", "grammar"]
"""``scanner`` is fast and notes gaps; ``grammar`` is slow and raises at the first error."""


_SECOND = "expected the end of the text, found a second HloModule (hlo_lens.load reads them all)"


def parse_hlo(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> HloModule:
    """Return the module that a text prints.

    Unread parts are listed in the module's ``gaps``. Of several modules the first is returned, with
    a gap at the start of the second; `hlo_lens.load` reads them all.

    Args:
        text: HLO text as XLA dumps or prints it.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone: the same module, some hundred times slower;
            the text must hold one module and nothing else, and its first error is raised.

    Raises:
        DumpSyntaxError: If nothing could be read, or, if strict or by the grammar, at the first
        gap.
    """
    if reader not in ("scanner", "grammar"):
        raise UsageError(f"reader is 'scanner' or 'grammar', found {reader!r}")
    if isinstance(text, Source):
        source = text
    else:
        source = clean(decode(text) if isinstance(text, bytes) else text, path)
    if reader == "grammar":
        return parse_hlo_with_grammar(source)
    modules = parse_hlo_modules(source)
    module = modules[0]
    if len(modules) > 1:
        second = modules[1]
        place = Gap.at(second.columns.source, Span(second.start, second.start + 9), _SECOND)
        module.gaps = (*module.gaps, place)
    if strict and module.gaps:
        raise module.gaps[0].as_error()
    return module


def parse_hlo_modules(
    source: Source, *, progress: Callable[[int], None] | None = None
) -> list[HloModule]:
    """Return all modules of a source, in order; at least one.

    Args:
        source: The text.
        progress: Called at times with the offset reached.

    Raises:
        DumpSyntaxError: If the text has no computation and no header.
    """
    ahead = start_ahead(source)
    scan = HloScan(source, progress, ahead)
    try:
        scan.run()
    finally:
        if ahead is not None:
            ahead.end()
    is_strange = scan.is_strange or not scan.modules
    if is_strange and not source.cuts.offsets and (cut := cut_log_prefixes(source)) is not None:
        scan = HloScan(cut, progress)
        scan.run()
    if source.is_cut and scan.modules:
        _mark_cut(scan.modules[-1], scan.source)
    if not scan.modules:
        gaps, _ = scan.gaps.take(has_read=False)
        if gaps:
            raise gaps[0].as_error()
        raise DumpSyntaxError(
            "expected 'HloModule' or a computation, found nothing", path=source.path
        )
    return scan.modules


def parse_hlo_with_grammar(source: Source) -> HloModule:
    """Return the one module of a source, read by the grammar alone.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    from hlo_lens.hlo.grammar import read_module

    rows = HloRows(new_module(source, HloReader(), "", 0))
    module = rows.module

    def add(computation: ReadComputation) -> None:
        rows.add_read_computation(computation, is_inline=False)

    read = read_module(source, add)
    module.name = read.name
    module.header = first_values((name, source.text[start:end]) for name, start, end in read.header)
    module.stack_frames = read.stack_frames
    if rows.shapeless:
        infer_shapes(module, rows.shapeless)
    if repeated := repetitions(module):
        raise repeated[0].as_error()
    return module


def _mark_cut(module: HloModule, source: Source) -> None:
    """Note that the file of a module is cut off, if the text does not show it."""
    if not module.is_truncated:
        end = len(source.text)
        message = "expected more of the compressed file, found its end: it is cut off"
        module.gaps = (*module.gaps, Gap.at(source, Span(max(0, end - 1), end), message))
        module.is_truncated = True


def unread_module(path: str, error: DumpSyntaxError | None = None) -> HloModule:
    """Return an empty module, for a file that could not be read."""
    gaps = () if error is None else (Gap.of(error),)
    columns = InstructionColumns(Source("", path))
    return HloModule(name="", columns=columns, reader=HloReader(), gaps=gaps)
