"""Choice of findings: codes by their beginnings, severities, least savings."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load import read_source
from hlo_lens.questions.dumps.listing import known_listings
from hlo_lens.questions.findings.finding import Finding, Severity, at
from hlo_lens.questions.findings.findings import Findings, all_findings, dump_findings, together
from hlo_lens.questions.findings.rule import all_rules
from hlo_lens.questions.findings.values import call_place
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.patterns import NamePattern
from hlo_lens.text.source_files import Checkout
from hlo_lens.text.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.dumps.listing import ListingFacts
    from hlo_lens.questions.findings.finding import Finding


def checked_codes(words: str | Iterable[str]) -> tuple[str, ...]:
    """Return codes, or beginnings of codes, in capitals; ``ALL`` becomes the empty beginning.

    A text is one code.

    Raises:
        UsageError: If no rule has such a code.
    """
    known = [rule.code for rule in all_rules()]
    found: list[str] = []
    for word in (words,) if isinstance(words, str) else words:
        code = word.strip().upper()
        if code == "ALL":
            found.append("")
        elif code and any(one.startswith(code) for one in known):
            found.append(code)
        else:
            raise UsageError(f"no rule has the code {word!r}{did_you_mean(code, known)}")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class LeastSaving:
    """Least saving that counts: a share of the program, or a number of bytes.

    Attributes:
        share: Share, 0 to 1; None for a number of bytes.
        bytes: Bytes of memory, or sent; None for a share.
        text: As written.
    """

    share: float | None = None
    bytes: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> LeastSaving:
        """Return the least saving of a text: ``1%``, ``64MiB``.

        Raises:
            UsageError: If it is neither.
        """
        from fractions import Fraction

        try:
            if not text.strip().endswith("%"):
                return cls(bytes=parse_size(text), text=text)
            share = float(Fraction(text.strip().removesuffix("%")) / 100)
        except (UsageError, ValueError, ZeroDivisionError, OverflowError):
            raise UsageError(f"{text!r} is no saving; write 1% or 64MiB") from None
        if not 0 <= share <= 1:
            raise UsageError(f"{text!r}: a share of the program is between 0% and 100%")
        return cls(share=share, text=text)

    def is_reached(self, finding: Finding) -> bool:
        """Return whether a finding saves as much; errors and unknown savings always do."""
        if finding.share is None or finding.severity is Severity.ERROR:
            return True
        if self.share is not None:
            return finding.share >= self.share
        saves = finding.saves
        sizes = [one for one in (saves.bytes, saves.sent_bytes) if one is not None]
        return not sizes or self.bytes is None or max(sizes) >= self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Findings that are wanted.

    Attributes:
        select: Codes or beginnings of codes; empty for all.
        ignore: Codes or beginnings of codes that are left out; of both the longer one counts.
        least: Least saving; None for none.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    least: LeastSaving | None = None

    def wants(self, finding: Finding) -> bool:
        """Return whether a finding is wanted by its code."""
        return self.wants_code(finding.code)

    def wants_code(self, code: str) -> bool:
        """Return whether findings of a rule are wanted."""
        return _longest(self.select or ("",), code) > _longest(self.ignore, code)

    def is_worth(self, finding: Finding) -> bool:
        """Return whether a finding saves enough."""
        return self.least is None or self.least.is_reached(finding)


def _longest(codes: Iterable[str], code: str) -> int:
    """Return the length of the longest beginning of a code among some; -1 for none."""
    return max((len(one) for one in codes if code.startswith(one)), default=-1)


def severity_of(word: str) -> Severity:
    """Return the severity of a name.

    Raises:
        UsageError: If there is none.
    """
    try:
        return Severity(word)
    except ValueError:
        names = ", ".join(Severity)
        raise UsageError(f"no severity is called {word!r}; there is {names}") from None


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


def with_sifted_findings(
    modules: Sequence[ModuleDump], sieve: Sieve | None = None
) -> list[ModuleDump]:
    """Return modules whose `module_findings` are sifted, with those about all modules together.

    Args:
        modules: The modules of a command.
        sieve: Settings; None for the nearest ones.
    """
    sifted = _Sifted(sieve or Sieve.usual())
    sifted.modules = [
        one.stating(findings=partial(sifted.of_module, place)) for place, one in enumerate(modules)
    ]
    return sifted.modules


class _Sifted:
    """Findings of some modules, which a second process may ask for: a closure has no pickle."""

    def __init__(self, sieve: Sieve) -> None:
        self.modules: list[ModuleDump] = []
        self._sieve = sieve

    @cached_property  # made when findings are first asked for
    def _others(self) -> dict[int, Findings]:
        return sifted_dump_findings(known_listings(self.modules), self.modules, self._sieve)

    def of_module(self, place: int, module: ModuleDump) -> Findings:
        """Return the findings of the module at a position."""
        own, other = sifted_module_findings(module, self._sieve), self._others.get(place)
        return own if other is None else together(own, other)


def sifted_module_findings(module: ModuleDump, sieve: Sieve) -> Findings:
    """Return the findings of a module alone."""
    return sieve.sift(all_findings(module), module.title)


def sifted_dump_findings(
    facts: Sequence[ListingFacts], dumps: Sequence[ModuleDump], sieve: Sieve
) -> dict[int, Findings]:
    """Return the findings about some modules together, by position of the module to blame."""
    sifted: dict[int, Findings] = {}
    for place, findings in dump_findings(facts).items():
        call = call_place(dumps[place])
        placed = tuple(one if one.source_file else replace(one, **at(call)) for one in findings)
        together_ = Findings(findings=placed)
        sifted[place] = sieve.sift(together_, dumps[place].title, is_of_dump=True)
    return sifted
