"""Regular expressions compiled on first use.

The patterns of HLO text are long: compiling all of them takes 40 ms and 2 MB, and a normal dump
needs a third of them.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Match = re.Match[str] | None


class LazyPattern:
    """A regular expression with the methods of `re.Pattern`.

    Args:
        pattern: Its text.
        flags: As for `re.compile`.
    """

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self.pattern = pattern
        self.flags = flags

    @functools.cached_property
    def compiled(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern, self.flags)

    @functools.cached_property
    def match(self) -> Callable[..., Match]:
        """`re.Pattern.match`."""
        return self.compiled.match

    @functools.cached_property
    def fullmatch(self) -> Callable[..., Match]:
        """`re.Pattern.fullmatch`."""
        return self.compiled.fullmatch

    @functools.cached_property
    def search(self) -> Callable[..., Match]:
        """`re.Pattern.search`."""
        return self.compiled.search

    @functools.cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[str]]]:
        """`re.Pattern.finditer`."""
        return self.compiled.finditer

    @functools.cached_property
    def findall(self) -> Callable[..., list[Any]]:
        """`re.Pattern.findall`."""
        return self.compiled.findall

    @functools.cached_property
    def sub(self) -> Callable[..., str]:
        """`re.Pattern.sub`."""
        return self.compiled.sub
