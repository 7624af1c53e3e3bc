"""Settings of ``lint``: which findings are wanted, and which are suppressed where.

    [lint]                                # in hlo-lens.toml
    select = ["M", "C"]                   # codes or beginnings of codes; default: all
    ignore = ["M003"]
    min_saving = "1%"                     # of the program, or 64MiB
    fail_on = "warning"                   # severity from which lint exits with 1
    baseline = "lint-baseline.json"       # relative to the file

    [lint.per_module_ignores]
    "eval_step" = ["M001"]                # regular expression in the name of a module

A comment ``# hlo-lens: ignore[M003]`` on a source line suppresses these findings there, one without
brackets all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hlo_lens.questions.findings.selection import LeastSaving, Selection, checked_codes, severity_of
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.patterns import NamePattern

if TYPE_CHECKING:
    from hlo_lens.questions.findings.finding import Finding, Severity
    from hlo_lens.questions.findings.findings import Findings
    from hlo_lens.text.source_files import Checkout

TABLE = "lint"
KEYS = ("select", "ignore", "min_saving", "fail_on", "baseline", "per_module_ignores")

_COMMENT = re.compile(r"#\s*hlo-lens:\s*ignore(?:\[([^\]]*)\])?", re.IGNORECASE)
_WORDS = re.compile(r"[\s,]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSettings:
    """Settings of ``lint``.

    Attributes:
        selection: Findings that are wanted; others are left out, and counted.
        per_module: Patterns of module names, each with codes that are suppressed there.
        fail_on: Severity from which ``lint`` exits with 1; None for never.
        baseline: File with known findings; None for none.
        path: File that the settings are from; empty for none.
    """

    selection: Selection = field(default_factory=Selection)
    per_module: tuple[tuple[NamePattern, tuple[str, ...]], ...] = ()
    fail_on: Severity | None = None
    baseline: str | None = None
    path: str = ""

    @property
    def least_text(self) -> str:
        """The least saving as an option."""
        least = self.selection.least
        return "" if least is None else least.text


def read_settings(text: str, path: str) -> LintSettings | None:
    """Return the settings in a TOML file; None if it has no table ``[lint]``.

    Raises:
        UsageError: If it is no TOML, or the table has an unknown key or a wrong value.
    """
    import tomllib  # slow to import: it compiles patterns

    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML, and of numbers too long for Python
        raise UsageError(f"{path}: not TOML: {error}") from error
    table = data.get(TABLE)
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{path}: lint is a table: [lint]")
    values = {key.replace("-", "_"): value for key, value in table.items()}
    for key in values:
        if key not in KEYS:
            raise UsageError(f"{path}: unknown key {key!r} in [lint]{did_you_mean(key, KEYS)}")
    try:
        return _settings(values, path)
    except UsageError as error:
        raise UsageError(f"{path}: [lint]: {error}") from error


def _settings(values: Mapping[str, object], path: str) -> LintSettings:
    least, fail_on = _text(values, "min_saving"), _text(values, "fail_on")
    return LintSettings(
        selection=Selection(
            select=checked_codes(_texts(values.get("select", []), "select")),
            ignore=checked_codes(_texts(values.get("ignore", []), "ignore")),
            least=None if least is None else LeastSaving.parse(least),
        ),
        per_module=tuple(_per_module(values.get("per_module_ignores", {}))),
        fail_on=None if fail_on is None else severity_of(fail_on),
        baseline=_text(values, "baseline"),
        path=path,
    )


def _text(values: Mapping[str, object], key: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{key} is a text, not {value!r}")
    return value


def _texts(value: object, key: str) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageError(f'{key} is a list of codes, such as ["M003"]')
    return value


def _per_module(value: object) -> list[tuple[NamePattern, tuple[str, ...]]]:
    if not isinstance(value, dict):
        raise UsageError('per_module_ignores is a table: "eval_step" = ["M001"]')
    return [
        (NamePattern(str(name)), checked_codes(_texts(codes, str(name))))
        for name, codes in value.items()
    ]


def sifted(
    found: Findings, settings: LintSettings, module: str, checkout: Checkout | None
) -> Findings:
    """Return findings without those that are not wanted, and with those suppressed marked.

    Args:
        found: The findings.
        settings: The settings.
        module: Name of the module.
        checkout: Files with comments; None to read none.
    """
    selection = settings.selection
    wanted = [one for one in found.findings if selection.wants(one)]
    worth = [one for one in wanted if selection.is_worth(one)]
    counts = (
        ("by code", len(found.findings) - len(wanted)),
        (f"they save less than {settings.least_text}", len(wanted) - len(worth)),
    )
    return replace(
        found,
        findings=tuple(_suppressed(one, settings, module, checkout) for one in worth),
        left_out=(*found.left_out, *(pair for pair in counts if pair[1])),
        undecided=tuple(pair for pair in found.undecided if selection.wants_code(pair[0])),
        unread=() if checkout is None else tuple(_unread(worth, checkout)),
    )


def _unread(found: Iterable[Finding], checkout: Checkout) -> Iterator[str]:
    """Yield the source files of findings that are not there, each once."""
    for file in dict.fromkeys(one.source_file for one in found if one.source_line is not None):
        if file is not None and checkout.line_of(file, 1) is None:
            yield file


def _suppressed(
    finding: Finding, settings: LintSettings, module: str, checkout: Checkout | None
) -> Finding:
    if finding.suppressed:
        return finding
    for pattern, codes in settings.per_module:
        if pattern.found_in(module) and finding.code.startswith(codes):
            where = f"{settings.path}: per_module_ignores"
            return replace(finding, suppressed=True, suppressed_by=where)
    if checkout is not None and is_ignored_at(finding, checkout):
        return replace(finding, suppressed=True, suppressed_by=f"comment at {finding.source}")
    return finding


def is_ignored_at(finding: Finding, checkout: Checkout) -> bool:
    """Return whether a comment at the line of a finding suppresses it."""
    if finding.source_file is None or finding.source_line is None:
        return False
    line = checkout.line_of(finding.source_file, finding.source_line)
    match = None if line is None else _COMMENT.search(line)
    if match is None:
        return False
    codes = [code.upper() for code in _WORDS.split(match[1] or "") if code]
    return match[1] is None or any(finding.code.startswith(code) for code in codes)
