"""Compare memory estimates with the truth, over all compiles of the corpus.

Usage: ``python -m tests.estimate_table [--all] [--write]``, or ``make estimates``. It prints one
row for each backend, then the texts whose estimate is not equal (``--all``: all). With ``--write``
it writes the table of the handbook. What counts as true is in `tests.estimate_cases`.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from typing import TYPE_CHECKING

from tests.corpus import CORPUS, ROOT, archives
from tests.estimate_cases import HOST_FIGURES, Case, cases_of, recorded_cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TOPIC = ROOT / "hlo_lens/manual/limits.md"

SUMMARY = (
    "backend", "texts", "equal", "dumps", "as_text", "temp: median error", "worst",
    "peak: median error", "worst",
)  # fmt: skip

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


def summary_row(name: str, cases: Sequence[Case]) -> tuple[str, ...]:
    """Return the row of the summary for some cases."""
    sides = [[c for c in cases if c.is_compiled == is_compiled] for is_compiled in (False, True)]
    errors = [case.error for case in cases]
    peak_errors = [case.peak_error for case in cases if case.peak_error is not None]
    return (
        name,
        str(len(cases)),
        str(sum(case.is_exact for case in cases)),
        *(f"{sum(case.is_exact for case in side)} of {len(side)}" for side in sides),
        *_median_and_worst(errors),
        *_median_and_worst(peak_errors),
    )


def _median_and_worst(errors: Sequence[float]) -> tuple[str, str]:
    """Return the median of the sizes of errors and the largest one, with its sign."""
    if not errors:
        return "", ""
    worst = max(errors, key=abs)
    return f"{median(map(abs, errors)):.2g} %", f"{worst:+.2g} %" if worst else "0 %"


def summary(cases: Sequence[Case]) -> str:
    """Return the table with a row for each backend and one for all."""
    known = [case for case in cases if case.found]
    rows = [
        summary_row(name, [case for case in known if case.compiler == name])
        for name in sorted({case.compiler for case in known})
    ]
    return markdown(SUMMARY, [*rows, summary_row("all", known)])


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


def topic_text(topic: str, cases: Sequence[Case]) -> str:
    """Return the handbook's topic with the present table."""
    table = summary(cases)
    before, _, rest = topic.partition(f"| {SUMMARY[0]} |")
    return f"{before}{table}\n{rest.partition(chr(10) * 2)[2]}"


def report(cases: Sequence[Case], *, every: bool) -> str:
    """Return the tables: a row for each backend, then the cases, all or the unequal ones."""
    shown = [case for case in cases if every or not (case.found and case.is_exact)]
    title = "All texts" if every else "Texts whose estimate is not equal"
    return (
        f"# Memory estimates\n\n{summary(cases)}\n"
        f"## {title}: {len(shown)}\n\n{markdown(HEADER, map(cells, shown))}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables."""
    parser = argparse.ArgumentParser(prog="tests.estimate_table", description=__doc__)
    parser.add_argument("--all", action="store_true", help="list every text, also the equal ones")
    parser.add_argument("--write", action="store_true", help="write the handbook's table")
    options = parser.parse_args(arguments)
    found = all_cases()
    sys.stdout.write(report(found, every=options.all))
    if options.write:
        TOPIC.write_text(topic_text(TOPIC.read_text("utf-8"), found), "utf-8")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
