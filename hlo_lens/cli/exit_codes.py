"""Exit codes, which scripts rely on. Errors carry theirs: `HloLensError.exit_code`."""

from __future__ import annotations

DONE = 0
"""The command did what was asked."""

RULE_FAILED = 1
"""A rule of ``check`` failed, or ``diff --exit-code`` found changes."""

USAGE = 2
"""Options or arguments that make no sense."""

UNREADABLE = 3
"""Input missing or unreadable."""

UNPARSABLE = 4
"""Input that cannot be parsed, or too little of it; or texts that do not belong together."""

INTERNAL = 70
"""A bug in hlo-lens."""

INTERRUPTED = 130
"""Control-C, as shells count it: 128 + SIGINT."""

BROKEN_PIPE = 141
"""The reader of our output has gone, as shells count it: 128 + SIGPIPE. No success: a ``check``
whose verdict nobody read must not pass."""
