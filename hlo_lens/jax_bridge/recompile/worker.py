"""Worker: compiles one HLO text for a target, without hardware; a script run by any Python.

Usage: ``python worker.py REQUEST.json RESULT.json``. The keys of both are those of `CompileRequest`
and `Compilation` in `process.py`. Nothing of the program runs. Uses names of jaxlib that are not
public and move between versions: each is searched in the places that it has had since 0.4.30.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import re
import sys
import time
from typing import Any

sys.path[:] = [p for p in sys.path if os.path.abspath(p) != os.path.dirname(__file__)]  # noqa: PTH100, PTH120 # before pathlib is imported

_PACKAGES = (
    "jax",
    "jaxlib",
    "libtpu",
    "jax-cuda12-pjrt",
    "jax-cuda13-pjrt",
    "nvidia-cuda-nvcc-cu12",
)
_HOMES = ("jaxlib._hlo", "jaxlib._jax", "jaxlib.xla_extension", "jaxlib.xla_client")
_UNKNOWN_ATTRIBUTE = re.compile(r"unexpected attribute \"?([\w.]+)\"?")
_MOST_ATTRIBUTES = 16
_NEWER_FIELDS = (
    ("mem_clock_ghz", "reserved_shared_memory_per_block", "max_blocks_per_multiprocessor"),
    ("collective_memory_granularity", "device_interconnect_info", "feature_extension"),
    ("scalar_unit_description", "matrix_unit_description", "l1_cache_size_per_sm"),
)
"""Fields of a GPU target configuration that older plugins lack, the newest first."""


class WorkerError(Exception):
    """A step that failed.

    Attributes:
        step: ``import``, ``parse``, ``target``, ``options`` or ``compile``.
    """

    def __init__(self, step: str, error: object) -> None:
        super().__init__(str(error))
        self.step = step


def _find(name: str) -> Any:
    """Return a name of jaxlib from the first module that has it."""
    for home in _HOMES:
        try:
            module = importlib.import_module(home)
        except ImportError:
            continue
        if hasattr(module, name):
            return getattr(module, name)
    raise WorkerError("import", f"this jaxlib has no {name}")


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _without_attribute(text: str, name: str) -> str:
    """Return a text without an attribute of instructions; values may have nested braces."""
    pattern = re.compile(rf", {re.escape(name)}=")
    parts, last = [], 0
    for match in pattern.finditer(text):
        if match.start() < last:
            continue
        end, depth = match.end(), 0
        while end < len(text) and text[end] != "\n":
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth < 0 or (depth == 0 and text[end] == ","):
                break
            end += 1
        parts.append(text[last : match.start()])
        last = end
    return "".join([*parts, text[last:]])


_FRAMES = re.compile(r"\n+FileNames\n.*?\n+(?=%|ENTRY|[A-Za-z_][\w.-]* [({])", re.DOTALL)


def _without_frames(text: str) -> str:
    """Return a text without the tables of stack frames, which versions before 0.8 do not read."""
    return re.sub(r" ?stack_frame_id=\d+", "", _FRAMES.sub("\n\n", text, count=1))


def _parsed(text: str) -> tuple[Any, list[str]]:
    """Return the module of a text, and the attributes left out that this parser does not know."""
    parse = _find("hlo_module_from_text")
    dropped: list[str] = []
    while True:
        try:
            return parse(text), dropped
        except Exception as error:
            if "\nFileNames\n" in text:
                text = _without_frames(text)
                continue
            found = _UNKNOWN_ATTRIBUTE.search(str(error))
            if found is None or found[1] in dropped or len(dropped) >= _MOST_ATTRIBUTES:
                raise WorkerError("parse", error) from error
            dropped.append(found[1])
            text = _without_attribute(text, found[1])


def _mark_donors(module: Any, numbers: list[int]) -> None:
    """Mark arguments of ``main`` as jax lowers those that XLA may use for any result.

    The translation to MLIR leaves out ``buffer_donor``.
    """
    if not numbers:
        return
    from jaxlib.mlir import ir

    mark = {"jax.buffer_donor": ir.BoolAttr.get(True)}
    for function in module.body.operations:
        if ir.StringAttr(function.attributes["sym_name"]).value != "main":
            continue
        count = len(function.regions[0].blocks[0].arguments)
        arguments = [ir.DictAttr.get({}) for _ in range(count)]
        if "arg_attrs" in function.attributes:
            listed = ir.ArrayAttr(function.attributes["arg_attrs"])
            arguments = [ir.DictAttr(one) for one in listed]
        for number in numbers:
            known = {entry.name: entry.attr for entry in arguments[number]}
            arguments[number] = ir.DictAttr.get(known | mark)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(arguments)


def _mlir_module(request: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return the program as an MLIR module of jax, and the attributes left out."""
    if request["proto"] is not None:
        dropped: list[str] = []
        with open(request["proto"], "rb") as opened:  # noqa: PTH123 # see above
            serialized = opened.read()
    else:
        with open(request["text"], encoding="utf-8") as opened:  # noqa: PTH123 # see above
            module, dropped = _parsed(opened.read())
        serialized = module.as_serialized_hlo_module_proto()
    try:
        made = _find("mlir").xla_computation_to_mlir_module(_find("XlaComputation")(serialized))
        if not isinstance(made, (str, bytes)):
            with made.context:
                _mark_donors(made, request["donors"])
            return made, dropped
        from jax._src.interpreters import mlir
        from jaxlib.mlir import ir

        if isinstance(made, str):
            made = _with_chlo(made)
        with mlir.make_ir_context():
            parsed = ir.Module.parse(made)
            _mark_donors(parsed, request["donors"])
            with contextlib.suppress(AttributeError, NotImplementedError):  # of older bindings
                _join_broadcasts(parsed)
            for kind in ("arg", "res"):
                name = {"arg": "host_parameters", "res": "host_results"}[kind]
                _set_host_memory(parsed, kind, request[name])
            return parsed, dropped
    except WorkerError:
        raise
    except Exception as error:
        raise WorkerError("parse", error) from error


_RAGGED = re.compile(r'"mhlo\.ragged_dot".*')
_DOT = re.compile(r"dot_dimension_numbers = #mhlo\.dot<([^<>]*)>")


def _with_chlo(text: str) -> str:
    """Return MLIR with its ragged dots in the dialect that jax gives to compilers."""

    def renamed(match: re.Match[str]) -> str:
        return _DOT.sub(r"\1", match[0]).replace("mhlo", "chlo")

    return _RAGGED.sub(renamed, text)


def _set_host_memory(module: Any, kind: str, places: list[int]) -> None:
    """Give arguments or results the host memory that the layouts of the text have."""
    from jaxlib.mlir import ir

    if not places:
        return
    operations = [one.operation for one in module.body.operations]
    function = next(o for o in operations if o.attributes["sym_name"].value == "main")
    types = function.attributes["function_type"].value
    count = len(types.inputs if kind == "arg" else types.results)
    name = f"{kind}_attrs"
    known = list(function.attributes[name]) if name in function.attributes else [{}] * count
    made = [{one.name: one.attr for one in old} for old in known]
    for place in places:
        made[place]["mhlo.memory_kind"] = ir.StringAttr.get("pinned_host")
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(one) for one in made])


def _join_broadcasts(module: Any) -> None:
    """Make one operation of each three that XLA wrote for a broadcast of dimensions of size 1.

    XLA's HLO of ``broadcast_in_dim`` from f32[8,1] to f32[8,64] is a broadcast to f32[8,1], a
    reshape to f32[8] and a broadcast; read again as three, the first is folded away, and the
    program is no longer the one that was compiled. Source: XlaBuilder::BroadcastInDim.
    """
    for operation in list(_broadcasts(module.operation)):
        reshape = _only_producer(operation, "stablehlo.reshape")
        first = None if reshape is None else _only_producer(reshape, "stablehlo.broadcast_in_dim")
        if reshape is None or first is None:
            continue
        kept, size = list(_dimensions(first)), list(first.results[0].type.shape)
        outer = list(operation.results[0].type.shape)
        shape = list(first.operands[0].type.shape)
        if len(size) != len(outer):
            continue
        stripped = [k for k in range(len(size)) if size[k] == 1 != outer[k]]
        left = [k for k in range(len(size)) if k not in stripped]
        is_one = (
            [size[k] for k in kept] == shape
            and list(_dimensions(operation)) == left
            and list(reshape.results[0].type.shape) == [size[k] for k in left]
        )
        if is_one:
            _replace(operation, first, (operation, reshape, first))


def _broadcasts(operation: Any) -> Any:
    """Yield the broadcasts in the regions of an operation, users after what they use."""
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                if inner.operation.name == "stablehlo.broadcast_in_dim":
                    yield inner.operation
                yield from _broadcasts(inner.operation)


def _dimensions(operation: Any) -> Any:
    return operation.attributes["broadcast_dimensions"]


def _only_producer(operation: Any, name: str) -> Any:
    """Return the operation that makes an operand for this operation only; None for others."""
    value = operation.operands[0]
    producer = getattr(value.owner, "operation", value.owner)
    if getattr(producer, "name", "") != name or len(list(producer.results[0].uses)) != 1:
        return None
    return producer


def _replace(operation: Any, first: Any, gone: tuple[Any, ...]) -> None:
    """Put a broadcast of the first operand in place of an operation; erase the others."""
    from jaxlib.mlir import ir

    made = ir.Operation.create(
        operation.name,
        results=[operation.results[0].type],
        operands=[first.operands[0]],
        attributes={"broadcast_dimensions": first.attributes["broadcast_dimensions"]},
        loc=operation.location,
        ip=ir.InsertionPoint(operation),
    )
    operation.results[0].replace_all_uses_with(made.results[0])
    for one in gone:
        one.erase()


def _devices(request: dict[str, Any]) -> list[Any]:
    """Return the devices of the target; none of them need exist."""
    import jax

    if request["backend"] == "cpu":
        return list(jax.devices("cpu"))
    from jax.experimental import topologies

    options = dict(request["topology_options"])
    if request["backend"] == "tpu":
        options = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
        found = topologies.get_topology_desc(
            platform="tpu", topology_name=request["topology"], **options
        )
        return list(found.devices)
    config = request["gpu_config"]
    for fields in ((), *_NEWER_FIELDS):
        for field in fields:
            config = _without_field(config, field)
        try:
            found = topologies.get_topology_desc(
                platform="cuda",
                topology_name="",
                target_config=config,
                topology=request["topology"],
            )
        except Exception as error:
            if "GpuTargetConfig" not in str(error) or fields is _NEWER_FIELDS[-1]:
                raise
        else:
            return list(found.devices)
    return []


def _without_field(text: str, name: str) -> str:
    """Return a text proto without a field, whether a value or a message of up to three levels."""
    inner = r"\{[^{}]*\}"
    for _ in range(3):
        inner = rf"\{{(?:[^{{}}]|{inner})*\}}"
    return re.sub(rf"(?m)^\s*{name}(?::[^\n]*|\s*{inner})\n?", "", text)


def _flag(value: str) -> bool | int | str:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if re.fullmatch(r"-?\d+", value) else value


def _options(request: dict[str, Any], ids: list[list[int]]) -> Any:
    """Return the compile options that jax itself uses, with those of a request."""
    import numpy

    assignment = numpy.array(ids)
    flags = {name: _flag(value) for name, value in request["flags"].items()}
    sizes = {"num_replicas": len(ids), "num_partitions": len(ids[0])}
    try:
        from jax._src.compiler import get_compile_options

        options = get_compile_options(
            **sizes, device_assignment=assignment, env_options_overrides=flags
        )
    except (ImportError, TypeError):  # a version with other arguments
        options = _find("CompileOptions")()
        options.num_replicas, options.num_partitions = sizes.values()
        options.device_assignment = _find("DeviceAssignment").create(assignment)
        options.env_option_overrides = list(flags.items())
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = sizes.values()
    build.device_assignment = options.device_assignment
    build.use_spmd_partitioning = request["uses_spmd"]
    if hasattr(build, "use_shardy_partitioner"):
        build.use_shardy_partitioner = request["uses_shardy"]
    for key in ("parameters", "output"):
        values = request[f"propagates_to_{key}"]
        if values is not None:
            setattr(build, f"allow_spmd_sharding_propagation_to_{key}", values)
    return options


def _assigned(request: dict[str, Any], devices: list[Any]) -> list[list[int]]:
    """Return the device ids by replica and partition."""
    replicas, partitions = request["replicas"], request["partitions"]
    known = sorted(device.id for device in devices)
    given: list[list[int]] | None = request["assignment"]
    if given is not None and {i for row in given for i in row} <= set(known):
        return given
    if replicas * partitions > len(known):
        raise WorkerError(
            "target",
            f"it has {len(known)} devices, the program needs {replicas * partitions}",
        )
    return [known[k * partitions : (k + 1) * partitions] for k in range(replicas)]


def _compile(client: Any, module: Any, devices: list[Any], options: Any) -> Any:
    """Return the executable, by whichever method this version has."""
    compile_ = getattr(client, "compile_and_load", None)
    if type(client).__name__ == "CompileOnlyPyClient" or compile_ is None:
        compile_ = client.compile
    from jax._src.interpreters import mlir

    listed = _find("DeviceList")(tuple(devices)) if _has("DeviceList") else None
    bytecode = mlir.module_to_bytecode(module)
    refused: object = None
    for program in (module, bytecode):
        for given in ((listed, options), (options,)):
            try:
                return compile_(program, *given)
            except TypeError as error:
                refused = error
    raise WorkerError("compile", refused)


def _has(name: str) -> bool:
    try:
        _find(name)
    except WorkerError:
        return False
    return True


def _memory(executable: Any) -> dict[str, int]:
    try:
        stats = executable.get_compiled_memory_stats()
    except Exception:  # a version or backend that has none
        return {}
    names = (name for name in dir(stats) if name.endswith("_in_bytes"))
    return {name: value for name in names if isinstance(value := getattr(stats, name), int)}


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    began = time.monotonic()
    try:
        importlib.import_module("jax")
    except Exception as error:
        raise WorkerError("import", error) from error
    module, dropped = _mlir_module(request)
    try:
        devices = _devices(request)
        ids = _assigned(request, devices)
    except WorkerError:
        raise
    except Exception as error:
        raise WorkerError("target", error) from error
    by_id = {device.id: device for device in devices}
    used = [by_id[i] for row in ids for i in row]
    try:
        options = _options(request, ids)
    except Exception as error:
        raise WorkerError("options", error) from error
    try:
        executable = _compile(used[0].client, module, used, options)
    except Exception as error:
        raise WorkerError("compile", error) from error
    return {
        "device_kind": used[0].device_kind,
        "devices": len(devices),
        "memory_analysis": _memory(executable),
        "dropped_attributes": dropped,
        "compile_seconds": time.monotonic() - began,
    }


def main() -> None:
    """Compile what the request names and write the result."""
    with open(sys.argv[1], encoding="utf-8") as opened:  # noqa: PTH123 # see above
        request = json.load(opened)
    result: dict[str, Any] = {"versions": _versions()}
    try:
        result.update(run(request))
    except WorkerError as error:
        result.update(step=error.step, error=str(error))
    with open(sys.argv[2], "w", encoding="utf-8") as opened:  # noqa: PTH123 # see above
        json.dump(result, opened)


if __name__ == "__main__":
    main()
