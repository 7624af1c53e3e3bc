"""Choice of findings: codes by their beginnings, severities, least savings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Finding, Severity
from hlo_lens.questions.findings.registry import all_rules
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        sizes = [one for one in (saves.weight_bytes, saves.wire_bytes) if one is not None]
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
