"""HLO text or proto to the MLIR module that jax gives to compilers."""

from __future__ import annotations

import contextlib
import re
from typing import Any

from .broadcasts import join_broadcasts
from .jaxlib_names import WorkerError, find

_UNKNOWN_ATTRIBUTE = re.compile(r"unexpected attribute \"?([\w.]+)\"?")
_MOST_ATTRIBUTES = 16


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
    parse = find("hlo_module_from_text")
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
        for number in (one for one in numbers if one < count):  # old versions keep tuples
            known = {entry.name: entry.attr for entry in arguments[number]}
            arguments[number] = ir.DictAttr.get(known | mark)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(arguments)


def mlir_module(request: dict[str, Any]) -> tuple[Any, list[str]]:
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
        made = find("mlir").xla_computation_to_mlir_module(find("XlaComputation")(serialized))
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
                join_broadcasts(parsed)
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
