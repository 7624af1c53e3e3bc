"""Findings of two compiles: which are new, which are gone, which both have.

Lines, names of instructions and sizes change from compile to compile. Findings of one rule are
paired in steps, each finding once: of the same file, line and values; of the same file, line and
message, numbers aside; of the same file and message, in the order of their lines; of the same file
and first value, numbers in names aside; of the same file; then likewise of files of one name in
different folders. The rest is new, or gone.

Infos about several modules together are neither when two modules are compared: which module has
them depends on the others that its dump has.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, ClassVar, Protocol

from hlo_lens.questions.findings.finding import Severity, saving_cells
from hlo_lens.questions.findings.findings import Findings
from hlo_lens.questions.findings.rule import DumpRule, all_rules
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.questions.findings.finding import Finding

_NUMBERS = re.compile(r"(?:\.\d+)+$")
_AMOUNTS = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True, kw_only=True)
class FindingChanges(Result):
    """Findings that one side of a comparison lacks, new ones first.

    `undecided` are codes of rules that a side does not decide, whose findings are not compared;
    `is_one_sided` whether the other side decides some of these.
    """

    KIND: ClassVar[str] = "finding-changes"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("change", Unit.NONE, "new or gone"),
        *(one for one in Findings.COLUMNS if one.name not in ("name", "suppressed")),
    )
    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    kept: int
    undecided: tuple[str, ...] = ()
    is_one_sided: bool = False

    def rows(self) -> Iterator[Row]:
        for change, found in (("new", self.new), ("gone", self.gone)):
            for one in found:
                yield (
                    *(change, one.code, one.severity),
                    *saving_cells(one.saves),
                    *(one.source, one.message, one.fix),
                )


class KeptFindings(Protocol):
    """Findings of a module, of its dump or of a snapshot."""

    @property
    def findings(self) -> tuple[Finding, ...] | None:
        """The findings; None if they are not known."""

    @property
    def undecided(self) -> Mapping[str, str]:
        """Codes of rules that are not decided, each with the reason."""


def module_finding_changes(base: KeptFindings, head: KeptFindings) -> FindingChanges | None:
    """Return the changes of the findings of a module; None if they are not known of a side.

    Findings of rules that a side does not decide are not compared.
    """
    if base.findings is None or head.findings is None:
        return None
    of_dumps = {rule.code for rule in all_rules() if isinstance(rule, DumpRule)}
    undecided = tuple(sorted({*base.undecided, *head.undecided}))

    def is_compared(one: Finding) -> bool:
        is_of_dump = one.code in of_dumps and one.severity == Severity.INFO
        return not is_of_dump and one.code not in undecided

    changes = finding_changes(
        [*filter(is_compared, base.findings)], [*filter(is_compared, head.findings)]
    )
    is_one_sided = base.undecided.keys() != head.undecided.keys()
    return replace(changes, undecided=undecided, is_one_sided=is_one_sided)


def finding_changes(base: Sequence[Finding], head: Sequence[Finding]) -> FindingChanges:
    """Return the changes of the findings that count."""
    mine = [one for one in base if not one.suppressed]
    yours = [one for one in head if not one.suppressed]
    count = len(mine)
    for key in _KEYS:
        pairs = _in_line_order(mine, yours) if key is None else _by(key, mine, yours)
        paired = {id(one) for pair in pairs for one in pair}
        mine = [one for one in mine if id(one) not in paired]
        yours = [one for one in yours if id(one) not in paired]
    return FindingChanges(new=tuple(yours), gone=tuple(mine), kept=count - len(mine))


def _by(
    key: Callable[[Finding], object], base: Sequence[Finding], head: Sequence[Finding]
) -> Iterator[tuple[Finding, Finding]]:
    waiting: defaultdict[object, deque[Finding]] = defaultdict(deque)
    for one in base:
        waiting[key(one)].append(one)
    for one in head:
        if waiting[key(one)]:
            yield waiting[key(one)].popleft(), one


def _in_line_order(
    base: Sequence[Finding], head: Sequence[Finding]
) -> Iterator[tuple[Finding, Finding]]:
    groups: defaultdict[object, tuple[list[Finding], list[Finding]]]
    groups = defaultdict(lambda: ([], []))
    for side, found in enumerate((base, head)):
        for one in sorted(found, key=lambda one: one.source_line or 0):
            groups[one.code, _file(one)][side].append(one)
    for mine, yours in groups.values():
        texts = [*map(_text, mine)], [*map(_text, yours)]
        for block in SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks():
            ours = mine[block.a :][: block.size], yours[block.b :][: block.size]
            yield from zip(*ours, strict=True)


def _file(finding: Finding, parts: int = 2) -> str:
    """Return the end of the path, which is the same on every machine."""
    return "/".join((finding.source_file or "").replace("\\", "/").split("/")[-parts:])


def _text(finding: Finding) -> str:
    return _AMOUNTS.sub("", finding.message)


def _value(finding: Finding) -> str:
    return _NUMBERS.sub("", next(iter(finding.values), ""))


_KEYS: tuple[Callable[[Finding], object] | None, ...] = (
    lambda one: (one.code, _file(one), one.source_line, one.values),
    lambda one: (one.code, _file(one), one.source_line, _text(one)),
    None,
    lambda one: (one.code, _file(one), _value(one)),
    lambda one: (one.code, _file(one)),
    lambda one: (one.code, _file(one, 1), _value(one)),
    lambda one: (one.code, _file(one, 1)),
)
"""Keys by which findings are the same, surest first; None for message and order of lines."""
