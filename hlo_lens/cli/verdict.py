"""Exit code of a comparison or a judgement, with its errors on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlo_lens.cli import exit_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.api.changes import Diff
    from hlo_lens.api.check import Checked

NOTHING_DECIDED = "no rule could be decided, not even an informational one"


def finish(checked: Checked | None, diff: Diff | None = None) -> None:
    """Exit with 1 if a rule failed, 4 if one cannot be decided, else 0.

    Args:
        checked: Verdicts on rules, if there are any.
        diff: Differences, each of which is a failure; None if none is.
    """
    is_changed = diff is not None and not diff.identical
    code = exit_codes.DONE
    if is_changed or (checked is not None and checked.judgement.is_failed):
        code = exit_codes.RULE_FAILED
    else:
        for text in (*_unknown(diff), *_undecided(checked)):
            code = exit_codes.UNPARSABLE
            click.echo(f"hlo-lens: error: {text}", err=True)
    click.get_current_context().exit(code)


def _unknown(diff: Diff | None) -> Iterator[str]:
    """Yield the modules that may have changed, with what could not be compared."""
    for name, subjects in ({} if diff is None else diff.unknown).items():
        yield f"{name}: whether it changed is not known: {', '.join(subjects)}"


def _undecided(checked: Checked | None) -> Iterator[str]:
    """Yield the rules that cannot be decided, with the reason."""
    if checked is None or not checked.judgement.is_undecided:
        return
    undecided = [one for one in checked.judgement.verdicts if one.is_undecided]
    for verdict in undecided:
        where = f" of {verdict.module}" if verdict.module else ""
        text = f"{verdict.rule.metric.label}{where} cannot be decided: {verdict.reason}"
        yield f"{verdict.rule.place}: {text}"
    if not undecided:
        yield NOTHING_DECIDED
