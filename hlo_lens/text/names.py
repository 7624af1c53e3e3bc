"""Names: what a misspelt one may mean, without what differs between compiles, in a shell."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest

from hlo_lens.text.units import bounded_int

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
