"""Settings of ``lint`` for one run: the nearest hlo-lens.toml, comments, a baseline."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load import read_source
from hlo_lens.questions.findings.selection import LeastSaving, Selection, checked_codes, severity_of
from hlo_lens.questions.findings.settings import TABLE, LintSettings, read_settings, sifted
from hlo_lens.text.errors import UsageError
from hlo_lens.text.source_files import Checkout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.findings.findings import Findings

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
    select: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
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


def settings_text() -> str:
    """Return where the settings of commands other than ``lint`` are from; empty for no file."""
    try:
        found = nearest_settings()
    except UsageError as error:
        return f"settings not used: {error}"
    return f"[{TABLE}] of {found.path}" if found.path else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """Settings, the files with comments, and known findings.

    Attributes:
        settings: The settings.
        checkout: The repository.
        known: Module name to the findings of a baseline; None for no baseline.
        baseline: Path of the baseline.
    """

    settings: LintSettings
    checkout: Checkout
    known: Mapping[str, tuple[Finding, ...]] | None = None
    baseline: str = ""

    @classmethod
    def usual(cls) -> Sieve:
        """Return the sieve of commands other than ``lint``."""
        return cls(settings=quiet_settings(), checkout=Checkout.here())

    def sift(self, found: Findings, module: str, *, is_of_dump: bool = False) -> Findings:
        """Return the findings that settings, comments and baseline leave.

        Args:
            found: The findings.
            module: Name of their module.
            is_of_dump: Whether they are about several modules: the baseline may have them at any.
        """
        sifted_ones = sifted(found, self.settings, module, self.checkout)
        if self.known is None:
            return sifted_ones
        from hlo_lens.questions.findings.changes import finding_changes
        from hlo_lens.text.names import plain_name

        base = self.known.get(plain_name(module), ())
        if is_of_dump:
            base = tuple(one for ones in self.known.values() for one in ones)
        new = {id(one) for one in finding_changes(base, sifted_ones.findings).new}
        return dataclasses.replace(
            sifted_ones,
            findings=tuple(
                one
                if one.suppressed or id(one) in new
                else dataclasses.replace(
                    one, suppressed=True, suppressed_by=f"baseline {self.baseline}"
                )
                for one in sifted_ones.findings
            ),
        )
