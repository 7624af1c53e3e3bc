"""Source files whose folder has another name on the two sides of a comparison.

Sources keep the last two names of their path (`portable_path`), so that a script in another
checkout or worktree has another one. A file that one side alone has is the other side's file of
the same name, where that is the only one of this name that the other side alone has.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.portable_sources import split_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot
    from hlo_lens.questions.snapshots.rows import SpacePeak

_PACKAGE = "__init__.py"
"""File name that all packages have."""


def renamed_files(base: Iterable[str], head: Iterable[str]) -> dict[str, str]:
    """Return the head's file of each file of the base that is in a folder of another name.

    >>> renamed_files(["main/train.py", "lib/ops.py"], ["feature/train.py", "lib/ops.py"])
    {'main/train.py': 'feature/train.py'}
    """
    mine, yours = set(base), set(head)
    before, after = _by_name(mine - yours), _by_name(yours - mine)
    return {
        found[0]: after[name][0]
        for name, found in sorted(before.items())
        if len(found) == len(after.get(name, ())) == 1 and name != _PACKAGE
    }


def _by_name(files: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for file in files:
        found[file.rpartition("/")[2]].append(file)
    return found


def renamed_source(source: str | None, files: Mapping[str, str]) -> str | None:
    """Return ``file:line`` with the file's new name, if it has one."""
    file, line = split_source(source)
    if file is None or file not in files:
        return source
    return files[file] if line is None else f"{files[file]}:{line}"


def with_folders_of(base: ModuleSnapshot, head: ModuleSnapshot) -> ModuleSnapshot:
    """Return the base with its files as the head has them."""
    files = renamed_files(_files(base), _files(head))
    if not files:
        return base
    facts = base.facts
    if facts.collectives is not None:
        rows = tuple(
            replace(row, source_file=files.get(row.source_file or "", row.source_file))
            for row in facts.collectives.rows
        )
        facts = replace(facts, collectives=replace(facts.collectives, rows=rows))
    annotations = base.annotations
    if annotations is not None:
        annotations = tuple(
            replace(one, source=renamed_source(one.source, files)) for one in annotations
        )
    peaks = tuple(_renamed_peak(peak, files) for peak in base.peaks)
    return replace(base, facts=facts, annotations=annotations, peaks=peaks)


def _renamed_peak(peak: SpacePeak, files: Mapping[str, str]) -> SpacePeak:
    groups = tuple(replace(one, source=renamed_source(one.source, files)) for one in peak.groups)
    return replace(peak, source=renamed_source(peak.source, files), groups=groups)


def _files(module: ModuleSnapshot) -> Iterator[str]:
    """Yield the files of a module's sources."""
    sources = [one.source for one in module.annotations or ()]
    for peak in module.peaks:
        sources += [peak.source, *(one.source for one in peak.groups)]
    for source in sources:
        file, _ = split_source(source)
        if file is not None:
            yield file
    yield from (row.source_file for row in module.collectives or () if row.source_file)
