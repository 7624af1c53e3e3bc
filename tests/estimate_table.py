"""Compare memory estimates with the truth, over all compiles of the corpus.

Usage: ``python -m tests.estimate_table [--all] [--write]``, or ``make estimates``. It prints one
row for each set of compiles, then the texts whose estimate is not exact (``--all``: all). With
``--write`` it writes the forms that are exact (`hlo_lens.questions.memory.exact_forms`) and the
table of the handbook. What counts as true is in `tests.estimate_cases`.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.corpus import CORPUS, ROOT, archives
from tests.estimate_cases import HOST_FIGURES, Case, cases_of, recorded_cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LEAST_TEXTS = 8
"""Least texts with a form, all exact, for which it counts as exact."""

FORMS_FILE = ROOT / "hlo_lens/questions/memory/exact_forms.py"
TOPIC = ROOT / "hlo_lens/manual/estimates.md"

SUMMARY = ("texts", "equal", "dumps", "as_text", "exact", "wrong", "outside")

HEADER = (
    "set", "model", "variant", "text", "temp true", "temp estimated", "error %", "argument",
    "output", "alias", "host", "peak",
)  # fmt: skip


def all_cases() -> list[Case]:
    """Return the cases of the whole corpus."""
    found = [case for archive in archives() for case in cases_of(archive)]
    for archive in sorted((CORPUS / "jax012").glob("*.tar.xz")):
        found += recorded_cases(archive)
    return found


def exact_forms(cases: Iterable[Case]) -> dict[str, frozenset[str]]:
    """Return for each group of compilers the forms of which no text is estimated wrongly.

    Texts that do not show their compiler or chip are left out: none of them is said to be exact.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: dict[str, set[str]] = defaultdict(set)
    for case in cases:
        if case.found and not case.is_guess:
            counts[case.compilers].update(case.forms)
            if not case.is_exact:
                wrong[case.compilers] |= case.forms
    known = {
        group: frozenset(f for f, n in found.items() if n >= LEAST_TEXTS and f not in wrong[group])
        for group, found in sorted(counts.items())
    }
    return {group: forms for group, forms in known.items() if forms}


def summary_row(name: str, cases: Sequence[Case]) -> tuple[str, ...]:
    """Return the row of the summary for some cases."""
    known = [case for case in cases if case.found]
    sides = [[c for c in known if c.is_compiled == is_compiled] for is_compiled in (False, True)]
    claimed = [case for case in known if case.is_claimed]
    return (
        name.removeprefix("gpu-").removeprefix("tpu-"),
        str(len(known)),
        str(sum(case.is_exact for case in known)),
        *(f"{sum(case.is_exact for case in side)} of {len(side)}" for side in sides),
        str(len(claimed)),
        str(sum(not case.is_exact for case in claimed)),
        str(sum(not case.is_in_range for case in known)),
    )


def summary(cases: Sequence[Case]) -> str:
    """Return the table with a row for each set and one for all."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.backend].append(case)
    rows = [summary_row(name, groups[name]) for name in sorted(groups)]
    return markdown(("set", *SUMMARY), [*rows, summary_row("all", cases)])


def cells(case: Case) -> tuple[str, ...]:
    """Return a case as a row of the table."""
    text = f"{case.module}{' as_text' if case.is_compiled else ''}"
    start = (case.backend, case.model, case.variant, text, f"{case.known['temp']:,}")
    if not case.found:
        return (*start, case.reason, *([""] * 6))
    exact = [case.as_exact(name) for name in ("argument", "output", "alias")]
    peak = f"{case.peak[0]:,}" if case.peak[1] is None else f"{case.peak[0] - case.peak[1]:+,}"
    temp = f"{case.found['temp']:,}"
    return (*start, temp, f"{case.error:+.2f}", *exact, case.as_exact(*HOST_FIGURES), peak)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def forms_source(forms: Mapping[str, frozenset[str]]) -> str:
    """Return the source of the module of exact forms."""
    parts = [
        f'    "{group}": _forms({_arguments(found)}),\n' for group, found in forms.items() if found
    ]
    head = FORMS_FILE.read_text("utf-8").partition("EXACT_FORMS: ")[0]
    return f"{head}EXACT_FORMS: Mapping[str, frozenset[str]] = {{\n{''.join(parts)}}}\n"


def _arguments(found: frozenset[str]) -> str:
    """Return forms as arguments: those of two words by their first one, as one text."""
    words: dict[str, list[str]] = {}
    others = []
    for form in sorted(found):
        first, _, rest = form.partition(" ")
        if " " in rest or not first.isidentifier():
            others.append(f'"{form}", ')
        else:
            words.setdefault(first, []).append(rest)
    texts = [f'{first}="""\n{_wrapped(rest)}\n{" " * 8}""", ' for first, rest in words.items()]
    return "".join([*others, *texts])


def _wrapped(words: Sequence[str]) -> str:
    indent = " " * 12
    return textwrap.fill(
        " ".join(words),
        100,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def compilers_table(cases: Iterable[Case], forms: Mapping[str, frozenset[str]]) -> str:
    """Return the table of compilers, with the number of forms that are exact."""
    texts: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.found and not case.is_guess:
            texts[case.compilers].append(case)
    rows = [
        (
            group,
            str(len(found)),
            str(sum(c.is_exact for c in found)),
            str(len(forms.get(group, ()))),
        )
        for group, found in sorted(texts.items())
    ]
    return markdown(("compilers", "texts", "equal", "exact forms"), rows)


def with_claims(cases: Iterable[Case], forms: Mapping[str, frozenset[str]]) -> list[Case]:
    """Return the cases as they are with other exact forms."""
    return [
        replace(
            case, is_claimed=not case.is_guess and case.forms <= forms.get(case.compilers, set())
        )
        if case.found
        else case
        for case in cases
    ]


def topic_text(topic: str, cases: Sequence[Case], forms: Mapping[str, frozenset[str]]) -> str:
    """Return the handbook's topic with the present tables."""
    for table in (summary(with_claims(cases, forms)), compilers_table(cases, forms)):
        head = table.partition(" |")[0]
        before, _, rest = topic.partition(f"{head} |")
        topic = f"{before}{table}\n{rest.partition(chr(10) * 2)[2]}"
    return topic


def report(cases: Sequence[Case], *, every: bool) -> str:
    """Return the tables: one row for each set, then the cases, all or those that are not exact."""
    shown = [case for case in cases if every or not (case.found and case.is_exact)]
    title = "All texts" if every else "Texts whose estimate is not exact"
    return (
        f"# Memory estimates\n\n{summary(cases)}\n"
        f"## {title}: {len(shown)}\n\n{markdown(HEADER, map(cells, shown))}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables."""
    parser = argparse.ArgumentParser(prog="tests.estimate_table", description=__doc__)
    parser.add_argument("--all", action="store_true", help="list every text, also the exact ones")
    parser.add_argument("--write", action="store_true", help="write forms and handbook's table")
    options = parser.parse_args(arguments)
    found = all_cases()
    sys.stdout.write(report(found, every=options.all))
    if options.write:
        forms = exact_forms(found)
        FORMS_FILE.write_text(forms_source(forms), "utf-8")
        TOPIC.write_text(topic_text(TOPIC.read_text("utf-8"), found, forms), "utf-8")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
