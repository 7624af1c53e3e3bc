"""What each line of the program costs, its text in a checkout, and differences of two compiles.

Bytes at the peak belong to the line of the value defined last (`memory --by source`), bytes sent to
the line of the collective, or of each member of a combined one, FLOP to the line of the product.
What has no line, lines of libraries, and branches that exclude one another are bracketed residuals.
Sums equal those of other rooms.

A dump has no text of the program, but dumps since December 2025 have for each line the function and
the columns at which expressions begin. A line of the checkout is taken for that of the compile if
it is in a function of that name, and expressions begin at these columns: of several such lines the
one that has moved as far as most lines of the function, or as the one before it. Where a dump has
no columns, the line of that number is taken. Lines of two compiles are paired in the same way.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.load.fact import fact
from hlo_lens.program.flops import flops
from hlo_lens.program.origins import origins
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.findings import module_findings
from hlo_lens.questions.memory.peak import PARAMETERS, UNATTRIBUTED, nameless_group
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.work.work import work
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.names import plain_name, portable_path
from hlo_lens.text.source_files import is_library_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import PeakMemory
    from hlo_lens.render.result import Row
    from hlo_lens.text.source_files import Checkout

LIBRARIES = "[libraries]"
"""Residual of lines that are in libraries, with no line of the program around them."""

OTHER_FILES = "[other files]"
BRANCHES = "[other branches]"
"""Residual of branches that exclude one another: lines have each, the sum only the largest."""


class Amounts(NamedTuple):
    """Bytes held at the peak, bytes sent and FLOP; None where not known."""

    peak_bytes: int | None = 0
    wire_bytes: int | None = 0
    flops: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """One line of the program, and what one device spends on it in one run."""

    source_file: Annotated[str, "file, as the dump names it"]
    source_line: Annotated[int, "line of the file that was compiled"]
    text: Annotated[str | None, "the line in the checkout"] = None
    peak_bytes: Annotated[int | None, Unit.BYTES, "bytes at the peak that belong to it"]
    wire_bytes: Annotated[int | None, Unit.BYTES, "bytes that leave each device in one run"]
    flops: Annotated[int | None, Unit.FLOPS, "FLOP of a device in one run"]
    flops_share: Annotated[float | None, Unit.RATIO, "share of all FLOP, 0 to 1"] = None
    repeated_flops: Annotated[
        int | None, Unit.FLOPS, "those that other devices compute as well"
    ] = None
    copies: Annotated[int | None, Unit.COUNT, "devices that compute one result of it"] = None
    times: Annotated[int | None, Unit.COUNT, "runs in one run of the program"] = None
    findings: Annotated[tuple[str, ...], "codes of the findings at it"] = ()
    checkout_line: Annotated[int | None, "line of the checkout that it is now"] = None
    is_changed: Annotated[bool, "whether the checkout no longer has the line"] = False


@dataclass(frozen=True, kw_only=True)
class SourceLines(Records[SourceLine]):
    """Lines of a program with what they cost, by file and line.

    Attributes:
        residuals: Amounts that no line has, by bracketed label.
        whole: Those of the whole program; None where not known.
    """

    KIND: ClassVar[str] = "source"
    lines: tuple[SourceLine, ...]
    residuals: Mapping[str, Amounts]
    whole: Amounts

    def residual_rows(self) -> tuple[Row, ...]:
        others = len(self.COLUMNS) - 3 - len(Amounts._fields)
        return tuple((k, None, None, *v, *[None] * others) for k, v in self.residuals.items())

    def totals(self) -> dict[str, float]:
        return {k: v for k, v in self.whole._asdict().items() if v is not None}

    def within(self, is_wanted: Callable[[str], bool], label: str) -> SourceLines:
        """Return the lines of some files; those of others are a residual."""
        others = [one for one in self.lines if not is_wanted(one.source_file)]
        if not others:
            return self
        left = Amounts(*(sum(getattr(one, k) or 0 for one in others) for k in Amounts._fields))
        return replace(
            self,
            lines=tuple(one for one in self.lines if is_wanted(one.source_file)),
            residuals={**self.residuals, label: left},
        )


_Part = tuple["_Place", "int | None", "int | None"]
"""Place, amount, and runs of what it is of in one run of the program."""

_Place = tuple[str, "int | None"]
"""File and line; a bracketed label and None for what has no line."""


@dataclass(slots=True)
class _Sums:
    """Figures of a line, or of a residual, while they are added up."""

    amounts: list[int | None] = field(default_factory=lambda: [0, 0, 0])
    times: int = 0
    repeated: int = 0
    copies: float = 0.0
    codes: set[str] = field(default_factory=set)

    def add(self, measure: int, amount: int | None) -> None:
        """Add an amount; the sum is not known if a part is not."""
        known = self.amounts[measure]
        self.amounts[measure] = None if amount is None or known is None else known + amount


def own_lines(module: ModuleDump) -> SourceLines:
    """Return the lines of the program's own files; those of libraries are a residual."""
    return source_lines(module).within(lambda file: not is_library_file(file), LIBRARIES)


@fact
def source_lines(module: ModuleDump) -> SourceLines:
    """Return the lines that cost something, or that a finding is at, with what they cost.

    An amount of a line is None where a part of it is not known.
    """
    memory = memory_results(module)
    peak = None if memory is None else memory.peak
    whole = Amounts(
        peak_bytes=None if peak is None else peak.total_bytes,
        wire_bytes=collectives(module).wire_bytes_per_device,
        flops=flops(module).total,
    )
    found = _summed(module, peak)
    lines = ((file, line, sums) for (file, line), sums in found.items() if line)
    residuals = {file: Amounts(*sums.amounts) for (file, line), sums in found.items() if not line}
    rest = [
        0 if total is None else total - sum(one.amounts[k] or 0 for one in found.values())
        for k, total in enumerate(whole)
    ]
    has_repeats = work(module).repeated_flops is not None
    return SourceLines(
        lines=tuple(
            SourceLine(
                source_file=file,
                source_line=line,
                peak_bytes=sums.amounts[0],
                wire_bytes=sums.amounts[1],
                flops=sums.amounts[2],
                flops_share=_share(sums.amounts[2], whole.flops),
                repeated_flops=sums.repeated if has_repeats else None,
                copies=round(sums.copies) or None,
                times=sums.times or None,
                findings=tuple(sorted(sums.codes)),
            )
            for file, line, sums in sorted(lines, key=itemgetter(0, 1))
        ),
        residuals=residuals | ({BRANCHES: Amounts(*rest)} if any(rest) else {}),
        whole=whole,
    )


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _summed(module: ModuleDump, peak: PeakMemory | None) -> dict[_Place, _Sums]:
    found: dict[_Place, _Sums] = defaultdict(_Sums)
    held: Iterable[_Part] = () if peak is None else _held(module, peak)
    for measure, parts in enumerate((held, _sent(module), _computed(module))):
        for place, amount, times in parts:
            found[place].add(measure, amount)
            found[place].times = max(found[place].times, times or 0)
    for product in work(module).products:
        sums = found[_place_of(origins(module).place(product.row))]
        sums.repeated += product.repeated_flops
        sums.copies = max(sums.copies, product.copies)
    for finding in module_findings(module).counted:
        if finding.source_file is not None and finding.source_line is not None:
            found[finding.source_file, finding.source_line].codes.add(finding.code)
    if peak is None:
        for sums in found.values():
            sums.amounts[0] = None
    return found


def _place_of(place: SourceLocation | None, label: str = UNATTRIBUTED) -> _Place:
    return (label, None) if place is None or place.line is None else (place.file, place.line)


def _held(module: ModuleDump, peak: PeakMemory) -> Iterator[_Part]:
    for value in peak.live:
        origin = peak.origin_of(value)
        place = _place_of(origin.place, nameless_group(value.category))
        if value.category == "argument":
            place = PARAMETERS, None
        yield place, value.owned_bytes, _runs(module, origin.row)


def _runs(module: ModuleDump, row: int | None) -> int | None:
    if row is None:
        return None
    return call_counts(module).at(hlo_text(module).links.owners[row]).times


def _sent(module: ModuleDump) -> Iterator[_Part]:
    for collective in collectives(module).collectives:
        for part in collective.parts:
            place: _Place = UNATTRIBUTED, None
            if part.source_file is not None and part.source_line is not None:
                place = part.source_file, part.source_line
            yield place, part.wire_bytes_per_run, part.dynamic_count


def _computed(module: ModuleDump) -> Iterator[_Part]:
    for product in flops(module).products:
        yield _place_of(origins(module).place(product.row)), product.run_flops, product.times


Columns = dict[str, dict[int, set[int]]]
"""Function to line to the columns, from 0, at which expressions of it begin."""

_FEWEST = 3
"""Lines that have moved as far, among them a line for which that decides."""


def compiled_columns(module: HloModule) -> dict[str, Columns]:
    """Return the columns of the lines in the tables of a module, by file."""
    found: dict[str, Columns] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
    tables = module.stack_frames
    for number in range(1, len(tables.frames) + 1):
        place = tables.location(number)
        if place is not None and place.line and place.function and place.column is not None:
            found[place.file][place.function][place.line].add(place.column)
    return found


def lines_now(compiled: Columns, text: str) -> dict[int, int | None]:
    r"""Return the line of a text for each line of the file that was compiled; None if it has none.

    >>> lines_now({"f": {2: {11}, 3: {5}}}, "import x\n\ndef f():\n    return g(h)\n")
    {2: 4, 3: None}
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return dict.fromkeys((line for lines in compiled.values() for line in lines), None)
    starts = _starts(tree)
    ranges = defaultdict(list)
    for name, first, last in _functions(tree, ""):
        ranges[name].append(range(first, last + 1))
    ranges["<module>"].append(range(1, text.count("\n") + 2))
    same: dict[tuple[str, int], list[int]] = {}
    for function, lines in compiled.items():
        scope = "<module>" if function.endswith(">") else function  # <lambda>, <listcomp>
        inside = [
            line
            for name, spans in ranges.items()
            if name == scope or ("." not in scope and name.endswith(f".{scope}"))
            for span in spans
            for line in span
        ]
        for line in sorted(lines):
            same[function, line] = [one for one in inside if lines[line] <= starts[one]]
    shifts = Counter(one - line for (_, line), ones in same.items() for one in ones)
    found: dict[int, int | None] = {}
    around, shift = "", 0
    for (function, line), ones in same.items():
        if function != around:
            pairs = ((n, many) for (name, n), many in same.items() if name == function)
            own = {one - n for n, many in pairs for one in many}
            around, shift = function, max(own, key=lambda s: (shifts[s], -abs(s)), default=0)
        now = min(ones, key=lambda one: (abs(one - line - shift), one), default=None)
        if now is not None and now != line and len(ones) > 1 and shifts[now - line] < _FEWEST:
            now = None  # nothing else has moved as far
        shift = shift if now is None else now - line
        found[line] = found.get(line) or now
    return found


def _starts(tree: ast.Module) -> defaultdict[int, set[int]]:
    """Return the columns at which expressions begin, and names of attributes, by line."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.AugAssign | ast.For | ast.With):
            found[node.lineno].add(node.col_offset)
        if isinstance(node, ast.Attribute) and node.end_col_offset is not None:
            found[node.end_lineno or node.lineno].add(node.end_col_offset - len(node.attr))
    return found


def _functions(node: ast.AST, outer: str) -> Iterator[tuple[str, int, int]]:
    """Yield the qualified name of each function below a node, with its first and last line."""
    for child in ast.iter_child_nodes(node):
        inner = outer
        if isinstance(child, ast.ClassDef):
            inner = f"{outer}{child.name}."
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{outer}{child.name}", child.lineno, child.end_lineno or child.lineno
            inner = f"{outer}{child.name}.<locals>."
        yield from _functions(child, inner)


def in_checkout(found: SourceLines, module: HloModule, checkout: Checkout) -> SourceLines:
    """Return lines with their text in a checkout, and the lines that they are now."""
    columns = compiled_columns(module)
    texts = {file: checkout.lines_of(file) for file in {one.source_file for one in found.lines}}
    now = {
        file: lines_now(columns[file], "\n".join(lines))
        for file, lines in texts.items()
        if lines and file in columns
    }
    placed = []
    for one in found.lines:
        lines = texts[one.source_file]
        number = now.get(one.source_file, {}).get(one.source_line, one.source_line)
        if not lines:
            placed.append(one)
        elif number is None or number > len(lines):
            placed.append(replace(one, is_changed=True))
        else:
            placed.append(replace(one, text=lines[number - 1], checkout_line=number))
    return replace(found, lines=tuple(placed))


_Portable = tuple[str, int]
"""Portable path and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """A line that costs more or less in the head; None of a side that does not know it."""

    source_file: Annotated[str, "file, as the head names it, else the base"]
    source_line: Annotated[int | None, "line of the head; null if only the base has it"]
    base_line: Annotated[int | None, "line of the base; null if only the head has it"]
    text: Annotated[str | None, "the line in the checkout"]
    base_peak_bytes: Annotated[int | None, Unit.BYTES, "bytes at the peak before"]
    peak_bytes: Annotated[int | None, Unit.BYTES, "bytes at the peak after"]
    base_wire_bytes: Annotated[int | None, Unit.BYTES, "bytes sent before"]
    wire_bytes: Annotated[int | None, Unit.BYTES, "bytes sent after"]
    base_flops: Annotated[int | None, Unit.FLOPS, "FLOP before"]
    flops: Annotated[int | None, Unit.FLOPS, "FLOP after"]
    gone: Annotated[tuple[str, ...], "codes of findings that are gone"]
    new: Annotated[tuple[str, ...], "codes of findings that are new"]
    checkout_line: Annotated[int | None, "line of the checkout that it is now"]

    def delta(self, measure: str) -> int | None:
        """Return the difference of a measure of `Amounts`; None if a side is not known."""
        before, after = getattr(self, f"base_{measure}"), getattr(self, measure)
        return None if before is None or after is None else after - before

    @property
    def is_changed(self) -> bool:
        return bool(self.gone or self.new) or any(map(self.delta, Amounts._fields))


@dataclass(frozen=True, kw_only=True)
class LineChanges(Records[LineChange]):
    """Lines that cost more or less, by file and line."""

    KIND: ClassVar[str] = "source-diff"
    lines: tuple[LineChange, ...]
    base: SourceLines
    head: SourceLines

    def residual_rows(self) -> tuple[Row, ...]:
        before, after = self.base.residuals, self.head.residuals
        amounts = {
            label: _both(before.get(label, Amounts()), after.get(label, Amounts()))
            for label in dict.fromkeys((*before, *after))
        }
        return tuple((k, *(None,) * 3, *both, (), (), None) for k, both in amounts.items())


def module_pairs(
    base: Sequence[ModuleDump], head: Sequence[ModuleDump]
) -> list[tuple[ModuleDump, ModuleDump]]:
    """Return the modules of two dumps with the same name; the only ones in any case."""
    if len(base) == len(head) == 1:
        return [(base[0], head[0])]
    before = {plain_name(one.name): one for one in reversed(base)}
    pairs = ((before.pop(plain_name(one.name), None), one) for one in head)
    return [(mine, yours) for mine, yours in pairs if mine is not None]


def changed_lines(
    base: ModuleDump, head: ModuleDump, before: SourceLines, after: SourceLines
) -> LineChanges:
    """Return the lines of two modules that cost more or less in the head."""
    names = _names_in_head(base, head)
    taken = {*names.values()}
    mine: dict[tuple[str, int, bool], SourceLine] = {}
    for one in before.lines:
        place = (portable_path(one.source_file), one.source_line)
        mine[(*names.get(place, place), place not in names and place in taken)] = one
    yours = {(portable_path(one.source_file), one.source_line, False): one for one in after.lines}
    pairs = ((mine.get(place), yours.get(place)) for place in sorted({*mine, *yours}))
    changes = (_change(one, other, before, after) for one, other in pairs)
    return LineChanges(
        lines=tuple(one for one in changes if one.is_changed), base=before, head=after
    )


def _change(
    mine: SourceLine | None, yours: SourceLine | None, before: SourceLines, after: SourceLines
) -> LineChange:
    line = yours or mine
    assert line is not None
    amounts = [
        Amounts(*(None if one is None else 0 for one in whole))
        if one is None
        else Amounts(one.peak_bytes, one.wire_bytes, one.flops)
        for one, whole in ((mine, before.whole), (yours, after.whole))
    ]
    names = [name for field in Amounts._fields for name in (f"base_{field}", field)]
    codes = [set() if one is None else {*one.findings} for one in (mine, yours)]
    return LineChange(
        source_file=line.source_file,
        source_line=None if yours is None else yours.source_line,
        base_line=None if mine is None else mine.source_line,
        text=line.text,
        checkout_line=line.checkout_line,
        gone=tuple(sorted(codes[0] - codes[1])),
        new=tuple(sorted(codes[1] - codes[0])),
        **dict(zip(names, _both(*amounts), strict=True)),
    )


def _both(base: Amounts, head: Amounts) -> list[int | None]:
    return [one for pair in zip(base, head, strict=True) for one in pair]


def _names_in_head(base: ModuleDump, head: ModuleDump) -> Mapping[_Portable, _Portable]:
    before, after = _tokens(base), _tokens(head)
    found: dict[_Portable, _Portable] = {}
    for file, lines in before.items():
        others = after.get(file, {})
        mine, yours = [*lines.items()], [*others.items()]
        matcher = SequenceMatcher(
            None, [token for _, token in mine], [token for _, token in yours], autojunk=False
        )
        for tag, first, end, to, to_end in matcher.get_opcodes():
            if tag != "insert" and end - first == to_end - to:  # equal, or edited in place
                pairs = zip(mine[first:end], yours[to:to_end], strict=False)
                found |= {(file, one): (file, other) for (one, _), (other, _) in pairs}
    return found


def _tokens(module: ModuleDump) -> dict[str, dict[int, tuple[object, ...]]]:
    found: dict[str, dict[int, list[object]]] = defaultdict(lambda: defaultdict(list))
    for file, functions in compiled_columns(hlo_text(module)).items():
        for function, lines in functions.items():
            for line, columns in lines.items():
                found[portable_path(file)][line].append((function, *sorted(columns)))
    return {
        file: {line: tuple(sorted(map(str, parts))) for line, parts in sorted(lines.items())}
        for file, lines in found.items()
    }
