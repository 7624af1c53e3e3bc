"""Findings of one module or of a dump, gravest first, each with its severity; proofs of fixes.

The saving of a finding is compared with the whole program: bytes of memory with what must fit,
bytes sent with all bytes sent or a sixteenth of what must fit (whichever is more, so that the only
collective of a program that hardly communicates weighs little), arithmetic with all arithmetic. The
largest of these shares orders the findings, and decides the severity where the rule does not.

Proofs are kept in the user's cache by digest, as the answers of ``fit`` are. Commands that print
findings read them; only ``lint`` compiles and stores new ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections import Counter, defaultdict, deque
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from hlo_lens.load.fact import fact
from hlo_lens.program.flops import flops
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import hlo_text, instruction_table
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.finding import (
    SAVING_COLUMNS,
    Finding,
    Saves,
    SavingBasis,
    Severity,
    saving_cells,
)
from hlo_lens.questions.findings.rule import (
    MEMORY,
    PEAK,
    DumpRule,
    ModuleRule,
    all_rules,
    root_codes,
)
from hlo_lens.questions.memory.results import (
    is_estimate_left_out,
    memory_results,
    not_estimated_text,
)
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.text.dump_kinds import BEFORE
from hlo_lens.text.errors import DumpSyntaxError, MissingDumpError
from hlo_lens.text.units import flops_text, format_bytes
from hlo_lens.text.user_cache import PROOFS, cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.questions.findings.finding import Finding, Remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Memory, communication and arithmetic of a program; None where not known."""

    memory_bytes: int | None
    wire_bytes: int | None
    flops: int | None

    @property
    def traffic(self) -> int:
        """Bytes that communication is compared with: all sent, or a sixteenth of memory."""
        return max(self.wire_bytes or 0, (self.memory_bytes or 0) // 16)

    def memory_share(self, size_bytes: int) -> float:
        return size_bytes / self.memory_bytes if self.memory_bytes else 0.0

    def weighed(self, finding: Finding) -> Finding:
        wholes = {"bytes": self.memory_bytes, "sent_bytes": self.traffic, "flops": self.flops}
        shares = {
            name: part / whole
            for name, whole in wholes.items()
            if whole and (part := getattr(finding.saves, name)) is not None
        }
        most = max(shares, key=lambda name: shares[name], default="")
        share = min(1.0, shares[most]) if most else None
        return replace(finding, share=share, share_of=most)


@fact
def whole(module: ModuleDump) -> Whole:
    """Return memory, communication and arithmetic of a module."""
    if module.hlo is None:
        return Whole(memory_bytes=None, wire_bytes=None, flops=None)
    memory, signature = memory_results(module), entry_signature(module)
    values = (*signature.parameters, *signature.outputs)
    return Whole(
        memory_bytes=sum(one.size_bytes or 0 for one in values)
        if memory is None
        else memory.statement.total_bytes,
        wire_bytes=collectives(module).wire_bytes_per_device,
        flops=flops(module).total,
    )


LEAST_SHARE = 0.001
"""Findings that save a smaller share are dropped."""

WARNING_SHARE = 0.01
ERROR_SHARE = 0.1
"""Least share of a warning, and of an error; an error's saving is no upper bound."""

LEAST_BYTES = 64 * 1024
"""Bytes of memory under which a saving is worth no warning, as in the floor of ``diff``."""

FEWEST_BYTES = 64
"""Findings that save only memory, and fewer bytes, as of scalars and keys, are dropped."""


@dataclass(frozen=True, kw_only=True)
class Findings(Result):
    """Findings of one module, gravest first, suppressed ones included.

    Attributes:
        undecided: Code of each rule that a dump does not decide, with the reason.
        left_out: Numbers of findings that settings leave out, each with the reason.
        unread: Source files of findings that are not there, so that comments in them are not read.
    """

    KIND: ClassVar[str] = "findings"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("code", Unit.NONE, "code of the rule; hlo-lens help CODE describes it"),
        Column("name", Unit.NONE, "name of the rule"),
        Column("severity", Unit.NONE, "error, warning or info"),
        *SAVING_COLUMNS,
        Column("source", Unit.NONE, "line of the program, file:line"),
        Column("message", Unit.NONE, "what is wrong"),
        Column("fix", Unit.NONE, "what to write instead"),
        Column("suppressed", Unit.NONE, "where it is suppressed; empty if it counts"),
    )
    RECORDS: ClassVar[str] = "findings"
    findings: tuple[Finding, ...]
    undecided: tuple[tuple[str, str], ...] = ()
    left_out: tuple[tuple[str, int], ...] = ()
    unread: tuple[str, ...] = ()
    fits: bool | None = None

    def rows(self) -> Iterator[Row]:
        for one in self.findings:
            yield (
                *(one.code, one.name, one.severity),
                *saving_cells(one.saves),
                *(one.source, one.message, one.fix, one.suppressed_by or ""),
            )

    @property
    def counted(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if not one.suppressed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A rule of ``lint`` that is not decided, with the reason."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A number of findings that settings leave out, with the reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsBasis:
    """Rules that are not decided for the findings of a module, and findings that are left out."""

    undecided: tuple[Undecided, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def findings_basis(found: Findings) -> FindingsBasis:
    """Return what findings leave open, as a record."""
    return FindingsBasis(
        undecided=tuple(Undecided(code=c, reason=text) for c, text in found.undecided),
        left_out=tuple(LeftOut(reason=text, count=n) for text, n in found.left_out),
    )


def judged(
    found: Iterable[Finding], known: ModuleDump, *, is_kept: bool = False
) -> tuple[Finding, ...]:
    """Return findings with share and severity, gravest first, without negligible ones."""
    rated = []
    for one in map(whole(known).weighed, found):
        saves, size = one.saves, one.saves.bytes or 0
        is_of_memory = (saves.sent_bytes, saves.flops, saves.seconds) == (None, None, None)
        share = one.share or 0.0
        is_negligible = share < LEAST_SHARE or (is_of_memory and size < FEWEST_BYTES)
        if is_negligible and one.share is not None and not is_kept:
            continue
        severity = Severity.WARNING
        if share < WARNING_SHARE or (is_of_memory and size < LEAST_BYTES):
            severity = Severity.INFO
        elif saves.basis is SavingBasis.COMPILED and not one.has_cost and share >= ERROR_SHARE:
            severity = Severity.ERROR
        rated.append(replace(one, severity=one.severity or severity))
    memory = memory_results(known)
    fits = None if memory is None else memory.statement.fits
    return tuple(sorted(rated, key=lambda one: _order(one, fits)))


def together(one: Findings, other: Findings) -> Findings:
    """Return the findings of two sets, in the order of the first."""
    left_out: Counter[str] = Counter()
    for reason, count in (*one.left_out, *other.left_out):
        left_out[reason] += count
    listed = (*one.findings, *other.findings)
    return Findings(
        findings=tuple(sorted(listed, key=lambda finding: _order(finding, one.fits))),
        fits=one.fits,
        undecided=(*one.undecided, *other.undecided),
        left_out=tuple(left_out.items()),
        unread=tuple(dict.fromkeys((*one.unread, *other.unread))),
    )


def _order(finding: Finding, fits: bool | None) -> tuple[object, ...]:
    """Return the sort key: root causes and errors of unknown saving, then by severity and share.

    Of a program that does not fit, findings that free memory come first, the most bytes first. A
    warning of unknown saving is sorted by its weight, or as one that saves a tenth. Intended design
    comes last.
    """
    share, severity = finding.share, finding.severity or Severity.INFO
    is_grave = share is None and severity is Severity.ERROR
    if share is None:
        share = finding.weight or (ERROR_SHARE if severity is Severity.WARNING else 0.0)
    freed = max(0, finding.saves.bytes or 0) if fits is False else 0
    return (
        finding.is_by_design,
        not (is_grave or finding.code in root_codes()),
        -freed,
        severity.rank,
        finding.saves.basis is not SavingBasis.COMPILED,
        -share,
        finding.code,
        finding.source or "",
        finding.message,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Decrease of figures of one device by a fix, negative where it costs; None if not known.

    Attributes:
        toolchain: Packages that compiled.
        fits: Of a program that did not fit: whether it fits with the fix; None if not known.
        left: Of such a program: bytes that findings could still save with the fix, by code.
    """

    bytes: int | None
    sent_bytes: int | None
    flops: int | None
    toolchain: str = ""
    fits: bool | None = None
    left: Mapping[str, int] | None = None

    @property
    def text(self) -> str:
        figures = (
            ("must fit", self.bytes, format_bytes),
            ("sent in a run", self.sent_bytes, format_bytes),
            ("work", self.flops, flops_text),
        )
        parts = [
            f"{words} {show(abs(part))} {'more' if part < 0 else 'less'}"
            for words, part, show in figures
            if part
        ]
        return ", ".join(parts) or "nothing changes"


@fact
def unproven_findings(module: ModuleDump) -> Findings:
    """Return the findings in one module, by the settings of its user if there are any."""
    given = module.given.findings
    return all_findings(module) if given is None else cast("Findings", given(module))


@fact
def module_findings(module: ModuleDump) -> Findings:
    """Return the findings in one module, with the proofs of fixes that are in the cache."""
    found = unproven_findings(module)
    proofs = [(one, kept(module, one) if one.is_provable else None) for one in found.findings]
    return with_proofs(module, found, proofs) if any(proof for _, proof in proofs) else found


def with_proofs(
    module: ModuleDump, found: Findings, proofs: Iterable[tuple[Finding, Proof | None]]
) -> Findings:
    """Return the findings of a module, each with the proof of its fix if there is one.

    One that promised nothing is left out if its fix, compiled, saves nothing.
    """
    made: list[Finding] = []
    roots: list[tuple[Finding, Mapping[str, int]]] = []  # with what is left to save
    for one, proof in proofs:
        proven = one if proof is None else _proven(one, proof, whole(module))
        if proven is one or proven.saves != Saves() or one.saves != Saves():
            made.append(proven)
        is_fix = one.code in root_codes() and proven.changes
        if is_fix and proof is not None and proof.left is not None:
            roots.append((proven, proof.left))
    for root, left in roots:
        for one in [one for one in made if {*root.axes} & {*one.axes}]:
            if one.code in root_codes():
                continue
            if one.code in left:
                saved = f"with {root.code} up to {format_bytes(left[one.code])}"
                made[made.index(one)] = replace(one, message=f"{one.message}; {saved}")
            else:
                made.remove(one)
    return replace(found, findings=judged(made, module, is_kept=True))


def _proven(finding: Finding, proof: Proof, program: Whole) -> Finding:
    """Return a finding with the compiled saving of its fix.

    A fix that saves nothing of what it was to save is none: its changes go, and the finding is an
    info without a saving. One that costs a larger share of the program than it saves is an info,
    too. A root cause stays as grave as it is: what it says of the program is no promise.
    """
    is_root, old = finding.code in root_codes(), finding.saves
    figures = (
        (old.bytes, proof.bytes, program.memory_bytes),
        (old.sent_bytes, proof.sent_bytes, program.traffic),
        (old.flops, proof.flops, program.flops),
    )
    shares = [saved / all_ if saved and all_ else 0.0 for _, saved, all_ in figures]
    gain, cost = max(shares), -min(shares)
    promised = [saved or 0 for promise, saved, _ in figures if promise]
    if gain < LEAST_SHARE or (promised and max(promised) <= 0):
        return replace(
            finding,
            fix=f"not known: compiled with {changes_text(finding.changes)}, {proof.text}",
            changes=(),
            saves=Saves(),
            severity=finding.severity if is_root else Severity.INFO,
        )
    is_grave = gain > cost and finding.severity is not Severity.INFO
    return replace(
        finding,
        message=f"{finding.message}{'; with the fix it fits' * bool(proof.fits)}",
        evidence=(f"compiled again with the fix: {proof.text}", *finding.evidence),
        saves=Saves(
            bytes=proof.bytes,
            sent_bytes=proof.sent_bytes,
            flops=proof.flops,
            basis=SavingBasis.COMPILED,
        ),
        severity=finding.severity if is_root else None if is_grave else Severity.INFO,
    )


def changes_text(changes: Sequence[Remedy]) -> str:
    """Return the changes of a fix, the first ones: ``donate params, shard x=P('data')``."""
    names = [f"{one.kind} {one.target}" for one in changes[:2]]
    return ", ".join((*names, *["..."] * (len(changes) > len(names))))


def all_findings(known: ModuleDump) -> Findings:
    """Return the findings of all rules in one module."""
    if not known.has_hlo:
        return Findings(findings=())
    hlo_text(known).links.all_operands()  # rules ask for those of most computations
    memory, unknown = memory_results(known), {}
    if memory is None and is_estimate_left_out(known):
        why = not_estimated_text(len(hlo_text(known).columns), known.path, known.address)
        unknown = dict.fromkeys((MEMORY, PEAK), f"memory is not known: {why}")
    elif memory is None:
        from hlo_lens.questions.memory.estimate import why_no_estimate

        why = why_no_estimate(instruction_table(known)) or "the dump has no buffer assignment"
        unknown = dict.fromkeys((MEMORY, PEAK), f"memory is not known: {why}")
    elif memory.peak is None:
        unknown = {PEAK: "the values at the peak are not known"}
    found: list[Finding] = []
    undecided: list[tuple[str, str]] = []
    for rule in all_rules():
        if not isinstance(rule, ModuleRule):
            continue
        if rule.needs in unknown:
            undecided.append((rule.code, unknown[rule.needs]))
            continue
        try:
            found += (replace(one, code=rule.code, name=rule.name) for one in rule.find(known))
        except (MissingDumpError, DumpSyntaxError) as error:
            undecided.append((rule.code, str(error)))
    fits = None if memory is None else memory.statement.fits
    wanted = WARNING_SHARE * (whole(known).memory_bytes or 0) if fits is False else None
    return Findings(
        findings=judged(_joined(found, root_codes(), wanted), known),
        undecided=tuple(undecided),
        fits=fits,
    )


def _joined(
    found: Sequence[Finding], roots: Collection[str], wanted: float | None
) -> list[Finding]:
    """Return findings with those on the axes of a root cause among its evidence.

    A root cause saves also what one at its own line would save. Findings that free much memory
    stand beside it where they are `wanted` for the program to fit: bytes, None if it fits.
    """
    causes = [one for one in found if one.code in roots]
    others = []
    for one in found:
        place = next((k for k, root in enumerate(causes) if {*root.axes} & {*one.axes}), None)
        if one.code in roots:
            continue
        if place is None or (wanted is not None and (one.saves.bytes or 0) >= wanted):
            others.append(one)
            continue
        root, symptom = causes[place], f"{one.code} follows: {one.message}"
        if one.source == root.source and root.saves.sent_bytes is None:
            saves = replace(root.saves, sent_bytes=one.saves.sent_bytes)
            causes[place] = replace(root, evidence=(symptom, *root.evidence), saves=saves)
        else:
            causes[place] = replace(root, evidence=(*root.evidence, symptom))
    return [*causes, *others]


def dump_findings(modules: Sequence[ListingFacts]) -> dict[int, tuple[Finding, ...]]:
    """Return the findings by position of the module to blame."""
    found: dict[int, tuple[Finding, ...]] = {}
    for rule in all_rules():
        for place, one in rule.find(modules) if isinstance(rule, DumpRule) else ():
            named = replace(one, code=rule.code, name=rule.name)
            found[place] = (*found.get(place, ()), named)
    return found


# ---- proofs in the cache -------------------------------------------------------------------------


@fact
def _digest(module: ModuleDump) -> bytes:
    before = module.hlo if module.stage == BEFORE else module.before
    digest = hashlib.sha256(b"2")  # the version of what is kept
    for text in (before, module.hlo):
        if text is not None:
            digest.update(text.columns.source.text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.digest()


def _file(module: ModuleDump, key: object) -> Path:
    digest = hashlib.sha256(_digest(module) + json.dumps(key).encode())
    return cache_folder(PROOFS, f"{digest.hexdigest()[:32]}.json")


def keep_answer(module: ModuleDump, key: object, fields: Mapping[str, object]) -> None:
    """Keep what compiles showed of a program, by what was asked, if the cache can be written."""
    file = _file(module, key)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(fields), encoding="utf-8")


def kept_answer(module: ModuleDump, key: object) -> dict[str, Any] | None:
    """Return a kept answer on a program; None without a whole one."""
    if not module.has_program or not cache_folder(PROOFS).is_dir():
        return None
    try:
        return dict(json.loads(_file(module, key).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _key(finding: Finding) -> object:
    return sorted((one.kind, one.target) for one in finding.changes)


def keep(module: ModuleDump, finding: Finding, proof: Proof) -> None:
    """Keep the proof of a finding in the cache."""
    fields = {name: value for name, value in asdict(proof).items() if value is not None}
    keep_answer(module, _key(finding), {"bytes": None, "sent_bytes": None, "flops": None} | fields)


def kept(module: ModuleDump, finding: Finding) -> Proof | None:
    """Return the proof of a finding in the cache; None without a whole one."""
    fields = kept_answer(module, _key(finding))
    with contextlib.suppress(TypeError):
        return None if fields is None else Proof(**fields)
    return None


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
            groups[one.code, _path_end(one)][side].append(one)
    for mine, yours in groups.values():
        texts = [*map(_text, mine)], [*map(_text, yours)]
        for block in SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks():
            ours = mine[block.a :][: block.size], yours[block.b :][: block.size]
            yield from zip(*ours, strict=True)


def _path_end(finding: Finding, parts: int = 2) -> str:
    """Return the end of the path, which is the same on every machine."""
    return "/".join((finding.source_file or "").replace("\\", "/").split("/")[-parts:])


def _text(finding: Finding) -> str:
    return _AMOUNTS.sub("", finding.message)


def _value(finding: Finding) -> str:
    return _NUMBERS.sub("", next(iter(finding.values), ""))


_KEYS: tuple[Callable[[Finding], object] | None, ...] = (
    lambda one: (one.code, _path_end(one), one.source_line, one.values),
    lambda one: (one.code, _path_end(one), one.source_line, _text(one)),
    None,
    lambda one: (one.code, _path_end(one), _value(one)),
    lambda one: (one.code, _path_end(one)),
    lambda one: (one.code, _path_end(one, 1), _value(one)),
    lambda one: (one.code, _path_end(one, 1)),
)
"""Keys by which findings are the same, surest first; None for message and order of lines."""
