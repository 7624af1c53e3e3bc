"""Page of ``hlo-lens lint``: the findings of each module, gravest first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Severity, savings_text
from hlo_lens.questions.findings.findings import findings_basis
from hlo_lens.render.result import Column, Unit, facts_object
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.render.to_json import Objects, envelope
from hlo_lens.render.to_markdown import Annotation
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.questions.findings.finding import Finding, Remedy
    from hlo_lens.questions.findings.findings import Findings
    from hlo_lens.questions.findings.rule import Rule


NONE = "none"
"""Text for no findings where all rules are decided."""

_MOST_EVIDENCE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What ``what-if`` can do with a module, for the commands below findings.

    `target` is the device that the user named where the dump names none, `example` one that it
    could be.
    """

    has_program: bool = True
    has_device: bool = True
    target: str = ""
    example: str = "v5e:2x4"

    @property
    def options(self) -> str | None:
        """The options that changes need; None where nothing can make them."""
        if not self.has_program:
            return None
        named = shell_word(self.target) if self.target else "NAME"
        return "" if self.has_device else f"--target {named}"

    @property
    def note(self) -> str:
        if not self.has_program:
            return "what-if has no program to compile: there is no text from before optimizations"
        if self.has_device or self.target:
            return ""
        return f"what-if compiles with --target, such as {self.example}: the dump names no device"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsView:
    """Findings of one module, as ``lint`` shows them.

    Attributes:
        address: Its name after its folder; empty where there is none.
        copy_of: Address of the module whose program this text has, too: findings are counted there.
        place: Line that calls the program, for findings without a line.
        problem: Why its findings are not known; empty if they are.
        gap: Why findings may be missing: parts of the text that could not be read; may be empty.
        cut: First line where its text ends too early.
    """

    name: str
    findings: Findings
    address: str = ""
    copy_of: str = ""
    path: str = ""
    options: str = ""
    trial: Trial = field(default_factory=Trial)
    place: SourceLocation | None = None
    problem: str = ""
    gap: str = ""
    cut: tuple[tuple[str, str], ...] = ()

    @property
    def open_questions(self) -> tuple[str, ...]:
        if self.problem or self.gap:
            return (self.problem or self.gap,)
        return tuple(
            f"{', '.join(codes)} not decided: {reason}"
            for reason, codes in undecided_rules(self.findings).items()
        )


def undecided_rules(found: Findings) -> dict[str, list[str]]:
    """Return reasons why rules are not decided, each with their codes."""
    reasons: dict[str, list[str]] = {}
    for code, reason in found.undecided:
        reasons.setdefault(reason, []).append(code)
    return reasons


def lint_report(views: Sequence[FindingsView]) -> Report:
    """Return the report on the findings of some modules; those without are only counted."""
    programs = [view for view in views if not view.copy_of]
    names = Counter(view.name for view in views)
    sections = [
        _section(view, view.address if view.address and names[view.name] > 1 else view.name)
        for view in programs
        if len(programs) == 1
        or view.findings.findings
        or view.findings.left_out
        or view.open_questions
    ]
    facts = [
        ("copy", f"{one.address}: the program of {one.copy_of}") for one in views if one.copy_of
    ]
    rest = len(programs) - len(sections)
    if rest:
        other = "other module" if sections else "module"
        facts.append(("findings", f"none in {plural(rest, other)}"))
    if facts:
        sections.append(Section(title="hlo-lens lint", facts=tuple(facts)))
    objects = Objects([partial(findings_object, view) for view in views])
    return Report(kind="lint", sections=sections, data=envelope("lint", modules=objects))


def findings_object(view: FindingsView) -> dict[str, object]:
    """Return the JSON object of a module."""
    found = view.findings
    return {
        "name": view.name,
        "address": view.address or None,
        "copy_of": view.copy_of or None,
        "findings": None if view.problem else [facts_object(one) for one in found.findings],
        "problem": view.problem or view.gap or None,
        **facts_object(findings_basis(found)),
        "unread_sources": list(found.unread),
        "source_file": None if view.place is None else view.place.file,
        "source_line": None if view.place is None else view.place.line,
    }


def _section(view: FindingsView, title: str) -> Section:
    found = view.findings
    if view.problem:
        return Section(title=title, facts=(("findings", f"not known: {view.problem}"),))
    facts = [*view.cut, ("findings", counts_text(found, is_whole=not view.gap))]
    for one in found.counted:
        facts += finding_facts([one])
        if not one.is_by_design:
            facts += (("  see", text) for text in one.evidence[:_MOST_EVIDENCE])
            if one.changes and view.trial.options is not None:
                options = view.options, view.trial.options
                facts.append(("  try", what_if_command(one.changes, view.path, *options)))
    table = Table.of(found, title="Findings", is_data_only=True)
    return Section(title=title, facts=tuple(facts), tables=(table,), notes=tuple(_notes(view)))


def counts_text(found: Findings, *, is_whole: bool = True) -> str:
    """Return the number of findings by severity, and of rules that are not decided."""
    counted = found.counted
    counts = [(s, sum(one.severity is s for one in counted)) for s in Severity]
    parts = [
        plural(count, severity.value) if severity is not Severity.INFO else f"{count} info"
        for severity, count in counts
        if count
    ]
    none = NONE if is_whole else f"{NONE} in the parts that were read"
    texts = [f"{', '.join(parts)}, gravest first" if parts else none]
    if found.undecided:
        texts.append(f"{plural(len(found.undecided), 'rule')} not decided")
    rest = len(found.findings) - len(counted)
    return "; ".join((*texts, *[f"{rest} suppressed"] * bool(rest)))


def finding_facts(found: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the message and the fix of some findings, each with its label.

    What a program means by design is one line.
    """
    for one in found:
        yield f"{one.code} {one.severity}", finding_text(one)
        if not one.is_by_design:
            yield "  fix", one.fix


def finding_text(finding: Finding) -> str:
    """Return the saving, the line and the message of a finding."""
    saves, source = savings_text(finding.saves, finding.share, finding.share_of), finding.source
    lead = f"{saves}; " if saves else ""
    place = f"{source}: " if source else ""
    return f"{lead}{place}{finding.message}"


def change_text(fact: Finding) -> str:
    """Return a finding of a comparison: code, line, message and saving."""
    text = savings_text(fact.saves, None)
    words = (fact.code, fact.source, fact.message, f"({text})" if text else "")
    return " ".join(filter(None, words))


def what_if_command(remedies: Sequence[Remedy], path: str, *options: str) -> str:
    """Return the command that makes some changes in a program."""
    words = [f"--{one.kind} {shell_word(one.target)}" for one in remedies]
    head = f"hlo-lens what-if {shell_word(path) if path else 'PATH'}"
    return " ".join(part for part in (head, *options, *words) if part)


_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def finding_annotations(view: FindingsView) -> Iterator[Annotation]:
    """Yield a note for GitHub for each finding that counts, gravest first."""
    place = None if view.place is None else str(view.place)
    for one in view.findings.counted:
        saves = savings_text(one.saves, one.share, one.share_of)
        yield Annotation(
            level=_LEVELS[one.severity or Severity.INFO],
            title=f"{one.code} {one.name}",
            message=f"{one.message}{f' ({saves})' if saves else ''}; {one.fix}",
            source=one.source or place,
        )


def _notes(view: FindingsView) -> Iterator[str]:
    if view.gap:
        yield f"findings may be missing: {view.gap}"
    for reason, count in view.findings.left_out:
        yield f"{plural(count, 'finding')} left out: {reason}"
    for reason, codes in undecided_rules(view.findings).items():
        yield f"not decided: {', '.join(codes)}: {reason}"
    if view.trial.note and any(one.changes for one in view.findings.counted):
        yield view.trial.note
    if view.findings.unread:
        files = listed([file.rpartition("/")[2] for file in view.findings.unread], _MOST_REASONS)
        yield f"comments not read: {files} not found from the current folder"
    counts = Counter(one.suppressed_by for one in view.findings.findings if one.suppressed)
    for where, count in counts.most_common(_MOST_REASONS):
        yield f"{plural(count, 'finding')} suppressed: {where}"
    if len(counts) > _MOST_REASONS:
        yield f"others suppressed at {plural(len(counts) - _MOST_REASONS, 'other place')}"
    if view.findings.counted:
        code = view.findings.counted[0].code
        yield f"what a code means, and when it is fine: hlo-lens help {code}"


_MOST_REASONS = 3

RULE_COLUMNS = (
    Column("code", Unit.NONE, "code of the rule"),
    Column("name", Unit.NONE, "name of the rule"),
    Column("title", Unit.NONE, "what it finds"),
)


def rules_report(rules: Sequence[Rule]) -> Report:
    """Return the list of rules."""
    rows = [(rule.code, rule.name, rule.text.title) for rule in rules]
    table = table_of("rules", "Rules of hlo-lens lint", RULE_COLUMNS, rows)
    note = "description of one: hlo-lens help CODE"
    section = Section(title="rules", tables=(table,), notes=(note,))
    objects = [rule_object(rule) for rule in rules]
    return Report(kind="rules", sections=(section,), data=envelope("rules", rules=objects))


def rule_report(rule: Rule) -> Report:
    """Return the description of one rule."""
    facts = (("", rule.text.title), *rule.text.parts.items())
    section = Section(title=f"{rule.code} {rule.name}", facts=facts)
    return Report(kind="rule", sections=(section,), data=envelope("rule", **rule_object(rule)))


def rule_object(rule: Rule) -> dict[str, object]:
    """Return the JSON object of a rule."""
    parts = {key.lower().replace(" ", "_"): text for key, text in rule.text.parts.items()}
    return {"code": rule.code, "name": rule.name, "title": rule.text.title, **parts}
