"""Modules of a folder or archive, each at its latest stage, and the files next to one file."""

from __future__ import annotations

import re
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load.file_readers import SiblingFiles, lazy_module, modules_of, proto_buffers
from hlo_lens.load.lazy_texts import buffer_texts
from hlo_lens.load.module import Lazy, ModuleDump, SkippedCounter, Stage
from hlo_lens.load.module_files import ModuleFiles, sort_files
from hlo_lens.load.stored import STDIN, DiskFile, StoredFile, name_of, read_source
from hlo_lens.text.dump_files import BEFORE, split_file_name, stage_order, stage_rank
from hlo_lens.text.dump_kinds import PROTO, DumpKind
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def folder_modules(groups: Iterable[ModuleFiles], *, strict: bool = False) -> Iterator[ModuleDump]:
    """Yield the modules of groups of files, each at its latest stage."""
    for group in groups:
        plain = group.stages.get("", {}).get("")
        if plain is not None and _holds_several(plain):
            yield from modules_of(plain)
        else:
            yield module_at(group, None, strict=strict)


def module_at(group: ModuleFiles, stage: str | None, *, strict: bool = False) -> ModuleDump:
    """Return a module at a stage; None means the latest stage with an HLO text."""
    stages = group.stages
    if stage is None:
        ordered = sorted(stages, key=lambda name: (-stage_rank(name), name))
        stage = next((name for name in ordered if _hlo(stages[name])), ordered[0])
    text, proto = stages[stage].get(""), stages[stage].get(PROTO)
    parts = {part: file for part, file in stages[stage].items() if part not in ("", PROTO)}
    before = None if stage == BEFORE else _hlo(stages.get(BEFORE, {}))
    buffers = buffer_texts(parts)
    if text is None and proto is not None:
        text = proto
        if "buffer-assignment" not in parts:
            buffers = proto_buffers(proto)
            parts = {"buffer-assignment": proto}
    return ModuleDump(
        name=group.key,
        kind=DumpKind.HLO if text else DumpKind.BUFFER_ASSIGNMENT,
        stage=stage or None,
        files=tuple(file.path for file in (text, before, *parts.values()) if file is not None),
        parts={part: file.path for part, file in parts.items()},
        module_text=lazy_module(text, strict=strict),
        before_text=lazy_module(before),
        buffers=buffers,
        number=group.number,
        folder=group.folder,
        stage_list=Lazy(partial(_stages, group)),
        settings=_lazy_settings(group),
        mlir_text=_lazy_text(group.mlir),
    )


def _lazy_settings(group: ModuleFiles) -> dict[str, Lazy[str | None]]:
    return {name: Lazy(partial(_text_of, file)) for name, file in group.settings.items()}


def _lazy_text(file: StoredFile | None) -> Lazy[str | None] | None:
    return None if file is None else Lazy(partial(_text_of, file))


def _text_of(file: StoredFile) -> str | None:
    try:
        return read_source(file).text
    except UnreadableError:
        return None


def _hlo(parts: Mapping[str, StoredFile]) -> StoredFile | None:
    """Return the HLO text of a stage, else its proto."""
    return parts.get("", parts.get(PROTO))


def _stages(group: ModuleFiles) -> tuple[Stage, ...]:
    return tuple(
        Stage(
            name=name,
            files=_paths(group.stages[name]),
            dump=Lazy(partial(module_at, group, name)),
            is_hlo=_hlo(group.stages[name]) is not None,
        )
        for name in sorted(group.stages, key=stage_order)
        if name
    )


def siblings_of(file: DiskFile) -> SiblingFiles:
    """Return the other files of a file's module, found next to it on disk."""
    own, name = Path(file.path), split_file_name(name_of(file))
    if file.path == STDIN or name.stage is None or not own.is_file():
        return SiblingFiles()
    pattern = f"{'*.' * (name.is_stamped)}{escape(name.key)}.*"
    files = sorted(path for path in own.parent.glob(pattern) if path.is_file())
    files += sorted(own.parent.glob(f"{escape(name.key)}/module.mlir*"))
    files += sorted(own.parent.glob(f"{escape(name.key)}/*.textproto"))
    if not name.is_stamped:  # of equal texts, the first one counts
        files.insert(0, own)
    for group in sort_files((DiskFile(str(path)) for path in files), SkippedCounter()):
        same = group.stages.get(name.stage, {})
        if any(other.path == file.path for other in same.values()):
            return SiblingFiles(
                parts={part: other for part, other in same.items() if other.path != file.path},
                before=None if name.stage == BEFORE else _hlo(group.stages.get(BEFORE, {})),
                stages=Lazy(partial(_stages, group)),
                mlir=_lazy_text(group.mlir),
                settings=_lazy_settings(group),
            )
    return SiblingFiles()


def _paths(parts: Mapping[str, StoredFile]) -> tuple[str, ...]:
    return tuple(parts[part].path for part in sorted(parts, key=lambda part: (part != "", part)))


_HEADERS = re.compile(r"^[ \t]*HloModule[ ,]", re.MULTILINE)


def _holds_several(file: StoredFile) -> bool:
    """Whether a file without a stage in its name holds more than one module."""
    try:
        return len(_HEADERS.findall(read_source(file).text)) > 1
    except UnreadableError:
        return False
