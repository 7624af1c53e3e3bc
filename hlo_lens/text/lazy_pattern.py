"""Regular expressions compiled on first use.

The patterns of HLO text are long: compiling all of them takes 40 ms and 2 MB, and a normal dump
needs a third of them.
"""

from __future__ import annotations

import re
from typing import cast


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
