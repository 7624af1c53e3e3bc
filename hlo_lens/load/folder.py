"""A folder that ``--xla_dump_to`` filled: its files by module and stage."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from hlo_lens.load.beside import BEFORE
from hlo_lens.load.readers import modules_of
from hlo_lens.load.stored import DiskFile, head_kind, name_of, read_source
from hlo_lens.load.texts import buffer_texts, lazy_module, part_of
from hlo_lens.model.dump import ModuleDump
from hlo_lens.text.dump_files import DumpKind, split_file_name
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hlo_lens.load.stored import StoredFile


def files_of(folder: Path) -> Iterator[DiskFile]:
    """Yield the files of a folder and its folders, in order; what cannot be looked at is left."""
    for directory, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(directory) / name
            try:
                if file.is_file():
                    yield DiskFile(str(file), os.path.relpath(directory, folder))
            except OSError:
                continue


def folder_modules(path: str, files: Iterable[StoredFile], *, strict: bool) -> Iterator[ModuleDump]:
    """Yield the modules of some files, in their order, each with its latest stage first."""
    groups: dict[str, dict[str, dict[str, StoredFile]]] = {}
    for file in files:
        name = split_file_name(name_of(file))
        if part_of(head_kind(file)) != name.part:
            continue
        stages = groups.setdefault(str(PurePath(file.path).parent / name.module), {})
        stages.setdefault(name.stage or "", {}).setdefault(name.part, file)
    if not groups:
        message = (
            f"{path}: no HLO text in this folder; "
            'run the program with XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text"'
        )
        raise UnreadableError(message)
    for key, stages in groups.items():
        plain = stages.get("", {}).get("")
        if plain is not None and _holds_several(plain):
            yield from modules_of(plain)
            continue
        ordered = sorted(stages, key=lambda stage: (-rank(stage), stage))
        texts = [stages[stage][""] for stage in ordered if "" in stages[stage]]
        stage = next((s for s in ordered if stages[s].get("")), ordered[0])
        parts = {part: file for part, file in stages[stage].items() if part}
        yield ModuleDump(
            name=Path(key).name,
            kind=DumpKind.HLO if texts else DumpKind.BUFFER_ASSIGNMENT,
            stage=stage or None,
            files=tuple(file.path for file in (*texts, *parts.values())),
            parts={part: file.path for part, file in parts.items()},
            module_text=lazy_module(texts[0] if texts else None, strict=strict),
            before_text=lazy_module(None if stage == BEFORE else stages.get(BEFORE, {}).get("")),
            buffers=buffer_texts(parts),
        )


_HEADERS = re.compile(r"^[ \t]*HloModule[ ,]", re.MULTILINE)


def _holds_several(file: StoredFile) -> bool:
    """Whether a file of no stage of XLA's holds more than one module."""
    try:
        return len(_HEADERS.findall(read_source(file).text)) > 1
    except UnreadableError:
        return False


def rank(stage: str) -> int:
    """Return how late in compilation a stage is; final optimized text is latest."""
    if not stage:
        return 50
    if stage == BEFORE:
        return 0
    if stage[:4].isdecimal():
        return 10
    if stage.endswith("after_optimizations"):
        return 100
    if stage.endswith("_before_buffer_assignment"):
        return 60
    if stage.endswith("_after_buffer_assignment"):
        return 90
    return 55 if stage.startswith("after_codegen") else 40
