"""Known findings of ``lint``: an earlier output, a snapshot or a dump."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.files import read_source
from hlo_lens.questions.diff.sides import load_side
from hlo_lens.questions.findings.run_settings import Sieve
from hlo_lens.questions.snapshots.snapshot_file import LINT, read_findings
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import plain_name
from hlo_lens.text.source_files import Checkout

if TYPE_CHECKING:
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.findings.settings import LintSettings


def sieve_of(settings: LintSettings, baseline: str | None = None) -> Sieve:
    """Return the sieve of settings, with the baseline that is given, else with theirs."""
    path = baseline
    if path is None and settings.baseline is not None:
        path = str(Path(settings.path).parent / settings.baseline)
    return Sieve(
        settings=settings,
        checkout=Checkout.here(),
        known=None if path is None else read_baseline(path),
        baseline=path or "",
    )


def read_baseline(path: str) -> dict[str, tuple[Finding, ...]]:
    """Return the findings of a baseline, by module name.

    Args:
        path: Output of ``hlo-lens lint -f json``, a snapshot, or a dump.

    Raises:
        UnreadableError: If it cannot be read.
        DumpSyntaxError: If it is damaged, or of a newer version.
        UsageError: If it is a snapshot of a version without findings.
    """
    found: dict[str, tuple[Finding, ...]] = {}
    if _is_lint(path) and (data := _lint_data(path)) is not None:
        for name, findings in read_findings(data, path):
            known = (replace(one, suppressed=False) for one in findings)  # by an older baseline
            found[plain_name(name)] = (*found.get(plain_name(name), ()), *known)
        return found
    for module in load_side(path).modules:
        snapshot = module.snapshot
        if snapshot.facts.findings is None and "findings" in snapshot.outdated:
            raise UsageError(f"{path}: the snapshot was saved without findings: save it again")
        name = plain_name(snapshot.name)
        found[name] = (*found.get(name, ()), *(snapshot.facts.findings or ()))
    return found


def _is_lint(path: str) -> bool:
    return Path(path).is_file() and _lint_data(path) is not None


def _lint_data(path: str) -> dict[str, object] | None:
    """Return the JSON object of ``lint`` in a file; None if it is anything else."""
    text = read_source(path).text
    if not text[:4096].lstrip("\ufeff \t\r\n").startswith("{"):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and data.get("kind") == LINT else None
