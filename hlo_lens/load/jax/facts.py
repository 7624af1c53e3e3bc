"""Facts that jax has about a program: names and shardings of arguments and results, meshes."""

from __future__ import annotations

from contextlib import suppress
from itertools import compress
from typing import TYPE_CHECKING, Any

from hlo_lens.hlo.framework import Framework
from hlo_lens.load.jax.texts import FAILURES, CompiledProgram
from hlo_lens.load.jax.values import (
    Leaf,
    Meshes,
    argument_values,
    keyed_leaves,
    output_values,
    path_name,
    root_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule

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
