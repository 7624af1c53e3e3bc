"""Pages of ``hlo-lens explain``: the rules, and the description of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Unit
from hlo_lens.render.table import Report, Section, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.questions.findings.rule import Rule

RULE_COLUMNS = (
    Column("code", Unit.NONE, "code of the rule"),
    Column("name", Unit.NONE, "name of the rule"),
    Column("title", Unit.NONE, "what it finds"),
)


def rules_report(rules: Sequence[Rule]) -> Report:
    """Return the list of rules."""
    rows = [(rule.code, rule.name, rule.text.title) for rule in rules]
    table = table_of("rules", "Rules of hlo-lens lint", RULE_COLUMNS, rows)
    note = "description of one: hlo-lens explain CODE"
    section = Section(title="rules", tables=(table,), notes=(note,))
    objects = [rule_object(rule) for rule in rules]
    return Report(kind="rules", sections=(section,), data=envelope("rules", rules=objects))


def rule_report(rule: Rule) -> Report:
    """Return the description of one rule."""
    text = rule.text
    facts = (("", text.title), *((heading, _joined(part)) for heading, part in text.parts.items()))
    section = Section(title=f"{rule.code} {rule.name}", facts=facts)
    data = envelope("rule", **rule_object(rule))
    return Report(kind="rule", sections=(section,), data=data)


def rule_object(rule: Rule) -> dict[str, object]:
    """Return the JSON object of a rule."""
    text = rule.text
    keys = {heading: heading.lower().replace(" ", "_") for heading in text.parts}
    return {
        "code": rule.code,
        "name": rule.name,
        "title": text.title,
        **{keys[heading]: _joined(part) for heading, part in text.parts.items()},
    }


def _joined(text: str) -> str:
    """Return a paragraph as one line."""
    return " ".join(text.split())
