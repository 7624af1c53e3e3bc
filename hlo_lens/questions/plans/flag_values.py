"""Flags of XLA that differ between two dumps, or two files of ``debug_options``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load import read_source
from hlo_lens.load.programs import modules_of
from hlo_lens.questions.what_if.process.dumped import OPTION_TEXTS, options_of
from hlo_lens.text.errors import MissingDumpError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_SHOWN = 3


def differing_flags(
    good: str | Path, bad: str | Path, *, module: str | None = None
) -> dict[str, tuple[str | None, str | None]]:
    """Return the flags with two values, in the order of their names; None where not printed.

    Args:
        good: A dump, or a file of ``debug_options``.
        bad: Another one.
        module: Regular expression to find in the name of the module of a dump.

    Raises:
        MissingDumpError: If a dump has no ``debug_options``.
    """
    one, other = (_flags(str(path), module) for path in (good, bad))
    names = sorted({*one, *other})
    return {n: (one.get(n), other.get(n)) for n in names if one.get(n) != other.get(n)}


def _flags(path: str, module: str | None) -> dict[str, str]:
    """Return the flags that a dump or a file prints, once each."""
    if Path(path).is_file() and "debug_options" in Path(path).name:
        return options_of(read_source(path).text)
    for one in modules_of(path, module=module):
        texts = [text for name in OPTION_TEXTS if (text := one.setting(name)) is not None]
        if texts:
            return {name: value for text in texts for name, value in options_of(text).items()}
    raise MissingDumpError(f"{path}: no debug_options; XLA writes it with --xla_dump_hlo_as_text")


def flags_text(flags: Mapping[str, str | None]) -> str:
    """Return flags and values in one line; the first ones and the number of others."""
    words = [f"{name}={'default' if value is None else value}" for name, value in flags.items()]
    if len(words) > _SHOWN:
        words = [*words[:_SHOWN], f"[{len(words) - _SHOWN} others]"]
    return ", ".join(words)


_REFUSED = re.compile(r"(?i)\b(?:option|flag|field)s?\b[^\n]{0,80}")


def refused_flag(message: str, flags: Collection[str]) -> str | None:
    """Return the flag that a message says cannot be set; None if it names none."""
    for match in _REFUSED.finditer(message):
        words: list[str] = re.findall(r"\w+", match[0])
        if named := [name for name in words if name in flags]:
            return named[0]
    return None
