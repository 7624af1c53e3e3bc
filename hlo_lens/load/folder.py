"""Modules of a folder or archive: the files that ``--xla_dump_to`` wrote, by module and stage.

The files of one module share folder, number, name and change list; time stamps may differ. A second
text of the same stage with another time stamp begins a second run of the program.

Other HLO texts named after a module are parts that XLA wrote separately, such as fusions, and are
skipped.

Archives in a folder are read as folders of their names. Archives next to a folder of the same name
are skipped as duplicates; so are archives without dumps and archives in archives.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from hlo_lens.load.files import (
    STDIN,
    DiskFile,
    StoredFile,
    cannot_be_read,
    head_kind,
    head_of,
    name_of,
    read_source,
)
from hlo_lens.load.module import (
    CUT_OUT,
    LINKED_FOLDER,
    REFUSED,
    REPEATED,
    SPECIAL,
    UNPACKED,
    UNREADABLE,
    UNREADABLE_FOLDER,
    Lazy,
    ModuleDump,
    SkippedCounter,
    Stage,
)
from hlo_lens.load.readers import (
    Siblings,
    buffer_texts,
    lazy_module,
    modules_of,
    outline_of,
    proto_buffers,
)
from hlo_lens.text.dump_kinds import (
    BEFORE,
    PACKED,
    PROTO,
    DumpFileName,
    DumpKind,
    archive_form,
    part_of,
    split_file_name,
    stage_order,
    stage_rank,
    title_of,
    without_archive_end,
    without_stamp,
)
from hlo_lens.text.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(slots=True)
class ModuleFiles:
    """The files of one module."""

    key: str
    folder: str
    number: int | None
    stages: dict[str, dict[str, StoredFile]] = field(default_factory=dict)
    settings: dict[str, StoredFile] = field(default_factory=dict)
    mlir: StoredFile | None = None

    def has(self, name: DumpFileName) -> bool:
        return name.part in self.stages.get(name.stage or "", {})

    def put(self, name: DumpFileName, file: StoredFile, skipped: SkippedCounter) -> None:
        if self.has(name):
            skipped.add(REPEATED, file.path)
        else:
            self.stages.setdefault(name.stage or "", {})[name.part] = file


def files_of(folder: Path, skipped: SkippedCounter) -> Iterator[DiskFile]:
    """Yield the files of a folder and its subfolders, in order.

    Raises:
        UnreadableError: If the folder itself cannot be read.
    """

    def count_unreadable(error: OSError) -> None:
        if error.filename == str(folder):
            raise cannot_be_read(str(folder), error) from error
        skipped.add(UNREADABLE_FOLDER, error.filename)

    for directory, folders, names in os.walk(folder, onerror=count_unreadable):
        folders.sort()
        below = os.path.relpath(directory, folder)
        for link in (Path(directory, name) for name in folders):
            if link.is_symlink():
                skipped.add(LINKED_FOLDER, str(link))
        for file in (Path(directory, name) for name in sorted(names)):
            try:
                reason = None if file.is_file() else SPECIAL if file.exists() else UNREADABLE
            except OSError:
                reason = UNREADABLE
            if reason is None:
                yield DiskFile(str(file), "" if below == "." else below)
            else:
                skipped.add(reason, str(file))


def sort_files(
    files: Iterable[StoredFile], skipped: SkippedCounter, *, opens_archives: bool = False
) -> list[ModuleFiles]:
    """Return the files by module, in the order of folder and number."""
    groups: dict[tuple[str, str], list[ModuleFiles]] = {}
    later: list[tuple[StoredFile, DumpFileName]] = []
    settings: dict[tuple[str, str], dict[str, StoredFile]] = {}
    lowered: dict[tuple[str, str], StoredFile] = {}
    kinds = ((file, head_kind(file)) for file in files)
    for file, kind in _with_archives_open(kinds, skipped) if opens_archives else kinds:
        name = split_file_name(name_of(file))
        if part_of(kind) != name.part:
            skipped.add(UNREADABLE if kind is None else kind.value, file.path)
            if setting := _SETTING.fullmatch(name_of(file)):
                owner = _place(file), without_stamp(setting[1])
                settings.setdefault(owner, {}).setdefault(setting[2], file)
            elif _INNER_SETTING.fullmatch(name_of(file)):
                folder = PurePath(_place(file))
                own = settings.setdefault((str(folder.parent), folder.name), {})
                own[name_of(file)] = file
            elif kind is DumpKind.MLIR and _LOWERED.fullmatch(name_of(file)):
                folder = PurePath(_place(file))
                lowered[str(folder.parent), folder.name] = file
        elif name.stage is None and name.number is not None:
            later.append((file, name))
        else:
            _put(groups, file, name, skipped)
    for file, name in later:
        _put_late(groups, file, name, skipped)
    for key, runs in groups.items():
        for group in runs:
            group.settings = settings.get(key, {})
            group.mlir = lowered.get(key)
    ordered = [group for runs in groups.values() for group in runs]
    ordered.sort(key=lambda g: (g.folder, -1 if g.number is None else g.number, g.key))
    return _join_split(ordered)


def _with_archives_open(
    files: Iterable[tuple[StoredFile, DumpKind | None]], skipped: SkippedCounter
) -> Iterator[tuple[StoredFile, DumpKind | None]]:
    """Yield files with their kinds; an archive with dumps gives its members, in a folder."""
    from hlo_lens.load.archive import Kept, archive_files

    kept = Kept()
    for file, kind in files:
        if kind is not DumpKind.ARCHIVE or not isinstance(file, DiskFile):
            yield file, kind
            continue
        path = Path(file.path)
        if path.with_name(without_archive_end(path.name)).is_dir():
            skipped.add(UNPACKED, file.path)
            continue
        links = SkippedCounter()
        members: list[tuple[StoredFile, DumpKind | None]] = []
        try:
            form = archive_form(head_of(file)) or ""
            for member in archive_files(file, form, links, kept):
                below = "/".join(filter(None, (file.folder, path.name, member.folder)))
                members.append((replace(member, folder=below), head_kind(member)))  # type: ignore[type-var] # all are dataclasses
        except UnreadableError:
            skipped.add(REFUSED, file.path)
            continue
        if any(part_of(kind) is not None for _, kind in members):
            skipped.add_all(links)
            yield from members
        else:
            skipped.add(DumpKind.ARCHIVE.value, file.path)


def _join_split(groups: list[ModuleFiles]) -> list[ModuleFiles]:
    """Join a text from before optimizations with the later texts that got another number.

    XLA may renumber a module during compilation (openxla/xla#7193). A module with that text alone
    is joined with the next module of the same name that lacks it.
    """
    waiting: dict[tuple[str, str], ModuleFiles] = {}
    joined = []
    for group in groups:
        place = (group.folder, title_of(group.key))
        if group.number is not None and set(group.stages) == {BEFORE}:
            waiting[place] = group
        elif BEFORE not in group.stages and place in waiting and group.number is not None:
            first = waiting.pop(place)
            group.stages[BEFORE] = first.stages[BEFORE]
            group.mlir = group.mlir or first.mlir
            group.settings = {**first.settings, **group.settings}
            joined.append(id(first))
        else:
            waiting.pop(place, None)
    return [group for group in groups if id(group) not in joined]


def _put(
    groups: dict[tuple[str, str], list[ModuleFiles]],
    file: StoredFile,
    name: DumpFileName,
    skipped: SkippedCounter,
) -> None:
    runs = groups.setdefault((_place(file), name.key), [])
    if not runs or (runs[-1].has(name) and name.is_stamped):
        runs.append(ModuleFiles(key=name.key, folder=file.folder, number=name.number))
    runs[-1].put(name, file, skipped)


def _put_late(
    groups: dict[tuple[str, str], list[ModuleFiles]],
    file: StoredFile,
    name: DumpFileName,
    skipped: SkippedCounter,
) -> None:
    """Add a text of no known stage; one named after a module of its folder is a part of that."""
    keys = (key for place, key in groups if place == _place(file))
    if any(name.key.startswith(f"{key}.") for key in keys):
        skipped.add(CUT_OUT, file.path)
    else:
        _put(groups, file, name, skipped)


def _place(file: StoredFile) -> str:
    return str(PurePath(file.path).parent)


_SETTING = re.compile(
    r"(.+)\.(target_arguments\.txt|execution_options\.txt|hlo_module_config\.txt|config\.pbtxt"
    rf"|gpu_target_config\.pbtxt|debug_options|tpu_comp_env\.txt){PACKED}"
)
_INNER_SETTING = re.compile(r"(?:topology|compile_options)\.textproto")
"""Files on target and options; the second kind is in a folder with the name of the module's."""

_LOWERED = re.compile(rf"module\.mlir{PACKED}")
"""The program as lowered, in a folder that has the name of the module's files."""


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
    return replace(
        _outline(group, stage),
        kind=DumpKind.HLO if text else DumpKind.BUFFER_ASSIGNMENT,
        files=tuple(file.path for file in (text, before, *parts.values()) if file is not None),
        parts={part: file.path for part, file in parts.items()},
        module_text=lazy_module(text, strict=strict),
        buffers=buffers,
        folder=group.folder,
    )


def _outline(group: ModuleFiles, stage: str) -> ModuleDump:
    return ModuleDump(
        name=group.key,
        kind=DumpKind.HLO,
        stage=stage or None,
        before_text=None if stage == BEFORE else lazy_module(_hlo(group.stages.get(BEFORE, {}))),
        number=group.number,
        stage_list=Lazy(partial(_stages, group)),
        settings={name: Lazy(partial(_text_of, file)) for name, file in group.settings.items()},
        mlir_text=None if group.mlir is None else Lazy(partial(_text_of, group.mlir)),
    )


def _text_of(file: StoredFile) -> str | None:
    try:
        return read_source(file).text
    except UnreadableError:
        return None


def _hlo(parts: Mapping[str, StoredFile]) -> StoredFile | None:
    return parts.get("", parts.get(PROTO))


def _stages(group: ModuleFiles) -> tuple[Stage, ...]:
    stages = []
    for name in sorted(filter(None, group.stages), key=stage_order):
        parts = group.stages[name]
        stages.append(
            Stage(
                name=name,
                files=tuple(parts[part].path for part in sorted(parts)),  # that of HLO first
                dump=Lazy(partial(module_at, group, name)),
                is_hlo=_hlo(parts) is not None,
            )
        )
    return tuple(stages)


def siblings_of(file: DiskFile) -> Siblings:
    """Return the other files of a file's module, found next to it on disk."""
    own, name = Path(file.path), split_file_name(name_of(file))
    if file.path == STDIN or name.stage is None or not own.is_file():
        return Siblings(outline=outline_of(file))
    pattern = f"{'*.' * (name.is_stamped)}{escape(name.key)}.*"
    files = sorted(path for path in own.parent.glob(pattern) if path.is_file())
    files += sorted(own.parent.glob(f"{escape(name.key)}/module.mlir*"))
    files += sorted(own.parent.glob(f"{escape(name.key)}/*.textproto"))
    if not name.is_stamped:  # of equal texts, the first one counts
        files.insert(0, own)
    for group in sort_files((DiskFile(str(path)) for path in files), SkippedCounter()):
        same = group.stages.get(name.stage, {})
        if any(other.path == file.path for other in same.values()):
            outline = _outline(group, name.stage)
            return Siblings(
                outline=replace(outline, name=name.module, stage=name.stage, number=name.number),
                parts={part: other for part, other in same.items() if other.path != file.path},
            )
    return Siblings(outline=outline_of(file))


_HEADERS = re.compile(r"^[ \t]*HloModule[ ,]", re.MULTILINE)


def _holds_several(file: StoredFile) -> bool:
    try:
        return len(_HEADERS.findall(read_source(file).text)) > 1
    except UnreadableError:
        return False
