"""Names of the files that XLA writes: module, number, stage and part; order of the stages.

Source: xla/service/dump.cc, FilenameFor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hlo_lens.text.dump_kinds import BUFFER_PARTS, PROTO

BEFORE = "before_optimizations"
"""Stage whose text is the program as the framework gave it."""

AFTER = "after_optimizations"
"""End of the name of the stage whose text is the program that runs."""

_KNOWN = r"""
    (?:(?:cpu|gpu|sm_[\d.]+[a-z]?_gpu|gfx[0-9a-f]+_gpu)_)?
        after_optimizations(?:_before_buffer_assignment|_after_buffer_assignment)?
  | before_optimizations | after_spmd_partitioner | before_config_assignment
  | after_codegen(?:_after_hlo_sanitization)? | oom_intermediate_module
"""
_PASS = r"\d{4,5}\.[^/]+\.after_[^/]+\.before_[^/]+"
_PASS_STEP = r"\d{4}\.(?!autotuner_|triton_fusion|cudnn_fusion)[^/]+"
PACKED = r"(?:\.(?:gz|xz|bz2|zst))?"
"""Pattern of the optional second extension of compressed files."""

_PARTS = "|".join(sorted(BUFFER_PARTS.values(), key=len, reverse=True))
_STAGES = re.compile(
    rf"""(?P<module>.*)\.(?P<stage>{_KNOWN} | {_PASS} | {_PASS_STEP})
    (?P<part>-(?:{_PARTS}))?
    \.(?:txt|hlo|(?P<proto>hlo\.pb)){PACKED}$""",
    re.VERBOSE | re.DOTALL,
)
"""Both module names and stages contain dots. The longest module name is the right one: no stage is
a suffix of another."""

_INSIDE_PASS = re.compile(r"\.\d{4,5}\.[^/]+\.after_[^/]+$")
_PART_ONLY = re.compile(rf"\.({_PARTS})\.txt{PACKED}$")
"""Names that users give to single parts."""

_NUMBERED = re.compile(r"(?:^|\.)module_(\d{4,})(?:\.|$)")
_STAMPED = re.compile(r"^\d+\.(?=module_\d{4,}(?:\.|$))")
_TITLE = re.compile(r"^(?:\d+\.)?module_\d{4,}\.?|\.cl_\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpFileName:
    """Parts of the name of a dump file.

    Attributes:
        module: Everything before the stage: time stamp, module number, module name, change list.
        number: Module number, None if the name has none.
        stage: Stage such as ``cpu_after_optimizations``, None if the name has none.
        part: ``buffer-assignment`` and so on, ``hlo-proto``; empty for the HLO text.
    """

    module: str
    number: int | None
    stage: str | None
    part: str

    @property
    def is_stamped(self) -> bool:
        """Whether it has a time stamp of its own, as ``--xla_dump_include_timestamp`` adds one."""
        return _STAMPED.match(self.module) is not None

    @property
    def key(self) -> str:
        """Number, name and change list: equal for all files of one module in a folder."""
        return without_stamp(self.module)


def without_stamp(name: str) -> str:
    """Return a name without the time stamp that ``--xla_dump_include_timestamp`` puts before it."""
    return _STAMPED.sub("", name)


def title_of(module: str) -> str:
    """Return the module's name in the first part of a file name.

    >>> title_of("module_0012.jit_f.cl_1003875606")
    'jit_f'
    """
    return _TITLE.sub("", module)


def split_file_name(name: str) -> DumpFileName:
    """Return the parts of a file name; accepts any name."""
    stage = _STAGES.match(name)
    part = None if stage else _PART_ONLY.search(name)
    if part is not None:
        return DumpFileName(module=name[: part.start()], number=None, stage="", part=part[1])
    module, found = (stage["module"], stage["stage"]) if stage else (name.split("/")[-1], None)
    if found is not None and (inside := _INSIDE_PASS.search(module)) is not None:
        module, found = module[: inside.start()], f"{module[inside.start() + 1 :]}.{found}"
    number = _NUMBERED.search(module)
    text = (stage["part"] or "").removeprefix("-") if stage else ""
    return DumpFileName(
        module=module,
        number=int(number[1]) if number else None,
        stage=found,
        part=PROTO if stage and stage["proto"] and not text else text,
    )


def module_address(folder: str, name: str) -> str:
    """Return the folder and name of a module, which ``--module`` takes to select it alone.

    Newer dumps have a folder for each module, of its name, which is left out.

    >>> module_address("host0", "module_0001.jit_f"), module_address("jit_f", "jit_f")
    ('host0/module_0001.jit_f', 'jit_f')
    """
    above, _, last = folder.rpartition("/")
    return "/".join(part for part in (above if last == name else folder, name) if part)


_ARCHIVE_ENDS = re.compile(r"\.(?:zip|t[gbxz]z2?|tar(?:\.\w+)?)$", re.IGNORECASE)


def without_archive_end(name: str) -> str:
    """Return the name of the folder that an archive was made from, by the archive's name.

    >>> without_archive_end("host0.tar.gz"), without_archive_end("jax-0.10.2")
    ('host0', 'jax-0.10.2')
    """
    return _ARCHIVE_ENDS.sub("", name)


_STAGE_FORMS = (
    (r"before_optimizations$", 0),
    (r"\d{4,5}\.", 10),
    (r"after_spmd_partitioner$", 40),
    (r"before_config_assignment$", 40),
    (r"(?!.*after_(?:optimizations|codegen))", 40),
    (r".*_before_buffer_assignment$", 60),
    (r".*after_optimizations$", 100),
    (r".*_after_buffer_assignment$", 90),
    (r"after_codegen", 55),
    (r"", 40),
)
"""Forms of stages in the order of compilation, and how close each is to the program that runs."""


def _stage_form(stage: str) -> int:
    """Return the position of a stage's form in `_STAGE_FORMS`."""
    return next(k for k, (form, _) in enumerate(_STAGE_FORMS) if re.match(form, stage))


def stage_rank(stage: str) -> int:
    """Return how close a stage is to the program that runs; final optimized text ranks highest."""
    return _STAGE_FORMS[_stage_form(stage)][1] if stage else 50


def stage_order(stage: str) -> tuple[int, int, str]:
    """Return the place of a stage in the order of compilation, as a key for sorting."""
    number = stage.partition(".")[0]
    return _stage_form(stage), int(number) if number.isdecimal() else 0, stage
