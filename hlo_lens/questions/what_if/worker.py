"""Script that compiles one HLO text for a target, run by any Python: ``worker.py REQUEST RESULT``.

Both are JSON files: the keys of a request are those of `request_of`, those of a result are
fields of `Compilation`. Without arguments it prints what there is to compile with. It imports
nothing of hlo_lens and reads any version of jax since 0.4.30, with names of jaxlib that are not
public and move between versions. Nothing of the program runs, and no device of the target need
exist.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # this folder: files in it have names of modules that jax may import

import contextlib
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PACKAGES = (
    "jax",
    "jaxlib",
    "libtpu",
    "jax-cuda12-pjrt",
    "jax-cuda13-pjrt",
    "nvidia-cuda-nvcc-cu12",
)
_HOMES = ("jaxlib._hlo", "jaxlib._jax", "jaxlib.xla_extension", "jaxlib.xla_client")
"""Modules of jaxlib that had the names used here, the newest first."""


class WorkerError(Exception):
    """A step that failed: ``import``, ``parse``, ``target``, ``options`` or ``compile``."""

    def __init__(self, step: str, error: object) -> None:
        super().__init__(str(error))
        self.step = step


@contextlib.contextmanager
def _step(name: str) -> Iterator[None]:
    """Name the step in which an error is raised; any version may raise any."""
    try:
        yield
    except WorkerError:
        raise
    except Exception as error:
        raise WorkerError(name, error) from error


def _find(name: str) -> Any:
    for home in _HOMES:
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(home), name)
    raise WorkerError("import", f"this jaxlib has no {name}")


_UNKNOWN_ATTRIBUTE = re.compile(r"unexpected attribute \"?([\w.]+)\"?")
_MOST_ATTRIBUTES = 16
_FRAMES = re.compile(r"\n+FileNames\n.*?\n+(?=%|ENTRY|[A-Za-z_][\w.-]* [({])", re.DOTALL)


_BRACES = r"\{[^{}]*\}"
for _ in range(3):  # nested up to four levels
    _BRACES = rf"\{{(?:[^{{}}\n]|{_BRACES})*\}}"


def without_attribute(text: str, name: str) -> str:
    """Return a text without an attribute of instructions; values may have nested braces."""
    return re.sub(rf", {re.escape(name)}=(?:[^,{{}}\n]|{_BRACES})*", "", text)


def without_frames(text: str) -> str:
    """Return a text without the tables of stack frames, which versions before 0.8 do not read."""
    return re.sub(r" ?stack_frame_id=\d+", "", _FRAMES.sub("\n\n", text, count=1))


def _parsed(text: str) -> tuple[Any, list[str]]:
    parse = _find("hlo_module_from_text")
    dropped: list[str] = []
    while True:
        try:
            return parse(text), dropped
        except Exception as error:
            if "\nFileNames\n" in text:
                text = without_frames(text)
                continue
            unknown = _UNKNOWN_ATTRIBUTE.search(str(error))
            if unknown is None or unknown[1] in dropped or len(dropped) >= _MOST_ATTRIBUTES:
                raise
            dropped.append(unknown[1])
            text = without_attribute(text, unknown[1])


def _is_old() -> bool:
    """Whether jaxlib does not read elements of tuples (``%w#1``) and shardings by mesh axes."""
    return tuple(map(int, _versions()["jaxlib"].split(".")[:2])) < (0, 12)


def _mlir_module(request: dict[str, Any]) -> tuple[Any, list[str]]:
    if request["older_text"] and _is_old():
        text = request["older_text"]
        request |= {"text": text, "uses_shardy": "xla.sdy" in text}
    parsed, dropped = _parsed(request["text"])
    computation = _find("XlaComputation")(parsed.as_serialized_hlo_module_proto())
    made = _find("mlir").xla_computation_to_mlir_module(computation)
    donor = "jax.buffer_donor"  # as jax lowers what any result may use; the translation drops it
    if not isinstance(made, (str, bytes)):
        with made.context:
            _mark(made, "arg", request["donors"], donor, is_donor=True)
        return made, dropped
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    with mlir.make_ir_context():
        module = ir.Module.parse(with_chlo(made) if isinstance(made, str) else made)
        _mark(module, "arg", request["donors"], donor, is_donor=True)
        with contextlib.suppress(AttributeError, NotImplementedError):  # of older bindings
            _join_broadcasts(module)
        for kind, places in (("arg", "host_parameters"), ("res", "host_results")):
            _mark(module, kind, request[places], "mhlo.memory_kind")
    return module, dropped


_RAGGED = re.compile(r'"mhlo\.ragged_dot".*')
_DOT = re.compile(r"dot_dimension_numbers = #mhlo\.dot<([^<>]*)>")


def with_chlo(text: str) -> str:
    """Return MLIR with its ragged dots in the dialect that jax gives to compilers."""
    return _RAGGED.sub(lambda match: _DOT.sub(r"\1", match[0]).replace("mhlo", "chlo"), text)


def _mark(module: Any, kind: str, places: list[int], name: str, is_donor: bool = False) -> None:
    from jaxlib.mlir import ir

    if not places:
        return
    value = ir.BoolAttr.get(True) if is_donor else ir.StringAttr.get("pinned_host")
    for operation in module.body.operations:
        main = operation.operation
        if ir.StringAttr(main.attributes["sym_name"]).value != "main":
            continue
        shape = main.attributes["function_type"].value
        count = len(shape.inputs if kind == "arg" else shape.results)
        key, marks = f"{kind}_attrs", [ir.DictAttr.get({})] * count
        if key in main.attributes:
            marks = [ir.DictAttr(one) for one in ir.ArrayAttr(main.attributes[key])]
        for place in (one for one in places if one < count):  # old versions keep tuples
            old = {entry.name: entry.attr for entry in marks[place]}
            marks[place] = ir.DictAttr.get({**old, name: value})
        main.attributes[key] = ir.ArrayAttr.get(marks)


def _join_broadcasts(module: Any) -> None:
    """Make one operation of each three that XLA wrote for a broadcast of dimensions of size 1.

    XLA's HLO of ``broadcast_in_dim`` from f32[8,1] to f32[8,64] is a broadcast to f32[8,1], a
    reshape to f32[8] and a broadcast; read again as three, the first is folded away, and the
    program is no longer the one that was compiled. Source: XlaBuilder::BroadcastInDim.
    """
    from jaxlib.mlir import ir

    def only_producer(operation: Any, name: str) -> Any:
        """Return the operation that makes an operand for this operation only; None for others."""
        owner = None if operation is None else operation.operands[0].owner
        producer: Any = getattr(owner, "operation", owner)
        is_named = getattr(producer, "name", "") == name
        return producer if is_named and len(list(producer.results[0].uses)) == 1 else None

    for last in list(_broadcasts(module.operation)):
        reshape = only_producer(last, "stablehlo.reshape")
        first = only_producer(reshape, "stablehlo.broadcast_in_dim")
        if first is None:
            continue
        kept = first.attributes["broadcast_dimensions"]
        size, outer = list(first.results[0].type.shape), list(last.results[0].type.shape)
        if len(size) != len(outer):
            continue
        rest = [k for k in range(len(size)) if not size[k] == 1 != outer[k]]
        if (
            [size[k] for k in kept] != list(first.operands[0].type.shape)
            or list(last.attributes["broadcast_dimensions"]) != rest
            or list(reshape.results[0].type.shape) != [size[k] for k in rest]
        ):
            continue
        made = ir.Operation.create(
            last.name,
            results=[last.results[0].type],
            operands=[first.operands[0]],
            attributes={"broadcast_dimensions": kept},
            loc=last.location,
            ip=ir.InsertionPoint(last),
        )
        last.results[0].replace_all_uses_with(made.results[0])
        for operation in (last, reshape, first):
            operation.erase()


def _broadcasts(operation: Any) -> Any:
    """Yield the broadcasts in the regions of an operation, users after what they use."""
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                if inner.operation.name == "stablehlo.broadcast_in_dim":
                    yield inner.operation
                yield from _broadcasts(inner.operation)


_NEWER_FIELDS = (
    ("mem_clock_ghz", "reserved_shared_memory_per_block", "max_blocks_per_multiprocessor"),
    ("collective_memory_granularity", "device_interconnect_info", "feature_extension"),
    ("scalar_unit_description", "matrix_unit_description", "l1_cache_size_per_sm"),
    (
        *(f"thread_dim_limit_{axis}" for axis in "xyz"),
        *("device_vendor", "platform_version", "model_str", "device_address_bits"),
        *("pcie_bandwidth", "ecc_enabled", "name", "driver_version", "runtime_version"),
        *("compile_time_toolkit_version", "dnn_version", "cub_version"),
    ),
)
"""Fields of a GPU target configuration that older plugins lack, the newest first."""


def without_field(text: str, name: str) -> str:
    """Return a text proto without a field, whether a value or a message of up to three levels."""
    message = _BRACES.replace(r"\n", "")
    return re.sub(rf"(?m)^\s*{name}(?::[^\n]*|\s*{message})\n?", "", text)


def target_devices(request: dict[str, Any]) -> list[Any]:
    """Return the devices of the target."""
    import jax

    if request["backend"] == "cpu":
        return list(jax.devices("cpu"))
    from jax.experimental import topologies

    name, options = request["topology"], request["topology_options"]
    if request["backend"] == "tpu":
        options = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
        topology = topologies.get_topology_desc(platform="tpu", topology_name=name, **options)
        return list(topology.devices)
    config = request["gpu_config"]
    for fields in ((), *_NEWER_FIELDS):
        for field in fields:
            config = without_field(config, field)
        given = {"target_config": config, "topology": name}
        try:
            topology = topologies.get_topology_desc(platform="cuda", topology_name="", **given)
        except Exception as error:
            if "GpuTargetConfig" not in str(error) or fields is _NEWER_FIELDS[-1]:
                raise
        else:
            return list(topology.devices)
    return []


def _assignment(request: dict[str, Any], devices: list[Any]) -> list[list[int]]:
    replicas, partitions = request["replicas"], request["partitions"]
    ids, given = sorted(device.id for device in devices), request["assignment"]
    if given is not None and {i for row in given for i in row} <= set(ids):
        return list(given)
    if replicas * partitions > len(ids):
        text = f"it has {len(ids)} devices, the program needs {replicas * partitions}"
        raise WorkerError("target", text)
    return [ids[k * partitions : (k + 1) * partitions] for k in range(replicas)]


def flag_value(value: str) -> bool | int | str:
    """Return the value of a flag as jax takes it."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if re.fullmatch(r"-?\d+", value) else value


def _compile_options(request: dict[str, Any], ids: list[list[int]]) -> Any:
    """Return the compile options that jax itself uses, with those of a request."""
    import numpy

    assignment = numpy.array(ids)
    flags = {name: flag_value(value) for name, value in request["flags"].items()}
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
    build.use_spmd_partitioning = request["partitions"] > 1
    if hasattr(build, "use_shardy_partitioner"):
        build.use_shardy_partitioner = request["uses_shardy"]
    for key in ("parameters", "output"):
        if request[f"propagates_to_{key}"] is not None:
            name = f"allow_spmd_sharding_propagation_to_{key}"
            setattr(build, name, request[f"propagates_to_{key}"])
    return options


def _executable(client: Any, module: Any, devices: list[Any], options: Any) -> Any:
    from jax._src.interpreters import mlir

    compile_ = getattr(client, "compile_and_load", None)
    if type(client).__name__ == "CompileOnlyPyClient" or compile_ is None:
        compile_ = client.compile
    listed = None
    with contextlib.suppress(WorkerError):
        listed = _find("DeviceList")(tuple(devices))
    refused: object = None
    programs, givens = (module, mlir.module_to_bytecode(module)), ((listed, options), (options,))
    for program, given in itertools.product(programs, givens):
        try:
            return compile_(program, *given)
        except TypeError as error:
            refused = error
    raise WorkerError("compile", refused)


def _memory(executable: Any) -> dict[str, int]:
    """Return the byte figures of an executable; none for a version or backend without them."""
    stats: Any = None
    with contextlib.suppress(Exception):
        stats = executable.get_compiled_memory_stats()
    names = (name for name in dir(stats) if name.endswith("_in_bytes"))
    return {name: value for name in names if isinstance(value := getattr(stats, name), int)}


def _result(request: dict[str, Any], begin: Callable[[list[str]], None]) -> dict[str, Any]:
    with _step("import"):
        importlib.import_module("jax")
    with _step("parse"):
        module, dropped = _mlir_module(request)
    with _step("target"):
        devices = target_devices(request)
        ids = _assignment(request, devices)
    by_id = {device.id: device for device in devices}
    used = [by_id[i] for row in ids for i in row]
    with _step("options"):
        options = _compile_options(request, ids)
    begin(dropped)
    with _step("compile"):
        executable = _executable(used[0].client, module, used, options)
    return {"memory_analysis": _memory(executable), "dropped_attributes": dropped}


def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


_PLUGINS = {"libtpu": "tpu", "jax_plugins.xla_cuda12": "gpu", "jax_plugins.xla_cuda13": "gpu"}
"""Modules with the backend that each brings."""


def toolchain() -> str:
    """Return packages with versions and backends that this interpreter has, a line each."""
    backends = []
    for name, backend in _PLUGINS.items():
        with contextlib.suppress(ImportError):
            backends += [backend] if importlib.util.find_spec(name) is not None else []
    words = [f"{name} {version}" for name, version in _versions().items()]
    return "\n".join([*words, *dict.fromkeys(f"can {backend}" for backend in backends)])


def main() -> None:
    """Compile what the request names and write the result."""
    if len(sys.argv) == 1:
        print(toolchain())  # noqa: T201 # for the process that started this one
        return
    versions = {"python": sys.version.split()[0], **_versions()}
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 # before pathlib is imported
        request = json.load(file)

    def write(**fields: Any) -> None:
        with open(sys.argv[2], "w", encoding="utf-8") as file:  # noqa: PTH123 # as above
            json.dump({"versions": versions, **fields}, file)

    try:
        # that of a process which ends in the compile
        write(**_result(request, lambda dropped: write(step="stopped", dropped_attributes=dropped)))
    except WorkerError as error:
        write(step=error.step, error=str(error))


if __name__ == "__main__":
    main()
