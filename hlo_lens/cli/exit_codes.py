"""Exit codes, which scripts rely on. Those of errors are `HloLensError.exit_code`."""

from __future__ import annotations

DONE = 0
RULE_FAILED = 1  # a rule of ``check``, ``diff --exit-code`` with changes, ``fit`` without a plan
USAGE = 2
UNREADABLE = 3  # input missing or unreadable
UNPARSABLE = 4  # or not enough of it; texts of different compiles
OUTPUT = 5  # cannot be written, in part or at all
INTERNAL = 70  # a bug in hlo-lens
INTERRUPTED = 130  # Control-C, as shells count it: 128 + SIGINT
BROKEN_PIPE = 141
"""The reader of the output closed it: 128 + SIGPIPE. Not 0, because a ``check`` whose verdict was
not read must not pass."""
