"""Program of a snapshot: the texts from which causes of changes are found, packed into one string.

The texts are those before and after optimizations, as XLA prints them but for the folders of source
files; with them the options of XLA and the mesh. They are compressed (xz) and written as base64,
and are unpacked and parsed when a comparison first asks for them.
"""

from __future__ import annotations

import base64
import binascii
import json
import lzma
import re
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, cast

from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.questions.what_if.compiling import OPTION_TEXTS, options_of
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source_files import without_folders
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

MOST_BYTES = 8 << 20

_MOST_TEXT = 1 << 31
"""Largest size of the texts of a packed program; more is damage."""

_FAST = 1
"""Preset of xz: 25 to 40 times smaller, 14 MB in 0.3 s."""

Options = dict[str, dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class SavedProgram:
    """Program of a module in a snapshot.

    Texts that were left out are None, with the reason; `path` is the snapshot, for messages.
    """

    packed: str | None = None
    reason: str = ""
    path: str = field(default="", compare=False)

    @cached_property
    def _parts(self) -> Mapping[str, Any]:
        if self.packed is None:
            return {}
        try:
            data, unpack = base64.b64decode(self.packed, validate=True), lzma.LZMADecompressor()
            parts = json.loads(unpack.decompress(data, max_length=_MOST_TEXT))
            if not unpack.eof or not _is_whole(parts):
                raise ValueError("is not as it was written")
        except (binascii.Error, lzma.LZMAError, ValueError, EOFError, RecursionError) as error:
            message = f"the snapshot is damaged: its program {error}; save it again from its dump"
            raise DumpSyntaxError(message, path=self.path) from error
        return cast("Mapping[str, Any]", parts)

    @cached_property
    def hlo(self) -> HloModule | None:
        return self._module("hlo")

    @cached_property
    def before(self) -> HloModule | None:
        return self._module("before")

    @property
    def options(self) -> Options:
        return self._parts.get("options") or {}

    @property
    def mesh(self) -> str | None:
        """Axes of its largest mesh; None if it is not known."""
        return self._parts.get("mesh")

    def _module(self, name: str) -> HloModule | None:
        from hlo_lens.hlo.module_reader import parse_hlo

        text = self._parts.get(name)
        return None if text is None else parse_hlo(text, path=f"{self.path} ({name})")


def _is_whole(parts: object) -> bool:
    if not isinstance(parts, dict):
        return False
    texts = (parts.get(name) for name in ("hlo", "before", "mesh"))
    options = parts.get("options") or {}
    return all(text is None or isinstance(text, str) for text in texts) and (
        isinstance(options, dict)
        and all(isinstance(one, dict) for one in options.values())
        and all(isinstance(o, str) for one in options.values() for o in one.values())
    )


NO_PROGRAM = SavedProgram(reason="it was saved by an older hlo-lens; save it again from its dump")
NOT_KEPT = SavedProgram(reason="it was saved without its program")


def packed_program(dump: ModuleDump, *, most: int = MOST_BYTES) -> SavedProgram:
    """Return the program of a module.

    If its texts need more than `most` bytes, only that from before optimizations is kept, if there
    is one; if that is too large, none.
    """
    texts = {"hlo": dump.hlo, "before": dump.before}
    kept = {name: _portable_text(module) for name, module in texts.items() if module is not None}
    if not kept:
        return SavedProgram(reason="there was no HLO text")
    known = {"mesh": mesh_text(dump), "options": options(dump)}
    size = 0
    for names in (list(kept), ["before"] if "before" in kept else []):
        parts = {**known, **{name: kept[name] for name in names}}
        data = lzma.compress(json.dumps(parts, sort_keys=True).encode(), preset=_FAST)
        packed = base64.b64encode(data).decode()
        if names and len(packed) <= most:
            return SavedProgram(packed=packed)
        size = size or len(packed)
    reason = f"it needs {format_bytes(size)}, more than {format_bytes(most)}"
    return SavedProgram(reason=reason)


_FILE = re.compile(r'source_file="([^"\\\n]*)"')


def _portable_text(module: HloModule) -> str:
    text = module.columns.source.text
    after = text.find("\nHloModule ", module.start + 1)  # a log may hold several
    text = text[module.start : after + 1 if after >= 0 else None]
    for file in sorted({*module.stack_frames.file_names, *_FILE.findall(text)}):
        text = text.replace(f'"{file}"', f'"{without_folders(file)}"')
    return text


def options(dump: ModuleDump) -> Options:
    """Return the options of XLA that a dump prints."""
    texts = {name: dump.setting(name) for name in OPTION_TEXTS}
    return {name: options_of(text) for name, text in texts.items() if text is not None}


def mesh_text(dump: ModuleDump) -> str | None:
    """Return the axes of the largest mesh of a module; None if it is not known."""
    found = sharding_results(dump)
    meshes = () if found is None else found.table.meshes
    mesh = max(meshes, key=lambda one: (prod(one.axis_sizes), len(one.axis_sizes)), default=None)
    sizes = {} if mesh is None else mesh.sizes
    return " x ".join(f"{name}={size}" for name, size in sizes.items()) or None
