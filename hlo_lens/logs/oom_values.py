"""Fields of the parsed sections of memory messages."""

from __future__ import annotations

import re

from lark import Token

from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.buffers.lines import Node, find_all, optional_token, tokens
from hlo_lens.hlo.metadata import OpMetadata
from hlo_lens.logs.log_text import read_metadata
from hlo_lens.logs.out_of_memory import MemoryPart, ProgramAllocation


def sizes_of(node: Node) -> list[HumanSize]:
    """Return the sizes among the children of a tree."""
    return [HumanSize(text) for text in tokens(node, "SIZE")]


def exact_size(number: str) -> HumanSize:
    """Return the size for a number of bytes that was printed exactly."""
    return HumanSize(f"{int(number)}B")


def sentence_fields(tree: Node) -> dict[str, object]:
    """Return the fields of the first sentence of a message."""
    sizes = sizes_of(tree)
    kind = tree.data
    if kind == "ran_out_of_space":
        return _space_fields(tree)
    if kind == "too_many_temporaries":
        module = optional_token(tree, "MODULE")
        words = str(optional_token(tree, "RAN_OUT_OF_TEMPORARIES"))
        return {
            "memory_space": str(optional_token(tree, "WORD")).lower(),
            "used": (sizes[0],),
            "capacity": sizes[1],
            "used_for": words.partition(" required for ")[2].strip(),
            "module": None if module is None else str(module).rstrip("."),
        }
    if kind in ("stack_overflow", "stack_without_room"):
        return _stack_fields(tree)
    if kind == "cores_exceed":
        return {
            "memory_space": "hbm",
            "used": tuple(sizes[:2]),
            "capacity": sizes[2],
            "used_for": "TensorCore and SparseCore",
        }
    return _exceeding_fields(tree)


def _space_fields(tree: Node) -> dict[str, object]:
    fields: dict[str, object] = {"memory_space": str(optional_token(tree, "SPACE"))}
    for used in find_all(tree, "used"):
        amount, capacity = sizes_of(used)
        fields |= {"used": (amount,), "capacity": capacity}
    for exceeded in find_all(tree, "exceeded"):
        fields["exceeded"] = sizes_of(exceeded)[0]
    return fields


def _stack_fields(tree: Node) -> dict[str, object]:
    """Return the fields of a stack that does not fit; some messages have no sizes."""
    owner = optional_token(tree, "STACK_OWNER") or optional_token(tree, "STACK_OWNER_ALONE")
    fields: dict[str, object] = {
        "memory_space": str(optional_token(tree, "SPACE")),
        "used_for": "the stack of one instruction",
        "instruction": str(owner).partition(" stack for ")[2].strip(),
    }
    if sizes := sizes_of(tree):
        fields |= {"used": (sizes[0],), "capacity": sizes[1], "exceeded": sizes[2]}
    return fields


_TAG = re.compile(r"shape = '([^']*)'|space=(\w+)|tag = '([^\n]*)'\]$")


def _exceeding_fields(tree: Node) -> dict[str, object]:
    """Return the fields of a message about one allocation larger than its memory."""
    used, capacity = tokens(tree, "NATURAL")
    tag = str(optional_token(tree, "ALLOCATION_TAG") or "")
    shape, space, purpose = "", "", ""
    for match in _TAG.finditer(tag):
        shape, space, purpose = match[1] or shape, match[2] or space, match[3] or purpose
    owner = str(optional_token(tree, "REST_OF_LINE") or "").strip()
    size = exact_size(used)
    return {
        "memory_space": space,
        "used": (size,),
        "capacity": exact_size(capacity),
        "used_for": purpose or "one allocation",
        "instruction": None if owner in ("", "<no-hlo-instruction>") else owner,
        "parts": (MemoryPart(name=shape or "one allocation", size=size),),
    }


def _usage_fields(tree: Node) -> dict[str, object]:
    return {"total": sizes_of(tree)[0], "usage": tuple(map(_part, find_all(tree, "usage")))}


def _output_fields(tree: Node) -> dict[str, object]:
    sizes = sizes_of(tree)
    return {
        "output": sizes[0] if sizes else None,
        "output_shared": sizes[1] if len(sizes) > 1 else None,
    }


def _requirement_fields(tree: Node) -> dict[str, object]:
    return {"requirement": sizes_of(tree)[0], "parts": tuple(map(_part, find_all(tree, "part")))}


SECTION_READERS = {
    "hbm_usage": _usage_fields,
    "output_size": _output_fields,
    "requirement": _requirement_fields,
}


def _part(tree: Node) -> MemoryPart:
    """Return the fields of a line of a statement."""
    name = next(c for c in tree.children if isinstance(c, Token) and c.type != "SIZE")
    sizes = sizes_of(tree)
    padding = [size for node in find_all(tree, "padding_total") for size in sizes_of(node)]
    shares = [float(text.rstrip("%")) for text in tokens(tree, "PERCENT")]
    return MemoryPart(
        name=str(name),
        size=sizes[0] if sizes else None,
        utilization_percent=shares[0] if shares else None,
        unpadded=padding[0] if padding else None,
        padded=padding[1] if padding else None,
        fragmentation_percent=shares[1] if len(shares) > 1 else None,
        fragmentation=sizes[1] if len(sizes) > 1 else None,
    )


def _operator(text: str) -> OpMetadata | None:
    """Return the metadata of an operator; messages of 2026 may print its name alone."""
    if text and "=" not in text.partition('"')[0]:
        return OpMetadata(op_name=text)
    return read_metadata(f"{{{text}}}")


def read_allocation(tree: Node) -> ProgramAllocation:
    """Return one entry of the list of largest allocations."""
    number = optional_token(tree, "NUMBERED")
    sizes = sizes_of(tree)
    texts: dict[str, str] = {}
    found: dict[str, HumanSize] = {}
    expansion = None
    for node in find_all(tree, "field"):
        for child in node.children:
            if isinstance(child, Token):
                texts[child.type] = str(child).partition(":")[2].strip()
            else:
                found[str(child.data)] = sizes_of(child)[0]
                factor = optional_token(child, "EXPANSION")
                expansion = expansion if factor is None else float(str(factor).partition("x")[0])
    kind = str(optional_token(tree, "ALLOCATION_TYPE") or "").partition(":")[2].strip()
    return ProgramAllocation(
        number=None if number is None else int(str(number).partition(".")[0]),
        size=sizes[0] if sizes else None,
        operator=_operator(texts["OPERATOR"]) if "OPERATOR" in texts else None,
        shape_text=texts.get("SHAPE"),
        unpadded=found.get("unpadded"),
        padding=found.get("padding"),
        expansion=expansion,
        label=texts.get("LABEL"),
        allocation_type=kind,
    )
