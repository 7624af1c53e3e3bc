"""Line rules read by Lark alone, for comparison with their regular expressions."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from hlo_lens.grammar.lines import LineRule

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOTHING = re.compile(r"(?!)")


@contextmanager
def lark_alone() -> Iterator[None]:
    """Let no regular expression of a line rule match, so that Lark reads every line."""
    with (
        patch.object(LineRule, "match", property(lambda _: _NOTHING.match), create=True),
        patch.object(LineRule, "block", property(lambda _: _NOTHING)),
    ):
        yield
