"""Choice of findings: codes by their beginnings, severities, least savings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
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
from hlo_lens.text.names import NamePattern, did_you_mean
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
    """Least saving that counts: a share of the program, 0 to 1, or bytes of memory, or sent."""

    share: float | None = None
    bytes: int = 0
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> LeastSaving:
        """Return the least saving of a text: ``1%``, ``64MiB``.

        Raises:
            UsageError: If it is neither.
        """
        try:
            if not text.strip().endswith("%"):
                return cls(bytes=parse_size(text), text=text)
            share = float(text.strip().removesuffix("%")) / 100
        except (UsageError, ValueError):
            raise UsageError(f"{text!r} is no saving; write 1% or 64MiB") from None
        if not 0 <= share <= 1:
            raise UsageError(f"{text!r}: a share of the program is between 0% and 100%")
        return cls(share=share, text=text)

    def is_reached(self, finding: Finding) -> bool:
        if finding.share is None or finding.severity is Severity.ERROR:
            return True
        if self.share is not None:
            return finding.share >= self.share
        sizes = (finding.saves.bytes, finding.saves.sent_bytes)
        return max((one for one in sizes if one is not None), default=self.bytes) >= self.bytes


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

    def wants(self, code: str) -> bool:
        return _longest(self.select or ("",), code) > _longest(self.ignore, code)


def _longest(codes: Iterable[str], code: str) -> int:
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
    """Settings of ``lint``."""

    selection: Selection = field(default_factory=Selection)
    per_module: tuple[tuple[NamePattern, tuple[str, ...]], ...] = ()
    fail_on: Severity | None = None
    baseline: str | None = None
    path: str = ""


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
    least, fail_on, baseline = (_text(values, key) for key in ("min_saving", "fail_on", "baseline"))
    per_module = values.get("per_module_ignores", {})
    if not isinstance(per_module, dict):
        raise UsageError('per_module_ignores is a table: "eval_step" = ["M001"]')
    return LintSettings(
        selection=Selection(
            select=checked_codes(_texts(values.get("select", []), "select")),
            ignore=checked_codes(_texts(values.get("ignore", []), "ignore")),
            least=None if least is None else LeastSaving.parse(least),
        ),
        per_module=tuple(
            (NamePattern(str(name)), checked_codes(_texts(codes, str(name))))
            for name, codes in per_module.items()
        ),
        fail_on=None if fail_on is None else severity_of(fail_on),
        baseline=baseline,
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


def _suppressed_by(
    finding: Finding, settings: LintSettings, module: str, checkout: Checkout
) -> str | None:
    for pattern, codes in settings.per_module:
        if pattern.found_in(module) and finding.code.startswith(codes):
            return f"{settings.path}: per_module_ignores"
    if finding.source_file is None or finding.source_line is None:
        return None
    line = checkout.line_of(finding.source_file, finding.source_line)
    match = None if line is None else _COMMENT.search(line)
    if match is None:
        return None
    codes = tuple(code.upper() for code in _WORDS.split(match[1] or "") if code)
    is_ignored = match[1] is None or finding.code.startswith(codes)
    return f"comment at {finding.source}" if is_ignored else None


FILE = "hlo-lens.toml"


def nearest_settings(config: str | None = None) -> LintSettings:
    """Return the settings in a file, else in the nearest one that has a table ``[lint]``.

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
    return replace(settings, selection=selection, fail_on=level)


def settings_text() -> str:
    """Return where the settings of commands other than ``lint`` are from; empty for no file."""
    try:
        found = nearest_settings()
    except UsageError as error:
        return f"settings not used: {error}"
    return f"[{TABLE}] of {found.path}" if found.path else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """Settings, files with comments, and the findings of a baseline by module; None for none."""

    settings: LintSettings
    checkout: Checkout
    known: Mapping[str, tuple[Finding, ...]] | None = None
    baseline: str = ""

    @classmethod
    def usual(cls) -> Sieve:
        """Return the sieve of commands other than ``lint``; wrong settings do not count."""
        settings = LintSettings()
        with suppress(UsageError):
            settings = nearest_settings()
        return cls(settings=settings, checkout=Checkout.here())

    def sift(self, found: Findings, module: str, *, is_of_dump: bool = False) -> Findings:
        """Return the wanted findings, marked where settings, comments or baseline suppress them."""
        selection = self.settings.selection
        least = selection.least or LeastSaving()
        wanted = [one for one in found.findings if selection.wants(one.code)]
        worth = [one for one in wanted if selection.least is None or least.is_reached(one)]
        counts = (
            ("by code", len(found.findings) - len(wanted)),
            (f"they save less than {least.text}", len(wanted) - len(worth)),
        )
        files = dict.fromkeys(o.source_file for o in worth if o.source_line is not None)
        marked = []
        for one in worth:
            by = _suppressed_by(one, self.settings, module, self.checkout)
            is_new = by is not None and not one.suppressed
            marked.append(replace(one, suppressed=True, suppressed_by=by) if is_new else one)
        return replace(
            found,
            findings=tuple(self._without_known(marked, module, is_of_dump=is_of_dump)),
            left_out=(*found.left_out, *(pair for pair in counts if pair[1])),
            undecided=tuple(pair for pair in found.undecided if selection.wants(pair[0])),
            unread=tuple(f for f in files if f and self.checkout.line_of(f, 1) is None),
        )

    def _without_known(
        self, found: Sequence[Finding], module: str, *, is_of_dump: bool
    ) -> Sequence[Finding]:
        if self.known is None:
            return found
        from hlo_lens.questions.findings.findings import finding_changes
        from hlo_lens.text.names import plain_name

        base = self.known.get(plain_name(module), ())
        if is_of_dump:
            base = tuple(one for ones in self.known.values() for one in ones)
        counted = {id(one) for one in finding_changes(base, found).new}
        counted |= {id(one) for one in found if one.suppressed}
        by = f"baseline {self.baseline}"
        return [
            one if id(one) in counted else replace(one, suppressed=True, suppressed_by=by)
            for one in found
        ]


def with_sifted_findings(
    modules: Sequence[ModuleDump], sieve: Sieve | None = None
) -> list[ModuleDump]:
    """Return modules whose `module_findings` are sifted, with those about all modules together."""
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
        own, other = sifted_module_findings(module, self._sieve), self._others.get(place)
        return own if other is None else together(own, other)


def sifted_module_findings(module: ModuleDump, sieve: Sieve) -> Findings:
    """Return the findings of a module alone."""
    return sieve.sift(all_findings(module), module.title)


def sifted_dump_findings(
    facts: Sequence[ListingFacts], dumps: Sequence[ModuleDump], sieve: Sieve
) -> dict[int, Findings]:
    """Return the findings about some modules together, by position of the module to blame."""
    found: dict[int, Findings] = {}
    for place, findings in dump_findings(facts).items():
        call = call_place(dumps[place])
        placed = tuple(one if one.source_file else replace(one, **at(call)) for one in findings)
        title = dumps[place].title
        found[place] = sieve.sift(Findings(findings=placed), title, is_of_dump=True)
    return found
