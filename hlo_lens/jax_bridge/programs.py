"""Programs of JAX as dumps: the text of a compile, with what jax knows of it.

The text is ``Compiled.as_text()``, which is what XLA compiled, printed anew: same instructions,
stack frames numbered otherwise.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from hlo_lens.jax_bridge.values import (
    Leaf,
    Meshes,
    argument_values,
    keyed_leaves,
    output_values,
    path_name,
    root_names,
)
from hlo_lens.model.dump import BufferTexts, Lazy, ModuleDump, given
from hlo_lens.model.framework import Framework
from hlo_lens.text.dump_files import DumpKind
from hlo_lens.text.errors import (
    DumpSyntaxError,
    MissingDumpError,
    MissingPackageError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.model.buffers import BufferAssignment
    from hlo_lens.model.heap_trace import HeapTrace
    from hlo_lens.model.hlo import HloModule
    from hlo_lens.syntax.proto import ProtoTexts

BEFORE = "before_optimizations"
AFTER = "after_optimizations"
_BACKENDS = {"cuda": "gpu", "rocm": "gpu"}
_BYTES = re.compile(r"(.+)_size_in_bytes|.+_in_bytes|.+_bytes|.+_allocations")

FAILURES = (RuntimeError, NotImplementedError, ValueError, TypeError, AttributeError)
"""What jax raises for what a version or backend does not have; XLA's own error is the first."""


def from_compiled(compiled: Any, *, lowered: Any = None) -> ModuleDump:
    """Return the program of ``jax.jit(f).lower(...).compile()`` as a dump of one module.

    All passes and reports take it. Names of arguments and mesh axes are those of the program.

    Args:
        compiled: A ``jax.stages.Compiled``.
        lowered: The ``jax.stages.Lowered`` that it was compiled from: its text from before
            optimizations then belongs to the dump.

    Raises:
        UsageError: If it is something else.
        MissingDumpError: If the backend does not give the text of its programs.
    """
    if hasattr(compiled, "compile") and hasattr(compiled, "compiler_ir"):
        message = "this program is lowered, not compiled: add .compile(), or call from_lowered"
        raise UsageError(message)
    if not hasattr(compiled, "as_text") or not hasattr(compiled, "memory_analysis"):
        message = (
            f"expected a compiled program, found {_kind(compiled)}; "
            "write hlo_lens.from_compiled(jax.jit(f).lower(*args).compile())"
        )
        raise UsageError(message)
    before = None if lowered is None else partial(_lowered_text, lowered)
    return dump_of(
        Program(
            executable=getattr(compiled, "_executable", compiled),
            stage=compiled,
            before=before,
        )
    )


def from_lowered(lowered: Any) -> ModuleDump:
    """Return the program of ``jax.jit(f).lower(...)`` as a dump: as it is before XLA optimizes it.

    Nothing is compiled: shapes are global, and memory and most collectives are not known yet.

    Raises:
        UsageError: If it is something else.
        MissingDumpError: If jax cannot give its HLO text.
    """
    if not hasattr(lowered, "compile") or not hasattr(lowered, "compiler_ir"):
        message = (
            f"expected a lowered program, found {_kind(lowered)}; "
            "write hlo_lens.from_lowered(jax.jit(f).lower(*args))"
        )
        raise UsageError(message)
    module = _lowered_module(lowered)
    lowering = getattr(lowered, "_lowering", None)
    facts = _facts(
        Program(executable=lowering, stage=lowered, before=None),
        module,
        *_lowered_shardings(lowering),
    )
    module.framework = facts
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        stage=BEFORE,
        module_text=given(module),
        framework=facts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A compiled program as jax has it.

    Attributes:
        executable: The ``MeshExecutable`` inside of a ``Compiled``; None where there is none.
        stage: The ``Compiled`` itself; None where jit compiled it on its own.
        before: Gives its text from before optimizations; None where that is not at hand.
        donated: Whether each used argument is donated, where `stage` does not tell.
    """

    executable: Any
    stage: Any
    before: Callable[[], str] | None
    donated: Sequence[bool] | None = None

    @property
    def source(self) -> Any:
        """What is asked for text and memory: public where it can be."""
        return self.executable if self.stage is None else self.stage


def dump_of(program: Program) -> ModuleDump:
    """Return a compiled program as a dump of one module."""
    module, others = _compiled_module(program)
    facts = _facts(program, module, *_compiled_shardings(program))
    notes = list(facts.notes)
    if others:
        notes.append(f"the executable has {others} more modules, which are left out")
    facts = replace(facts, memory=_memory(program.source), notes=tuple(notes))
    module.framework = facts
    prefix = {"cpu": "cpu_", "gpu": "gpu_"}.get(facts.backend or "", "")
    before = None if program.before is None else Lazy(partial(_before, program.before, facts))
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        stage=f"{prefix}{AFTER}",
        module_text=given(module),
        before_text=before,
        buffers=_buffers(program),
        parts={"buffer-assignment": "the executable's buffer assignment"},
        framework=facts,
    )


def _kind(found: object) -> str:
    return f"{type(found).__module__}.{type(found).__name__}"


# ---- texts -------------------------------------------------------------------------------------


def _parsed(text: str, path: str) -> list[HloModule]:
    from hlo_lens.syntax.hlo_module import parse_hlo_modules
    from hlo_lens.text.source import clean

    return parse_hlo_modules(clean(text, path))


def _compiled_module(program: Program) -> tuple[HloModule, int]:
    """Return the first module of an executable, and how many more it has."""
    try:
        text = program.source.as_text()
    except FAILURES as error:
        message = (
            f"this executable does not give its text ({_first_line(error)}); compile with "
            'XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text" and read the folder'
        )
        raise MissingDumpError(message) from error
    if not text:
        message = "this executable has no text: the backend gives none"
        raise MissingDumpError(message)
    modules = _parsed(text, "<compiled>")
    return modules[0], len(modules) - 1


def _lowered_text(lowered: Any) -> str:
    """Return the HLO text of a lowered program; raises MissingDumpError."""
    try:
        return str(lowered.as_text(dialect="hlo"))
    except FAILURES as error:
        message = f"jax cannot give the HLO text of this program ({_first_line(error)})"
        raise MissingDumpError(message) from error


def _lowered_module(lowered: Any) -> HloModule:
    return _parsed(_lowered_text(lowered), "<lowered>")[0]


def _before(read: Callable[[], str], facts: Framework) -> HloModule:
    from hlo_lens.syntax.hlo_module import unread_module

    try:
        module = _parsed(read(), "<lowered>")[0]
    except MissingDumpError:
        return unread_module("<lowered>")
    module.framework = facts
    return module


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


# ---- buffers -----------------------------------------------------------------------------------

_ASSIGNMENTS = (
    ("serialized_buffer_assignment_proto", "BufferAssignmentProto"),
    ("serialized_hlo_proto", "HloProto"),
    ("serialized_buffer_assignment", "BufferAssignmentProto"),
)
"""Where CompiledMemoryStats has had the buffer assignment, and as what; a TPU leaves it empty."""


def _buffers(program: Program) -> BufferTexts:
    """Return readers of the buffer assignment that the executable carries, if it does."""
    texts = Lazy(partial(_proto_texts, program))

    def assignment() -> BufferAssignment | None:
        from hlo_lens.syntax.buffer_assignment import parse_buffer_assignment

        found = texts.get()
        if found is None or found.assignment is None:
            return None
        return parse_buffer_assignment(found.assignment)

    def traces() -> tuple[HeapTrace, ...]:
        found = texts.get()
        return () if found is None else found.traces

    return BufferTexts(assignment=Lazy(assignment), traces=Lazy(traces))


def _proto_texts(program: Program) -> ProtoTexts | None:
    """Return the texts of the executable's protos; None where it or protobuf is not there."""
    from hlo_lens.syntax.proto import assignment_texts

    try:
        stats = program.source.memory_analysis()
        found = [(getattr(stats, name, None), kind) for name, kind in _ASSIGNMENTS]
        data, kind = next((pair for pair in found if pair[0]), (b"", ""))
        if not data:
            return None
        executable = getattr(program.executable, "xla_executable", None)
        if executable is None:
            executable = program.source.runtime_executable()
        (proto, *_) = executable.hlo_modules()
        return assignment_texts(proto.as_serialized_hlo_module_proto(), data, kind)
    except (*FAILURES, MissingPackageError, DumpSyntaxError):
        return None


# ---- what jax knows ----------------------------------------------------------------------------


def _facts(
    program: Program, module: HloModule, arguments: Sequence[Any], results: Sequence[Any]
) -> Framework:
    """Return what jax knows of a program.

    Args:
        program: The program.
        module: Its text.
        arguments: Sharding of each argument, in order; None for what is not used.
        results: Sharding of each result, in order.
    """
    meshes = Meshes()
    leaves, notes = _argument_leaves(program, module, arguments)
    values, more = argument_values(leaves, module, meshes)
    outputs, rest = output_values(_result_leaves(program, results), module, meshes)
    return Framework(
        name=f"jax {_version()}",
        backend=_backend((*arguments, *results)),
        arguments=values,
        outputs=outputs,
        meshes=meshes.meshes,
        notes=(*notes, *more, *rest),
    )


def _version() -> str:
    import jax

    return str(jax.__version__)


def _backend(shardings: Sequence[Any]) -> str | None:
    for sharding in shardings:
        devices = getattr(sharding, "device_set", None)
        with suppress(*FAILURES):
            for device in devices or ():
                platform = str(device.platform)
                return _BACKENDS.get(platform, platform)
    return None


def _argument_leaves(
    program: Program, module: HloModule, shardings: Sequence[Any]
) -> tuple[list[Leaf], tuple[str, ...]]:
    """Return the arguments of a program, and what this version does not tell of them."""
    names = _debug(program.executable, "arg_names")
    if program.stage is None:
        return _private_leaves(program, shardings, names)
    tree = keyed_leaves(program.stage.args_info)
    if len(tree) != len(shardings):
        return [], ("this jax does not tell which arguments the program uses",)
    there = [info is not None for _, info in tree]  # None is no argument
    tree = list(compress(tree, there))
    shardings = list(compress(shardings, there))
    if len(names) != len(tree):
        names = _names_of_parameters(module, [one is not None for one in shardings])
    roots = root_names([path for path, _ in tree], names)
    return [
        Leaf(
            name=path_name(path, roots),
            aval=info if hasattr(info, "dtype") else getattr(info, "_aval", None),
            sharding=sharding,
            is_donated=bool(getattr(info, "donated", False)),
            is_used=sharding is not None,
        )
        for (path, info), sharding in zip(tree, shardings, strict=True)
    ], ()


def _private_leaves(
    program: Program, shardings: Sequence[Any], names: Sequence[str | None]
) -> tuple[list[Leaf], tuple[str, ...]]:
    """Return the arguments of a program that jit compiled on its own, flattened already."""
    info = getattr(program.executable, "_all_args_info", None)
    avals = list(getattr(info, "in_avals", ()))
    if not avals or len(avals) != len(shardings):
        return [], ("this jax does not tell the arguments of a program that jit compiled",)
    donated = iter(program.donated or ())
    leaves = []
    for number, (aval, sharding) in enumerate(zip(avals, shardings, strict=True)):
        name = names[number] if number < len(names) else None
        is_used = sharding is not None
        leaves.append(
            Leaf(
                name=name or f"args[{number}]",
                aval=aval,
                sharding=sharding,
                is_donated=next(donated, None) if is_used else None,
                is_used=is_used,
            )
        )
    return leaves, ()


def _names_of_parameters(module: HloModule, used: Sequence[bool]) -> tuple[str | None, ...]:
    """Return for each argument what its parameter is called; None for what has none."""
    parameters = module.entry.parameters
    if len(parameters) != sum(used):
        return (None,) * len(used)
    metadata = iter([parameter.metadata for parameter in parameters])
    found = [next(metadata) if is_used else None for is_used in used]
    return tuple(None if data is None else data.op_name for data in found)


def _result_leaves(program: Program, shardings: Sequence[Any]) -> list[Leaf]:
    """Return the results of a program; without names where this version has none."""
    names = _debug(program.executable, "result_paths")
    avals = _private(program.executable, "out_avals", "global_out_avals") or ()
    return [
        Leaf(
            name=_result_name(names[k]) if len(names) == len(shardings) else f"result[{k}]",
            aval=avals[k] if len(avals) == len(shardings) else None,
            sharding=sharding,
        )
        for k, sharding in enumerate(shardings)
    ]


def _result_name(path: str | None) -> str:
    """Return the path of a result as jax has had it since 0.5: with ``result`` before it."""
    return path if path and path.startswith("result") else f"result{path or ''}"


def _debug(executable: Any, name: str) -> tuple[str | None, ...]:
    """Return names from the debug information of an executable; empty where there are none."""
    info = _private(executable, "_all_args_info", "all_args_info")
    found = getattr(getattr(info, "debug_info", None), name, None)
    return tuple(found) if isinstance(found, (tuple, list)) else ()


def _private(executable: Any, name: str, compile_argument: str) -> Any:
    """Return an attribute of an executable, or of a lowering, which has it under another name."""
    arguments: Mapping[str, Any] = getattr(executable, "compile_args", None) or {}
    return arguments.get(compile_argument, getattr(executable, name, None))


def _compiled_shardings(program: Program) -> tuple[list[Any], list[Any]]:
    """Return the shardings of arguments and results, flattened; None for unused arguments."""
    if program.stage is not None:
        return (
            list(_leaves_of(program.stage, "input_shardings")),
            list(_leaves_of(program.stage, "output_shardings")),
        )
    executable = program.executable
    inputs = list(getattr(executable, "_in_shardings", ()))
    kept = getattr(executable, "_kept_var_idx", None)
    count = len(getattr(getattr(executable, "_all_args_info", None), "in_avals", ()))
    return _spread(inputs, kept, count), list(getattr(executable, "_out_shardings", ()))


def _leaves_of(stage: Any, name: str) -> Iterator[Any]:
    try:
        tree = getattr(stage, name)
    except FAILURES:
        return
    for _, leaf in keyed_leaves(tree):
        yield leaf


def _spread(used: Sequence[Any], kept: Any, count: int) -> list[Any]:
    """Return what belongs to each of all arguments, given it for those that are used."""
    if kept is None or len(kept) != len(used):
        return list(used)
    by_number = dict(zip(sorted(kept), used, strict=True))
    return [by_number.get(number) for number in range(max(count, len(used)))]


def _lowered_shardings(lowering: Any) -> tuple[list[Any], list[Any]]:
    """Return the shardings that a lowered program asks for; what it leaves to XLA has none."""
    arguments: Mapping[str, Any] = getattr(lowering, "compile_args", None) or {}
    inputs, kept = list(arguments.get("in_shardings", ())), arguments.get("kept_var_idx")
    count = len(getattr(arguments.get("all_args_info"), "in_avals", ()))
    return _spread(inputs, kept, count), list(arguments.get("out_shardings", ()))


def _memory(source: Any) -> dict[str, int]:
    """Return the byte figures of ``memory_analysis()``; empty where the backend has none."""
    try:
        stats = source.memory_analysis()
    except FAILURES:
        return {}
    found: dict[str, int] = {}
    for name in dir(stats):
        value = getattr(stats, name, None) if _BYTES.fullmatch(name) else None
        if isinstance(value, int):
            found[name] = value
    return found
