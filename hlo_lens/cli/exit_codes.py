"""Exit codes, which scripts rely on. Those of errors are `HloLensError.exit_code`."""

from __future__ import annotations

DONE = 0
"""The command succeeded."""

RULE_FAILED = 1
"""A rule of ``check`` failed, ``diff --exit-code`` found changes, or ``fit`` found no plan."""

USAGE = 2
"""Invalid options or arguments."""

UNREADABLE = 3
"""Input missing or unreadable."""

UNPARSABLE = 4
"""Input that cannot be parsed, or not enough of it; texts of different compiles."""

OUTPUT = 5
"""Output that cannot be written, in part or at all."""

INTERNAL = 70
"""A bug in hlo-lens."""

INTERRUPTED = 130
"""Control-C, as shells count it: 128 + SIGINT."""

BROKEN_PIPE = 141
"""The reader of the output closed it, as shells count it: 128 + SIGPIPE. Not 0, because a
``check`` whose verdict was not read must not pass."""
