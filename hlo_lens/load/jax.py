"""Compiled and lowered programs of JAX as modules: texts, buffers, names and shardings.

jax is imported when a function is called, never with this file. Written against jax 0.4.30 to
0.12.0; facts that a version does not expose are named in ``Framework.notes``.

The text is ``Compiled.as_text()``: the instructions of the compiled module, with stack frames
numbered otherwise than in a dump.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from hlo_lens.hlo.module import Framework, FrameworkValue
from hlo_lens.load.module import BufferTexts, Lazy, ModuleDump, already_read
from hlo_lens.load.readers import later_buffers
from hlo_lens.shapes.mesh import AxisRef, Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import DimensionSharding, NamedSharding
from hlo_lens.shapes.shape import Shape, xla_name
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.dump_kinds import AFTER, BEFORE, TEXT_FLAGS, DumpKind
from hlo_lens.text.errors import (
    DumpSyntaxError,
    HloLensError,
    MissingDumpError,
    MissingPackageError,
    UsageError,
)
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule

FAILURES = (RuntimeError, NotImplementedError, ValueError, TypeError, AttributeError)
"""Errors of jax for features that a version or backend lacks; XLA's own is the first."""


def import_jax() -> Any:
    """Return the module jax; raises MissingPackageError if it is not installed."""
    try:
        return importlib.import_module("jax")
    except ImportError as error:
        raise MissingPackageError("jax is not installed: pip install 'hlo-lens[jax]'") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """A compiled program: jax's objects."""

    executable: Any
    stage: Any
    before: Callable[[], str] | None
    donated: Sequence[bool] | None = None

    @property
    def source(self) -> Any:
        """The object whose ``as_text`` and ``memory_analysis`` are called; public if possible."""
        return self.executable if self.stage is None else self.stage


def from_compiled(compiled: Any, *, lowered: Any = None) -> ModuleDump:
    """Return the program of ``jax.jit(f).lower(...).compile()`` as a dump of one module.

    All passes and reports accept it. Arguments and mesh axes have the names that the program uses.

    Args:
        compiled: A ``jax.stages.Compiled``.
        lowered: The ``jax.stages.Lowered`` that it was compiled from: its text from before
            optimizations then belongs to the dump.

    Raises:
        UsageError: If the argument has another type.
        MissingDumpError: If the backend does not give the text of its programs.
    """
    if hasattr(compiled, "compile") and hasattr(compiled, "compiler_ir"):
        raise UsageError(
            "this program is lowered, not compiled: add .compile(), or call from_lowered"
        )
    if not hasattr(compiled, "as_text") or not hasattr(compiled, "memory_analysis"):
        raise UsageError(
            f"expected a compiled program, found {_type_name(compiled)}; "
            "write hlo_lens.from_compiled(jax.jit(f).lower(*args).compile())"
        )
    before = None if lowered is None else partial(_lowered_text, lowered)
    executable = getattr(compiled, "_executable", compiled)
    return _compiled_module(CompiledProgram(executable=executable, stage=compiled, before=before))


def from_lowered(lowered: Any) -> ModuleDump:
    """Return the program of ``jax.jit(f).lower(...)``, before optimizations, as a dump.

    Nothing is compiled: shapes are global, and memory and most collectives are not known yet.

    Raises:
        UsageError: If the argument has another type.
        MissingDumpError: If jax cannot give its HLO text.
    """
    if not hasattr(lowered, "compile") or not hasattr(lowered, "compiler_ir"):
        raise UsageError(
            f"expected a lowered program, found {_type_name(lowered)}; "
            "write hlo_lens.from_lowered(jax.jit(f).lower(*args))"
        )
    module = _parsed(_lowered_text(lowered), "<lowered>")[0]
    lowering = getattr(lowered, "_lowering", None)
    # the shardings that are requested; None where XLA chooses
    options: Mapping[str, Any] = getattr(lowering, "compile_args", None) or {}
    count = len(getattr(options.get("all_args_info"), "in_avals", ()))
    inputs = _spread(options.get("in_shardings", ()), options.get("kept_var_idx"), count)
    outputs = list(options.get("out_shardings", ()))
    program = CompiledProgram(executable=lowering, stage=lowered, before=None)
    module.framework = _framework(program, module, inputs, outputs)
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        stage=BEFORE,
        module_text=already_read(module),
        framework=module.framework,
    )


def dump_of_compile(lowering: Any, executable: Any) -> ModuleDump:
    """Return the program of one compile inside jax as a dump of one module.

    Raises:
        MissingDumpError: If the backend does not give the text of its programs.
    """
    is_stage = not hasattr(executable, "xla_executable") and hasattr(executable, "args_info")
    donated = getattr(lowering, "_donated_invars", None)
    return _compiled_module(
        CompiledProgram(
            executable=getattr(executable, "_executable", executable) if is_stage else executable,
            stage=executable if is_stage else None,
            before=partial(_lowered_text, lowering),
            donated=tuple(donated) if isinstance(donated, (tuple, list)) else None,
        )
    )


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


_BYTES = re.compile(r"(.+)_size_in_bytes|.+_in_bytes|.+_bytes|.+_allocations")


def _compiled_module(program: CompiledProgram) -> ModuleDump:
    try:
        text = program.source.as_text()
    except FAILURES as error:
        raise MissingDumpError(
            f"this executable does not return its text ({_first_line(error)}); compile with "
            f'XLA_FLAGS="{TEXT_FLAGS}" and read the folder'
        ) from error
    if not text:
        raise MissingDumpError("this executable has no text: the backend returns none")
    module, *others = _parsed(text, "<compiled>")
    facts = _framework(program, module, *_compiled_shardings(program))
    if others:
        note = f"the executable has {len(others)} more modules, which are not read"
        facts = replace(facts, notes=(*facts.notes, note))
    try:
        stats = program.source.memory_analysis()
    except FAILURES:
        stats = None
    figures = ((name, getattr(stats, name, None)) for name in dir(stats) if _BYTES.fullmatch(name))
    memory = {name: size for name, size in figures if isinstance(size, int)}
    module.framework = facts = replace(facts, memory=memory)
    prefix = {"cpu": "cpu_", "gpu": "gpu_"}.get(facts.backend or "", "")
    read_before = program.before
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        stage=f"{prefix}{AFTER}",
        module_text=already_read(module),
        before_text=None if read_before is None else Lazy(partial(_before, read_before, facts)),
        buffers=later_buffers(partial(_buffers, program)),
        parts={"buffer-assignment": "the executable's buffer assignment"},
        framework=facts,
    )


def _parsed(text: str, path: str) -> list[HloModule]:
    from hlo_lens.hlo.module_reader import parse_hlo_modules
    from hlo_lens.text.source import clean

    return parse_hlo_modules(clean(text, path))


def _lowered_text(lowered: Any) -> str:
    """Return the HLO text of a lowered program, public or not; raises MissingDumpError."""
    try:
        if hasattr(lowered, "hlo"):
            return str(lowered.hlo().as_hlo_text())
        return str(lowered.as_text(dialect="hlo"))
    except FAILURES as error:
        raise MissingDumpError(
            f"jax cannot return the HLO text of this program ({_first_line(error)})"
        ) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _before(read: Callable[[], str], facts: Framework) -> HloModule:
    from hlo_lens.hlo.module_reader import unread_module

    try:
        module = _parsed(read(), "<lowered>")[0]
    except MissingDumpError:
        return unread_module("<lowered>")
    module.framework = facts
    return module


_ASSIGNMENTS = (
    ("serialized_buffer_assignment_proto", "BufferAssignmentProto"),
    ("serialized_hlo_proto", "HloProto"),
    ("serialized_buffer_assignment", "BufferAssignmentProto"),
)
"""Attributes of CompiledMemoryStats, by version, that hold a buffer assignment, and their type.

On TPU they are empty.
"""


def _buffers(program: CompiledProgram) -> BufferTexts:
    from hlo_lens.load.protos import compiled_buffers

    try:
        stats = program.source.memory_analysis()
        protos = [(getattr(stats, name, None), kind) for name, kind in _ASSIGNMENTS]
        data, kind = next((pair for pair in protos if pair[0]), (b"", ""))
        if not data:
            return BufferTexts()
        executable = getattr(program.executable, "xla_executable", None)
        if executable is None:
            executable = program.source.runtime_executable()
        (proto, *_) = executable.hlo_modules()
        return compiled_buffers(kind, data, proto.as_serialized_hlo_module_proto())
    except (*FAILURES, MissingPackageError, DumpSyntaxError):
        return BufferTexts()


_BACKENDS = {"cuda": "gpu", "rocm": "gpu"}


def _framework(
    program: CompiledProgram, module: HloModule, inputs: Sequence[Any], outputs: Sequence[Any]
) -> Framework:
    """Return the facts that jax has about a program."""
    import jax

    meshes = _Meshes()
    notes: list[str] = []
    arguments = _joined_arguments(_arguments(program, module, inputs, meshes, notes), module, notes)
    results = _joined_results(_results(program, outputs, meshes), module, notes)
    return Framework(
        name=f"jax {jax.__version__}",
        backend=_backend((*inputs, *outputs)),
        arguments=arguments,
        outputs=results,
        meshes=meshes.meshes,
        notes=tuple(notes),
    )


def _backend(shardings: Sequence[Any]) -> str | None:
    for sharding in shardings:
        try:
            for device in getattr(sharding, "device_set", None) or ():
                platform = str(device.platform)
                return _BACKENDS.get(platform, platform)
        except FAILURES:
            continue
    return None


def _arguments(
    program: CompiledProgram,
    module: HloModule,
    shardings: Sequence[Any],
    meshes: _Meshes,
    notes: list[str],
) -> list[FrameworkValue]:
    """Return the arguments of a program; note facts that this version of jax lacks."""
    names = _debug_names(program.executable, "arg_names")
    if program.stage is None:  # jit compiled it without ``lower``
        info = getattr(program.executable, "_all_args_info", None)
        avals = list(getattr(info, "in_avals", ()))
        if not avals or len(avals) != len(shardings):
            notes.append(
                "this version of jax does not report the arguments of a program that jit compiled"
            )
            return []
        donations = iter(program.donated or ())
        donated = [None if sharding is None else next(donations, None) for sharding in shardings]
        listed = [
            (names[number] if number < len(names) else None) or f"args[{number}]"
            for number in range(len(avals))
        ]
    else:
        tree = _keyed_leaves(program.stage.args_info)
        there = [info is not None for _, info in tree]  # None is no argument
        if len(tree) == len(shardings):  # of a tree too; those of a lowered program are flat
            shardings = list(compress(shardings, there))
        tree = list(compress(tree, there))
        if len(tree) != len(shardings):
            notes.append("this version of jax does not report which arguments the program uses")
            return []
        if len(names) != len(tree):
            names = _names_of_parameters(module, shardings)
        roots = _root_names([path for path, _ in tree], names)
        listed = [_path_name(path, roots) for path, _ in tree]
        avals = [
            info if hasattr(info, "dtype") else getattr(info, "_aval", None) for _, info in tree
        ]
        donated = [bool(getattr(info, "donated", False)) for _, info in tree]
    return [
        replace(
            meshes.value(name, aval, sharding), is_donated=is_donated, is_used=sharding is not None
        )
        for name, aval, sharding, is_donated in zip(listed, avals, shardings, donated, strict=True)
    ]


def _names_of_parameters(module: HloModule, shardings: Sequence[Any]) -> Sequence[str | None]:
    parameters = module.entry.parameters
    if len(parameters) != sum(sharding is not None for sharding in shardings):
        return [None] * len(shardings)
    metadata = iter([parameter.metadata for parameter in parameters])
    used = [None if sharding is None else next(metadata) for sharding in shardings]
    return [None if data is None else data.op_name for data in used]


def _results(
    program: CompiledProgram, shardings: Sequence[Any], meshes: _Meshes
) -> list[FrameworkValue]:
    count = len(shardings)
    names: Sequence[str | None] = _debug_names(program.executable, "result_paths")
    avals = _private(program.executable, "out_avals", "global_out_avals") or ()
    if len(names) != count:
        names = [f"result[{number}]" for number in range(count)]
    if len(avals) != count:
        avals = [None] * count
    return [
        # with the prefix that jax 0.5 and later write
        meshes.value(name if name and name.startswith("result") else f"result{name or ''}", *rest)
        for name, *rest in zip(names, avals, shardings, strict=True)
    ]


def _joined_arguments(
    arguments: Sequence[FrameworkValue], module: HloModule, notes: list[str]
) -> tuple[FrameworkValue, ...]:
    """Return the arguments with the numbers of their parameters.

    jit drops arguments that the program does not use and numbers the others consecutively. It may
    put constants and tokens before them, or pass all as one tuple.
    """
    used = [argument for argument in arguments if argument.is_used]
    parameters = module.entry.parameters
    shapes = [parameter.shape for parameter in parameters]
    before = len(parameters) - len(used)
    only = shapes[0] if len(shapes) == 1 and len(used) != 1 else None
    places: list[tuple[int, tuple[int, ...]]]
    if only is not None and only.is_tuple and len(only.tuple_shapes) == len(used):
        places = [(0, (number,)) for number in range(len(used))]
    elif _match(used, shapes, before):
        places = [(before + number, ()) for number in range(len(used))]
    else:
        if used:
            notes.append(
                f"{plural(len(used), 'used argument')}, but the program has "
                f"{plural(len(parameters), 'parameter')}: they cannot be matched"
            )
        return tuple(arguments)
    numbers = iter(places)
    joined = []
    for argument in arguments:
        if argument.is_used:
            number, index = next(numbers)
            argument = replace(argument, number=number, index=index)
        joined.append(argument)
    return tuple(joined)


def _joined_results(
    results: Sequence[FrameworkValue], module: HloModule, notes: list[str]
) -> tuple[FrameworkValue, ...]:
    root = module.entry.root
    shape = None if root is None else root.shape
    if shape is None or not results:
        return ()
    if not shape.is_tuple and len(results) == 1:
        return tuple(results)
    parts = shape.tuple_shapes if shape.is_tuple else (shape,)
    before = len(parts) - len(results)
    if not shape.is_tuple or not _match(results, parts, before):
        counts = f"{plural(len(results), 'result')}, but the program has {len(parts)}"
        notes.append(f"{counts}: they cannot be matched")
        return ()
    return tuple(replace(value, index=(before + k,)) for k, value in enumerate(results))


def _match(values: Sequence[FrameworkValue], shapes: Sequence[Shape | None], before: int) -> bool:
    """Return whether the element types of values match, after the first `before` shapes."""
    if before <= 0:
        return before == 0
    return all(
        value.shape is None or shape is None or value.shape.element_type == shape.element_type
        for value, shape in zip(values, shapes[before:], strict=True)
    )


class _Meshes:
    """Converter of jax's meshes, shardings and arrays.

    Device ids in HLO text are positions in the device assignment, which is the order of the devices
    in the first mesh; a mesh of the same devices in another order has a permutation of them.
    """

    def __init__(self) -> None:
        self._places: dict[object, int] = {}
        self._known: dict[int, tuple[object, Mesh]] = {}

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        return tuple(dict.fromkeys(mesh for _, mesh in self._known.values() if mesh.axis_names))

    def value(self, name: str, aval: Any, sharding: Any) -> FrameworkValue:
        """Return an array; its shape is None for extended dtypes of jax, such as PRNG keys."""
        dtype = getattr(aval, "dtype", None)
        element_type = xla_name(str(getattr(dtype, "name", dtype)))
        sizes = getattr(aval, "shape", None)
        shape = None
        if sizes is not None and element_type and all(isinstance(size, int) for size in sizes):
            shape = Shape(element_type=element_type, dimensions=tuple(sizes))
        return FrameworkValue(
            name=name, shape=shape, sharding=self._sharding(sharding, len(sizes or ()))
        )

    def _sharding(self, sharding: Any, rank: int) -> HloSharding | None:
        """Return the HloSharding of a jax sharding; None for kinds without a known counterpart."""
        if sharding is None:
            return None
        try:
            if getattr(sharding, "spec", None) is not None and hasattr(sharding, "mesh"):
                return self._named(sharding)
            convert = getattr(sharding, "_to_xla_hlo_sharding", None)
            return None if convert is None else HloSharding.parse(str(convert(rank)))
        except (HloLensError, AttributeError, NotImplementedError, TypeError, ValueError):
            return None

    def _named(self, sharding: Any) -> HloSharding | None:
        dims = []
        for entry in sharding.spec:
            names = () if entry is None else (entry,) if isinstance(entry, str) else entry
            if not isinstance(names, (tuple, list)):
                return None  # PartitionSpec.UNCONSTRAINED: left to XLA
            dims.append(DimensionSharding(axes=tuple(AxisRef(axis=name) for name in names)))
        unreduced = getattr(sharding.spec, "unreduced", None) or ()
        axes = tuple(AxisRef(axis=name) for name in sorted(unreduced))
        mesh = self._mesh(sharding.mesh)
        named = NamedSharding(mesh=mesh, dim_shardings=tuple(dims), unreduced_axes=axes)
        return HloSharding.parse(str(named))

    def _mesh(self, mesh: Any) -> Mesh:
        if id(mesh) in self._known:
            return self._known[id(mesh)][1]
        made = Mesh.of({str(name): int(size) for name, size in mesh.shape.items()})
        devices = getattr(mesh, "devices", None)
        if devices is not None and hasattr(devices, "flat"):  # an AbstractMesh has none
            listed = list(devices.flat)
            if not self._places:
                self._places = {device: place for place, device in enumerate(listed)}
            ids = tuple(self._places.get(device, -1) for device in listed)
            if ids != tuple(range(len(ids))) and min(ids, default=-1) >= 0:
                order = TileAssignment(dimensions=made.axis_sizes, device_ids=ids)
                made = replace(made, device_assignment=order)
        self._known[id(mesh)] = (mesh, made)  # the mesh is kept, so that its id stays its own
        return made


def _debug_names(executable: Any, name: str) -> Sequence[str | None]:
    info = _private(executable, "_all_args_info", "all_args_info")
    names = getattr(getattr(info, "debug_info", None), name, None)
    return names if isinstance(names, (tuple, list)) else ()


def _private(executable: Any, name: str, compile_argument: str) -> Any:
    """Return an attribute of an executable, or the same compile argument of a lowering."""
    arguments: Mapping[str, Any] = getattr(executable, "compile_args", None) or {}
    return arguments.get(compile_argument, getattr(executable, name, None))


def _compiled_shardings(program: CompiledProgram) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the shardings of arguments and results, flattened; None for unused arguments."""
    stage, executable = program.stage, program.executable
    if stage is None:
        inputs = getattr(executable, "_in_shardings", ())
        count = len(getattr(getattr(executable, "_all_args_info", None), "in_avals", ()))
        kept = getattr(executable, "_kept_var_idx", None)
        return _spread(inputs, kept, count), list(getattr(executable, "_out_shardings", ()))
    listed: list[list[Any]] = []
    for name in ("input_shardings", "output_shardings"):
        try:
            tree = getattr(stage, name)
        except FAILURES:
            listed.append([])
        else:
            listed.append([leaf for _, leaf in _keyed_leaves(tree)])
    inputs, outputs = listed
    results = [sharding for sharding in outputs if sharding is not None]  # None is no result
    leaves = getattr(getattr(stage, "out_tree", None), "num_leaves", None)
    return inputs, results if len(results) == leaves else outputs


def _spread(used: Sequence[Any], kept: Any, count: int) -> list[Any]:
    """Return one item per argument, given items of the used ones; None for the others."""
    if kept is None or len(kept) != len(used):
        return list(used)
    by_number = dict(zip(sorted(kept), used, strict=True))
    return [by_number.get(number) for number in range(max(count, len(used)))]


def _keyed_leaves(tree: Any) -> list[tuple[tuple[Any, ...], Any]]:
    import jax

    leaves = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)[0]
    return [(tuple(path), leaf) for path, leaf in leaves]


def _path_name(path: Sequence[Any], names: Mapping[int, str]) -> str:
    import jax

    if len(path) < 2:
        return str(jax.tree_util.keystr(tuple(path)))
    side, root = path[0].idx, path[1]
    key = getattr(root, "key", getattr(root, "idx", root))
    head = names.get(key, f"args[{key}]") if side == 0 else str(key)
    return head + str(jax.tree_util.keystr(tuple(path[2:])))


def _root_names(paths: Sequence[tuple[Any, ...]], named: Iterable[str | None]) -> dict[int, str]:
    import jax

    roots: dict[int, str] = {}
    for path, name in zip(paths, named, strict=False):
        if name is None or len(path) < 2 or getattr(path[0], "idx", 1) != 0:
            continue
        rest = jax.tree_util.keystr(tuple(path[2:]))
        if name.endswith(rest) and len(name) > len(rest):
            roots.setdefault(path[1].idx, name.removesuffix(rest) if rest else name)
    return roots
