"""Regular expressions compiled on first use, and patterns of users for names and arguments."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, cast

from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class _LazyPattern:
    """A regular expression whose methods are those of the compiled one."""

    def __init__(self, pattern: str, flags: re.RegexFlag) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> object:
        """Compile the pattern, and keep the method, so that this is not called for it again."""
        method: object = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, method)
        return method


def lazy_pattern(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return a pattern as `re.compile` does; it is compiled when a method is first used."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


_SECONDS = 1.0
"""Most seconds that a search in one name may take; usual ones take microseconds."""


class NamePattern:
    """A regular expression of the user, to find in names of modules, functions or files.

    A pattern whose search grows exponentially with the name (``(a+)+$``) ends in an error.
    """

    def __init__(self, text: str) -> None:
        """Read a pattern; raises UsageError if it is no regular expression."""
        import regex

        self.text = text
        try:
            self._pattern = regex.compile(text)
        except regex.error as error:
            raise UsageError(f"not a regular expression: {text!r}: {error}") from error

    def found_in(self, name: str) -> bool:
        """Whether the pattern is found in a name; raises UsageError after one second."""
        try:
            return self._pattern.search(name, timeout=_SECONDS) is not None
        except TimeoutError as error:
            message = (
                f"the search of {self.text!r} in {name[:60]!r} takes more than {_SECONDS:g} s;"
            )
            raise UsageError(f"{message} write it without a repetition in a repetition") from error


_KEY = r"""\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\]]*))\]"""
_STEP = lazy_pattern(rf"{_KEY}|([^.\[]+)")
_PATTERN_STEP = lazy_pattern(rf"{_KEY}|([^./\[]+)")
_PATTERN_STEP_WITH_DOTS = lazy_pattern(rf"{_KEY}|([^/\[]+)")


def steps_of(name: str) -> tuple[str, ...]:
    """Return the steps of an argument's path as jax writes it.

    >>> steps_of("params['layer_0']['kernel']"), steps_of("state.opt[0].mu")
    (('params', 'layer_0', 'kernel'), ('state', 'opt', '0', 'mu'))
    """
    return _steps(_STEP, name)


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches an argument's path or a prefix of it.

    ``*`` matches one step or a part of it, ``**`` any number of steps. A dot separates steps, or is
    part of a key.

    >>> matches("params", "params['a']['b']"), matches("params/*/b", "params['a']['b']")
    (True, True)
    >>> matches("state.*", "state['a']"), matches("state/**", "state.opt[0].mu")
    (True, True)
    >>> matches("param", "params['a']"), matches("**/b", "params['a']['b']")
    (False, True)
    """
    if pattern == name:
        return True
    steps = steps_of(name)
    return any(wanted and _fits(wanted, steps) for wanted in _readings(pattern))


@functools.cache
def _readings(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Return the steps of a pattern in both ways to read dots, if they differ."""
    found = (_steps(how, pattern) for how in (_PATTERN_STEP, _PATTERN_STEP_WITH_DOTS))
    return tuple(dict.fromkeys(found))


def _steps(how: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(
        next(part for part in match.groups() if part is not None) for match in how.finditer(text)
    )


def _fits(wanted: Sequence[str], steps: Sequence[str]) -> bool:
    if not wanted:
        return True  # the pattern matches a prefix of the path
    if wanted[0] == "**":
        return len(wanted) == 1 or any(_fits(wanted[1:], steps[k:]) for k in range(len(steps)))
    return (
        bool(steps) and bool(_glob(wanted[0]).fullmatch(steps[0])) and _fits(wanted[1:], steps[1:])
    )


@functools.cache
def _glob(step: str) -> re.Pattern[str]:
    """Return the expression of a step: ``*`` for any characters, ``?`` for one."""
    words = {"*": ".*", "?": "."}
    return re.compile("".join(words.get(c) or re.escape(c) for c in step), re.DOTALL)
