"""Settings of ``lint`` for one run: the nearest hlo-lens.toml, comments, a baseline."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.module_pairs import plain_name
from hlo_lens.analysis.findings.changes import finding_changes
from hlo_lens.analysis.findings.finding import Severity
from hlo_lens.analysis.findings.findings import Findings, finding_fact, module_findings
from hlo_lens.analysis.findings.selection import (
    LeastSaving,
    Selection,
    checked_codes,
    severity_of,
)
from hlo_lens.analysis.findings.settings import LintSettings, read_settings, sifted
from hlo_lens.load import read_source
from hlo_lens.text.checkout import Checkout
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.model.snapshot.facts import FindingFact

FILE = "hlo-lens.toml"


def nearest_settings(config: str | None = None) -> LintSettings:
    """Return the settings in a file, else in the nearest one that has a table ``[lint]``.

    Args:
        config: Path of the file; None to search the current folder and those above it.

    Raises:
        UnreadableError: If the file cannot be read.
        UsageError: If its settings are not understood, or it has none.
    """
    if config is not None:
        found = read_settings(read_source(config).text, config)
        if found is None:
            raise UsageError(f"{config}: no table [lint]")
        return found
    folder = Path.cwd()
    for path in (one / FILE for one in (folder, *folder.parents)):
        if path.is_file():
            found = read_settings(read_source(str(path)).text, str(path))
            if found is not None:
                return found
    return LintSettings()


def with_options(
    settings: LintSettings,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    min_saving: str | None = None,
    fail_on: str | None = None,
) -> LintSettings:
    """Return settings in which options, where they are given, take the place of those of a file.

    Codes that are ignored are added to those of the file.

    Raises:
        UsageError: If there is no rule of a code, or the saving is not understood.
    """
    own = settings.selection
    selection = Selection(
        select=checked_codes(select) or own.select,
        ignore=(*own.ignore, *checked_codes(ignore)),
        least=own.least if min_saving is None else LeastSaving.parse(min_saving),
    )
    level = settings.fail_on if fail_on is None else severity_of(fail_on)
    return dataclasses.replace(settings, selection=selection, fail_on=level)


def quiet_settings() -> LintSettings:
    """Return the nearest settings for commands other than ``lint``; none if they are wrong."""
    try:
        return nearest_settings()
    except UsageError:
        return LintSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """Settings, the files with comments, and known findings.

    Attributes:
        settings: The settings.
        checkout: The repository.
        known: Module name to the findings of a baseline; None for no baseline.
        baseline: Path of the baseline.
        is_of_modules: Whether the baseline has no findings on several modules: no output of lint.
    """

    settings: LintSettings
    checkout: Checkout
    known: Mapping[str, tuple[FindingFact, ...]] | None = None
    baseline: str = ""
    is_of_modules: bool = False

    @classmethod
    def usual(cls) -> Sieve:
        """Return the sieve of commands other than ``lint``."""
        return cls(settings=quiet_settings(), checkout=Checkout.here())

    def applied(self, analysis: ModuleAnalysis) -> ModuleAnalysis:
        """Return an analysis whose findings are sifted."""
        analysis.replace(module_findings, partial(self._findings, analysis.dump.title))
        return analysis

    def _findings(self, module: str, analysis: ModuleAnalysis) -> Findings:
        return self.sift(module_findings(analysis), module)

    def sift_of_dump(self, found: Findings, module: str) -> Findings:
        """Return the findings on several modules that count; no infos if the baseline has none."""
        sifted_ones = self.sift(found, module)
        if not self.is_of_modules:
            return sifted_ones
        return dataclasses.replace(
            sifted_ones,
            findings=tuple(
                one
                if one.suppressed or one.severity is not Severity.INFO
                else dataclasses.replace(one, suppressed_by=f"baseline {self.baseline}")
                for one in sifted_ones.findings
            ),
        )

    def sift(self, found: Findings, module: str) -> Findings:
        """Return the findings of a module that settings, comments and baseline leave."""
        sifted_ones = sifted(found, self.settings, module, self.checkout)
        if self.known is None:
            return sifted_ones
        base = self.known.get(plain_name(module), ())
        facts = [finding_fact(one) for one in sifted_ones.findings]
        new = {id(one) for one in finding_changes(base, facts).new}
        return dataclasses.replace(
            sifted_ones,
            findings=tuple(
                one
                if one.suppressed or id(fact) in new
                else dataclasses.replace(one, suppressed_by=f"baseline {self.baseline}")
                for one, fact in zip(sifted_ones.findings, facts, strict=True)
            ),
        )
