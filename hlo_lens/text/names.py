"""Names: what a misspelt one may mean, without what differs between compiles, in a shell."""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest
from typing import TYPE_CHECKING, cast

from hlo_lens.text.errors import UsageError
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Sequence


_COMPARED = 4096
"""Most names that are compared letter by letter: those nearest in length."""


def nearest_names(name: str, names: Iterable[str], most: int = 4) -> list[str]:
    """Return the names nearest to a misspelt one, the nearest first.

    Names that contain it come after those that differ in a few letters.

    >>> nearest_names("fusion12", ["fusion.12", "copy.1", "fusion.1"])
    ['fusion.12', 'fusion.1']
    >>> nearest_names("nosuch", ["fusion.12"])
    []
    """
    known = list(dict.fromkeys(names))
    near = nsmallest(_COMPARED, known, key=lambda one: abs(len(one) - len(name)))
    found = get_close_matches(name, near, n=most)
    word = name.lower()
    inside = (one for one in known if word in one.lower()) if word else ()
    return list(dict.fromkeys([*found, *inside]))[:most]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: the nearest names, or nothing.

    >>> did_you_mean("al-reduce", ["all-reduce", "copy"]), did_you_mean("x", ["copy"])
    ('; did you mean all-reduce?', '')
    """
    near = nearest_names(name, names)
    return f"; did you mean {' or '.join(near)}?" if near else ""


_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3[.\d]*/")
_DRIVE = re.compile(r"[A-Za-z]:/")
_PARAMETERS = re.compile(r"\[.*\]$", re.DOTALL)

_LONG_NUMBER = 19
_NUMBER = re.compile(r"(?:\.\d+)+$")
_FILE_NUMBER = re.compile(r"^(?:.*\.)?module_\d{4,}\.")


def portable_path(file: str) -> str:
    """Return a source file's path without what differs from machine to machine.

    >>> portable_path("/home/me/project/train.py"), portable_path("src/train.py")
    ('project/train.py', 'src/train.py')
    """
    path = file.replace("\\", "/")
    short = _PACKAGES.sub("", path)
    if short != path or not (path.startswith("/") or _DRIVE.match(path)):
        return short
    return "/".join(path.split("/")[-2:])


def portable_source(file: str | None, line: int | None) -> str | None:
    """Return ``file:line`` with a portable path; None without file."""
    if file is None:
        return None
    return f"{portable_path(file)}:{line}" if line else portable_path(file)


def split_source(source: str | None) -> tuple[str | None, int | None]:
    """Return file and line of ``file:line``.

    >>> split_source("train.py:7"), split_source("train.py")
    (('train.py', 7), ('train.py', None))
    """
    if source is None:
        return None, None
    file, _, line = source.rpartition(":")
    is_line = line.isdecimal() and len(line) < _LONG_NUMBER
    return (file, bounded_int(line)) if file and is_line else (source, None)


def last_scopes(op_name: str | None, count: int = 1) -> str:
    """Return the last scopes of an operation path, without the parameters of the operation.

    Outer scopes change with edits around it; jax until 0.4.35 printed parameters.

    >>> last_scopes("jit(f)/while/body/psum[axes=('x',)]"), last_scopes("jit(f)/a/b", 2)
    ('psum', 'a/b')
    """
    return "/".join(_PARAMETERS.sub("", op_name or "").split("/")[-count:])


def plain_name(name: str) -> str:
    """Return a module's name without numbers that change from compile to compile.

    >>> plain_name("SyncTensorsGraph.1234"), plain_name("module_0012.jit_step")
    ('SyncTensorsGraph', 'jit_step')
    """
    return _NUMBER.sub("", _FILE_NUMBER.sub("", name)) or name


_NOT_IN_DOUBLE_QUOTES = frozenset('"$`\\!')


def shell_word(text: str) -> str:
    """Return a word of a shell's command; names with single quotes are in double ones.

    >>> print(shell_word("params['w']"), shell_word("state.*"), shell_word("DIR"))
    "params['w']" 'state.*' DIR
    """
    if "'" in text and not _NOT_IN_DOUBLE_QUOTES.intersection(text):
        return f'"{text}"'
    return shlex.quote(text)


def digest(text: str) -> str:
    """Return a digest that is the same on every machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


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
