"""Shares of the text of dumps that line patterns and Lark read, for the handbook."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

from hlo_lens.grammar.lines import READ_BY_LARK
from hlo_lens.text.dump_kinds import BUFFER_PARTS, ROW_OF, DumpKind, sniff
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import clean, decode

KINDS = (DumpKind.HLO, *BUFFER_PARTS)


def reading_shares(folder: str | Path) -> dict[str, float]:
    """Return the shares of the dumps in a folder read by patterns, by Lark and by neither.

    Lines of another dump in the same file count as read by patterns, gaps as read by neither.
    """
    count: Counter[str] = Counter(pattern=0, lark=0, neither=0)
    for path in sorted(Path(folder).rglob("*.txt")):
        source = clean(decode(path.read_bytes()), str(path))
        kind = sniff(source.text)
        if kind not in KINDS:
            continue
        module, _, function = ROW_OF[kind].parser.partition(":")
        before = READ_BY_LARK["characters"]
        try:
            found = getattr(import_module(module), function)(source)
        except DumpSyntaxError:
            count["neither"] += len(source.text)
            continue
        lark = READ_BY_LARK["characters"] - before
        lines = source.text.splitlines(keepends=True)
        neither = sum(
            len(line)
            for part in (found if isinstance(found, list) else [found])
            for gap in part.gaps
            for line in lines[gap.line - 1 : gap.line - 1 + gap.lines]
        )
        count.update(pattern=len(source.text) - lark - neither, lark=lark, neither=neither)
    total = sum(count.values())
    return {name: round(characters / total, 4) for name, characters in count.items()}
