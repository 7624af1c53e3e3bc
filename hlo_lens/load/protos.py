"""The module in a ``.hlo.pb`` file: HLO text, buffer assignment and heap traces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.load.stored import name_of
from hlo_lens.model.dump import BufferTexts, Lazy, ModuleDump, given
from hlo_lens.text.dump_files import split_file_name
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.load.stored import StoredFile
    from hlo_lens.model.buffers.assignment import BufferAssignment
    from hlo_lens.model.dump import Stage
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.syntax.proto import ProtoTexts

    Progress = Callable[[int, int], None]


def proto_module(
    file: StoredFile,
    data: bytes,
    *,
    before: Lazy[HloModule] | None = None,
    stages: Lazy[tuple[Stage, ...]] | None = None,
    progress: Progress | None = None,
) -> ModuleDump:
    """Return the module of a proto.

    Args:
        file: The file.
        data: Its bytes, unpacked.
        before: Reads the text from before optimizations.
        stages: Finds the stages of the module.
        progress: Called with characters of its text done and characters in all.

    Raises:
        DumpSyntaxError: If it is damaged.
        MissingPackageError: If the protobuf package is not installed.
    """
    from hlo_lens.syntax.hlo.module import parse_hlo_modules
    from hlo_lens.syntax.proto import read_proto
    from hlo_lens.text.source import clean

    texts = read_proto(data, file.path)
    source = clean(texts.hlo, file.path)
    size = len(source.text)
    report = None if progress is None else lambda offset: progress(offset, size)
    module = parse_hlo_modules(source, progress=report)[0]
    name = split_file_name(name_of(file))
    return ModuleDump(
        name=module.name or name.module,
        kind=DumpKind.HLO_PROTO,
        stage=name.stage,
        files=(file.path,),
        parts={} if texts.assignment is None else {"buffer-assignment": file.path},
        module_text=given(module),
        before_text=before,
        buffers=proto_buffers(texts, file.path),
        number=name.number,
        stage_list=stages,
    )


def proto_buffers(texts: ProtoTexts, path: str) -> BufferTexts:
    """Return lazy readers of the buffer-side texts of a proto."""
    if texts.assignment is None:
        return BufferTexts()
    return BufferTexts(
        assignment=Lazy(partial(_assignment, texts.assignment, path)),
        traces=given(texts.traces),
    )


def _assignment(text: str, path: str) -> BufferAssignment:
    from hlo_lens.syntax.buffers.assignment import parse_buffer_assignment
    from hlo_lens.text.source import clean

    return parse_buffer_assignment(clean(text, path))
