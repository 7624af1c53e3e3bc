"""Names of modules, source files and operations without what differs between compiles."""

from __future__ import annotations

import re

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3[.\d]*/")
_DRIVE = re.compile(r"[A-Za-z]:/")
_KEPT_NAMES = 2
_PARAMETERS = re.compile(r"\[.*\]$", re.DOTALL)


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
    return "/".join(path.split("/")[-_KEPT_NAMES:])


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
    return (file, int(line)) if file and line.isdecimal() else (source, None)


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
