"""Compiled and lowered programs of JAX as modules: texts, buffers, names and shardings."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from hlo_lens.hlo.framework import Framework, FrameworkValue
from hlo_lens.load.module import BufferTexts, Lazy, ModuleDump, already_read
from hlo_lens.load.readers import later_buffers
from hlo_lens.shapes.mesh import AxisRef, Mesh
from hlo_lens.shapes.named_sharding import DimensionSharding, NamedSharding
from hlo_lens.shapes.primitive_type import xla_name
from hlo_lens.shapes.shape import Shape
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.shapes.tile_assignment import TileAssignment
from hlo_lens.text.dump_files import AFTER, BEFORE
from hlo_lens.text.dump_kinds import TEXT_FLAGS, DumpKind
from hlo_lens.text.errors import (
    DumpSyntaxError,
    HloLensError,
    MissingDumpError,
    MissingPackageError,
    UsageError,
)
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule


_BYTES = re.compile(r"(.+)_size_in_bytes|.+_in_bytes|.+_bytes|.+_allocations")

FAILURES = (RuntimeError, NotImplementedError, ValueError, TypeError, AttributeError)
"""Errors of jax for features that a version or backend lacks; XLA's own is the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """A compiled program: jax's objects.

    Attributes:
        executable: The ``MeshExecutable`` of a ``Compiled``; None where there is none.
        stage: The ``Compiled`` itself; None where jit compiled without ``lower``.
        before: Returns its text from before optimizations; None where there is none.
        donated: Whether each used argument is donated; None where `stage` has that.
    """

    executable: Any
    stage: Any
    before: Callable[[], str] | None
    donated: Sequence[bool] | None = None

    @property
    def source(self) -> Any:
        """The object whose ``as_text`` and ``memory_analysis`` are called; public if possible."""
        return self.executable if self.stage is None else self.stage


def _parsed(text: str, path: str) -> list[HloModule]:
    from hlo_lens.hlo.module_reader import parse_hlo_modules
    from hlo_lens.text.source import clean

    return parse_hlo_modules(clean(text, path))


def compiled_module(program: CompiledProgram) -> tuple[HloModule, int]:
    """Return the first module of an executable and the number of further ones."""
    try:
        text = program.source.as_text()
    except FAILURES as error:
        raise MissingDumpError(
            f"this executable does not return its text ({_first_line(error)}); compile with "
            f'XLA_FLAGS="{TEXT_FLAGS}" and read the folder'
        ) from error
    if not text:
        raise MissingDumpError("this executable has no text: the backend returns none")
    modules = _parsed(text, "<compiled>")
    return modules[0], len(modules) - 1


def lowered_text(lowered: Any) -> str:
    """Return the HLO text of a lowered program, public or not; raises MissingDumpError."""
    try:
        if hasattr(lowered, "hlo"):
            return str(lowered.hlo().as_hlo_text())
        return str(lowered.as_text(dialect="hlo"))
    except FAILURES as error:
        raise MissingDumpError(
            f"jax cannot return the HLO text of this program ({_first_line(error)})"
        ) from error


def lowered_module(lowered: Any) -> HloModule:
    """Return a lowered program; raises MissingDumpError."""
    return _parsed(lowered_text(lowered), "<lowered>")[0]


def module_before(read: Callable[[], str], facts: Framework) -> HloModule:
    """Return a program from before optimizations; an empty one where jax has no text."""
    from hlo_lens.hlo.module_reader import unread_module

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
"""Attributes of CompiledMemoryStats, by version, that hold a buffer assignment, and their type.

On TPU they are empty.
"""


def read_buffers(program: CompiledProgram) -> BufferTexts:
    """Return the buffer assignment of an executable; none without protos or protobuf."""
    from hlo_lens.load.protos import compiled_buffers

    try:
        stats = program.source.memory_analysis()
        found = [(getattr(stats, name, None), kind) for name, kind in _ASSIGNMENTS]
        data, kind = next((pair for pair in found if pair[0]), (b"", ""))
        if not data:
            return BufferTexts()
        executable = getattr(program.executable, "xla_executable", None)
        if executable is None:
            executable = program.source.runtime_executable()
        (proto, *_) = executable.hlo_modules()
        return compiled_buffers(kind, data, proto.as_serialized_hlo_module_proto())
    except (*FAILURES, MissingPackageError, DumpSyntaxError):
        return BufferTexts()


def memory_of(source: Any) -> dict[str, int]:
    """Return the byte figures of ``memory_analysis()``; empty where the backend has none."""
    try:
        stats = source.memory_analysis()
    except FAILURES:
        return {}
    figures = ((name, getattr(stats, name, None)) for name in dir(stats) if _BYTES.fullmatch(name))
    return {name: value for name, value in figures if isinstance(value, int)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One array of the arguments or of the result, with its jax objects.

    Attributes:
        name: Its path.
        aval: Object with ``shape`` and ``dtype``; None where there is none.
        sharding: A ``jax.sharding.Sharding``, or None.
        is_donated: None for results.
        is_used: Whether the program has a parameter for it.
    """

    name: str
    aval: Any
    sharding: Any
    is_donated: bool | None = None
    is_used: bool = True


class Meshes:
    """Converter of jax's meshes and shardings.

    Device ids in HLO text are positions in the device assignment, which is the order of the devices
    in the first mesh; a mesh of the same devices in another order has a permutation of them.
    """

    def __init__(self) -> None:
        self._places: dict[object, int] = {}
        self._known: dict[int, tuple[object, Mesh]] = {}

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """All meshes with axes, in order of appearance, without repetition."""
        found = dict.fromkeys(mesh for _, mesh in self._known.values() if mesh.axis_names)
        return tuple(found)

    def sharding_of(self, sharding: Any, rank: int) -> HloSharding | None:
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
        partial = getattr(sharding.spec, "unreduced", None) or ()
        axes = tuple(AxisRef(axis=name) for name in sorted(partial))
        mesh = self._mesh(sharding.mesh)
        named = NamedSharding(mesh=mesh, dim_shardings=tuple(dims), unreduced_axes=axes)
        return HloSharding.parse(str(named))

    def _mesh(self, mesh: Any) -> Mesh:
        known = self._known.get(id(mesh))
        if known is None:
            known = self._known[id(mesh)] = (mesh, self._made(mesh))
        return known[1]

    def _made(self, mesh: Any) -> Mesh:
        made = Mesh.of({str(name): int(size) for name, size in mesh.shape.items()})
        devices = getattr(mesh, "devices", None)
        if devices is None or not hasattr(devices, "flat"):  # an AbstractMesh has none
            return made
        listed = list(devices.flat)
        if not self._places:
            self._places = {device: place for place, device in enumerate(listed)}
        ids = tuple(self._places.get(device, -1) for device in listed)
        if ids == tuple(range(len(ids))) or min(ids, default=-1) < 0:
            return made
        return replace(
            made,
            device_assignment=TileAssignment(dimensions=made.axis_sizes, device_ids=ids),
        )


def _element_type(leaf: Leaf) -> str | None:
    """Return XLA's name of an array's type; None for extended dtypes of jax, such as PRNG keys."""
    dtype = getattr(leaf.aval, "dtype", None)
    return xla_name(str(getattr(dtype, "name", dtype)))


def argument_values(
    leaves: Sequence[Leaf], module: HloModule, meshes: Meshes
) -> tuple[tuple[FrameworkValue, ...], tuple[str, ...]]:
    """Return the arguments joined to their parameters, and notes on those that were not joined.

    jit drops arguments that the program does not use and numbers the others consecutively. It may
    put constants and tokens before them, or pass all as one tuple.
    """
    used = [leaf for leaf in leaves if leaf.is_used]
    places = _places(used, module)
    notes = []
    if places is None and used:
        notes.append(
            f"{plural(len(used), 'used argument')}, but the program has "
            f"{plural(len(module.entry.parameters), 'parameter')}: they cannot be matched"
        )
    known = iter(places or ())
    values = []
    for leaf in leaves:
        value = _value(leaf, meshes)
        place = next(known, None) if leaf.is_used else None
        if place is not None:
            value = replace(value, number=place[0], index=place[1])
        values.append(value)
    return tuple(values), tuple(notes)


def _places(used: Sequence[Leaf], module: HloModule) -> list[tuple[int, tuple[int, ...]]] | None:
    """Return parameter number and index of each used argument; None if they do not match."""
    parameters = module.entry.parameters
    if len(parameters) == 1 and len(used) != 1:
        shape = parameters[0].shape
        if shape is not None and shape.is_tuple and len(shape.tuple_shapes) == len(used):
            return [(0, (k,)) for k in range(len(used))]
    before = len(parameters) - len(used)
    types = [None if p.shape is None else p.shape.element_type for p in parameters]
    if not _follow(used, types, before):
        return None
    return [(before + k, ()) for k in range(len(used))]


def output_values(
    leaves: Sequence[Leaf], module: HloModule, meshes: Meshes
) -> tuple[tuple[FrameworkValue, ...], tuple[str, ...]]:
    """Return the results with their index in the root's shape, and notes on mismatches."""
    values = tuple(_value(leaf, meshes) for leaf in leaves)
    root = module.entry.root
    shape = None if root is None else root.shape
    if shape is None or not values:
        return (), ()
    if not shape.is_tuple and len(values) == 1:
        return values, ()
    parts = shape.tuple_shapes if shape.is_tuple else (shape,)
    before = len(parts) - len(values)
    if not shape.is_tuple or not _follow(leaves, [part.element_type for part in parts], before):
        counts = f"{plural(len(values), 'result')}, but the program has {len(parts)}"
        return (), (f"{counts}: they cannot be matched",)
    return tuple(replace(value, index=(before + k,)) for k, value in enumerate(values)), ()


def _follow(leaves: Sequence[Leaf], types: Sequence[str | None], before: int) -> bool:
    """Return whether the element types of arrays match, after the first `before` types."""
    if before < 0:
        return False
    pairs = zip(map(_element_type, leaves), types[before:], strict=True)
    return not before or all(None in pair or pair[0] == pair[1] for pair in pairs)


def _value(leaf: Leaf, meshes: Meshes) -> FrameworkValue:
    sizes = getattr(leaf.aval, "shape", None)
    kind = _element_type(leaf)
    shape = None
    if sizes is not None and kind is not None and all(isinstance(size, int) for size in sizes):
        shape = Shape(element_type=kind, dimensions=tuple(sizes))
    return FrameworkValue(
        name=leaf.name,
        shape=shape,
        sharding=meshes.sharding_of(leaf.sharding, len(sizes or ())),
        is_donated=leaf.is_donated,
        is_used=leaf.is_used,
    )


def keyed_leaves(tree: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Return path and leaf for each leaf of a pytree; None is a leaf."""
    import jax

    found = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda leaf: leaf is None)[0]
    return [(tuple(path), leaf) for path, leaf in found]


def path_name(path: Sequence[Any], names: Mapping[int, str]) -> str:
    """Return jax's name of a leaf of ``(args, kwargs)``: ``params['w']``, ``scale``."""
    import jax

    if len(path) < 2:
        return str(jax.tree_util.keystr(tuple(path)))
    side, root = path[0].idx, path[1]
    key = getattr(root, "key", getattr(root, "idx", root))
    head = names.get(key, f"args[{key}]") if side == 0 else str(key)
    return head + str(jax.tree_util.keystr(tuple(path[2:])))


def root_names(paths: Sequence[tuple[Any, ...]], named: Iterable[str | None]) -> dict[int, str]:
    """Return the names of positional arguments by number, taken from the names of all leaves."""
    import jax

    found: dict[int, str] = {}
    for path, name in zip(paths, named, strict=False):
        if name is None or len(path) < 2 or getattr(path[0], "idx", 1) != 0:
            continue
        rest = jax.tree_util.keystr(tuple(path[2:]))
        if name.endswith(rest) and len(name) > len(rest):
            found.setdefault(path[1].idx, name.removesuffix(rest) if rest else name)
    return found


_BACKENDS = {"cuda": "gpu", "rocm": "gpu"}


def facts_of(
    program: CompiledProgram, module: HloModule, arguments: Sequence[Any], results: Sequence[Any]
) -> Framework:
    """Return the facts that jax has about a program.

    Args:
        program: The program.
        module: Its text.
        arguments: Sharding of each argument, in order; None for unused arguments.
        results: Sharding of each result, in order.
    """
    import jax

    meshes = Meshes()
    leaves, notes = _argument_leaves(program, module, arguments)
    values, more = argument_values(leaves, module, meshes)
    outputs, rest = output_values(_result_leaves(program, results), module, meshes)
    return Framework(
        name=f"jax {jax.__version__}",
        backend=_backend((*arguments, *results)),
        arguments=values,
        outputs=outputs,
        meshes=meshes.meshes,
        notes=(*notes, *more, *rest),
    )


def _backend(shardings: Sequence[Any]) -> str | None:
    for sharding in shardings:
        devices = getattr(sharding, "device_set", None)
        with suppress(*FAILURES):
            for device in devices or ():
                platform = str(device.platform)
                return _BACKENDS.get(platform, platform)
    return None


def _argument_leaves(
    program: CompiledProgram, module: HloModule, shardings: Sequence[Any]
) -> tuple[list[Leaf], tuple[str, ...]]:
    """Return the arguments of a program, and notes on facts that this version of jax lacks."""
    names = _debug(program.executable, "arg_names")
    if program.stage is None:
        return _private_leaves(program, shardings, names)
    tree = keyed_leaves(program.stage.args_info)
    there = [info is not None for _, info in tree]  # None is no argument
    if len(tree) == len(shardings):  # of a tree too; those of a lowered program are flat
        shardings = list(compress(shardings, there))
    tree = list(compress(tree, there))
    if len(tree) != len(shardings):
        return [], ("this version of jax does not report which arguments the program uses",)
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
    program: CompiledProgram, shardings: Sequence[Any], names: Sequence[str | None]
) -> tuple[list[Leaf], tuple[str, ...]]:
    """Return the flattened arguments of a program that jit compiled without ``lower``."""
    info = getattr(program.executable, "_all_args_info", None)
    avals = list(getattr(info, "in_avals", ()))
    if not avals or len(avals) != len(shardings):
        return [], (
            "this version of jax does not report the arguments of a program that jit compiled",
        )
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
    """Return the parameter name of each argument; None for arguments without a parameter."""
    parameters = module.entry.parameters
    if len(parameters) != sum(used):
        return (None,) * len(used)
    metadata = iter([parameter.metadata for parameter in parameters])
    found = [next(metadata) if is_used else None for is_used in used]
    return tuple(None if data is None else data.op_name for data in found)


def _result_leaves(program: CompiledProgram, shardings: Sequence[Any]) -> list[Leaf]:
    """Return the results of a program, numbered where this version has no names."""
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
    """Return the path of a result with the prefix ``result``, as jax 0.5 and later write it."""
    return path if path and path.startswith("result") else f"result{path or ''}"


def _debug(executable: Any, name: str) -> tuple[str | None, ...]:
    """Return names from the debug information of an executable; empty where there are none."""
    info = _private(executable, "_all_args_info", "all_args_info")
    found = getattr(getattr(info, "debug_info", None), name, None)
    return tuple(found) if isinstance(found, (tuple, list)) else ()


def _private(executable: Any, name: str, compile_argument: str) -> Any:
    """Return an attribute of an executable, or the same compile argument of a lowering."""
    arguments: Mapping[str, Any] = getattr(executable, "compile_args", None) or {}
    return arguments.get(compile_argument, getattr(executable, name, None))


def compiled_shardings(program: CompiledProgram) -> tuple[list[Any], list[Any]]:
    """Return the shardings of arguments and results, flattened; None for unused arguments."""
    if program.stage is not None:
        outputs = list(_leaves_of(program.stage, "output_shardings"))
        there = [sharding for sharding in outputs if sharding is not None]
        count = getattr(getattr(program.stage, "out_tree", None), "num_leaves", None)
        return (
            list(_leaves_of(program.stage, "input_shardings")),
            there if len(there) == count else outputs,  # None is no result
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
    """Return one item per argument, given items of the used ones; None for the others."""
    if kept is None or len(kept) != len(used):
        return list(used)
    by_number = dict(zip(sorted(kept), used, strict=True))
    return [by_number.get(number) for number in range(max(count, len(used)))]


def lowered_shardings(lowering: Any) -> tuple[list[Any], list[Any]]:
    """Return the shardings that a lowered program requests; None where XLA chooses."""
    arguments: Mapping[str, Any] = getattr(lowering, "compile_args", None) or {}
    inputs, kept = list(arguments.get("in_shardings", ())), arguments.get("kept_var_idx")
    count = len(getattr(arguments.get("all_args_info"), "in_avals", ()))
    return _spread(inputs, kept, count), list(arguments.get("out_shardings", ()))


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
            f"expected a compiled program, found {_kind(compiled)}; "
            "write hlo_lens.from_compiled(jax.jit(f).lower(*args).compile())"
        )
    before = None if lowered is None else partial(lowered_text, lowered)
    executable = getattr(compiled, "_executable", compiled)
    return dump_of(CompiledProgram(executable=executable, stage=compiled, before=before))


def from_lowered(lowered: Any) -> ModuleDump:
    """Return the program of ``jax.jit(f).lower(...)``, before optimizations, as a dump.

    Nothing is compiled: shapes are global, and memory and most collectives are not known yet.

    Raises:
        UsageError: If the argument has another type.
        MissingDumpError: If jax cannot give its HLO text.
    """
    if not hasattr(lowered, "compile") or not hasattr(lowered, "compiler_ir"):
        raise UsageError(
            f"expected a lowered program, found {_kind(lowered)}; "
            "write hlo_lens.from_lowered(jax.jit(f).lower(*args))"
        )
    module = lowered_module(lowered)
    lowering = getattr(lowered, "_lowering", None)
    program = CompiledProgram(executable=lowering, stage=lowered, before=None)
    facts = facts_of(program, module, *lowered_shardings(lowering))
    module.framework = facts
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        stage=BEFORE,
        module_text=already_read(module),
        framework=facts,
    )


def dump_of_compile(lowering: Any, executable: Any) -> ModuleDump:
    """Return the program of one compile inside jax as a dump of one module.

    Args:
        lowering: The object that was compiled: a ``MeshComputation`` or a ``jax.stages.Lowered``.
        executable: The object that it was compiled to.

    Raises:
        MissingDumpError: If the backend does not give the text of its programs.
    """
    is_stage = not hasattr(executable, "xla_executable") and hasattr(executable, "args_info")
    donated = getattr(lowering, "_donated_invars", None)
    return dump_of(
        CompiledProgram(
            executable=getattr(executable, "_executable", executable) if is_stage else executable,
            stage=executable if is_stage else None,
            before=partial(lowered_text, lowering),
            donated=tuple(donated) if isinstance(donated, (tuple, list)) else None,
        )
    )


def dump_of(program: CompiledProgram) -> ModuleDump:
    """Return a compiled program as a dump of one module."""
    module, others = compiled_module(program)
    facts = facts_of(program, module, *compiled_shardings(program))
    notes = list(facts.notes)
    if others:
        notes.append(f"the executable has {others} more modules, which are not read")
    facts = replace(facts, memory=memory_of(program.source), notes=tuple(notes))
    module.framework = facts
    prefix = {"cpu": "cpu_", "gpu": "gpu_"}.get(facts.backend or "", "")
    before = None if program.before is None else Lazy(partial(module_before, program.before, facts))
    return ModuleDump(
        name=module.name,
        kind=DumpKind.HLO,
        stage=f"{prefix}{AFTER}",
        module_text=already_read(module),
        before_text=before,
        buffers=later_buffers(partial(read_buffers, program)),
        parts={"buffer-assignment": "the executable's buffer assignment"},
        framework=facts,
    )


def _kind(found: object) -> str:
    return f"{type(found).__module__}.{type(found).__name__}"
