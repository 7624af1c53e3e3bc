"""Parts of operation paths that are stable from version to version."""

from __future__ import annotations

import re

_PARAMETERS = re.compile(r"\[.*\]$", re.DOTALL)


def last_scopes(op_name: str | None, count: int = 1) -> str:
    """Return the last scopes of an operation path, without the parameters of the operation.

    Outer scopes change with edits around it; jax until 0.4.35 printed parameters.

    >>> last_scopes("jit(f)/while/body/psum[axes=('x',)]"), last_scopes("jit(f)/a/b", 2)
    ('psum', 'a/b')
    """
    return "/".join(_PARAMETERS.sub("", op_name or "").split("/")[-count:])
