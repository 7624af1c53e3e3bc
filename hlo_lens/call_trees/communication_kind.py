"""Kind of communication of a function, by its name, for ambiguous names also by its file.

Names whose last word is cost, rule, plan and the like are of no kind. The handbook has the table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.call_trees.call_tree import CallFrame
    from hlo_lens.text.name_pattern import NamePattern

COLLECTIVE, REDISTRIBUTION, FOUND = "collective", "redistribution", "asked for"

_OPERATIONS = (
    "all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|ragged_all_to_all|collective_permute"
    "|collective_broadcast|psum|psum_scatter|pmean|pmax|pmin|ppermute|pshuffle|pbroadcast"
    "|batch_isend_irecv"
)
_FORMS = (
    "into_tensor|tensors?|single|coalesced|base|object|list|async|autograd|inplace|out|start|bind"
    "|invariant|reduced|v|vdim|multigpu|in_group|internal|p|impl|sum|max|min|avg|fwd|bwd"
)
_FRAMEWORKS = "mesh|nccl|c10d|dist|functional|xla|mpi|gloo|ring|p2p|comm|torch|lax"

_COLLECTIVE = re.compile(
    rf"(?:{_FRAMEWORKS})?_*(?:{_OPERATIONS})(?:_+(?:{_FORMS}))*_*\Z", re.IGNORECASE
)
_SHORT = re.compile(
    rf"(?:(?P<sure>mesh|nccl|mpi|c10d|dist|p2p)_+)?i?(?:broadcast|scatter|gather|reduce|send|recv"
    rf"|barrier|permute)(?:_+(?:{_FORMS}))*_*\Z",
    re.IGNORECASE,
)
"""Ambiguous names: they count only with the prefix or the file given."""

_DISTRIBUTED = re.compile(
    r"distributed|c10d|nccl|gloo|(?:^|[/_.])(?:collectives?|mpi|mpi4py|comms?)(?:[/_.]|$)"
)
_REDISTRIBUTION = re.compile(
    r"(?:redistribute(?:_\w+)?|reshard(?:_\w+)?|unshard|distribute_(?:tensor|module|parameters?)"
    r"|replicate_tensor|scatter_tensor_by_shard|reduce_scatter_to_shard\w*)\Z",
    re.IGNORECASE,
)
_REDISTRIBUTE_FILE = re.compile(r"(?:^|/)_?redistribute\.py\Z")
_STEPS = ("forward", "backward", "apply")
_NEVER = re.compile(
    r"costs?|rules?|plans?|strateg(?:y|ies)|infos?|specs?|schemas?|hooks?|placements?|sizes?|meta",
)
"""Last words of names that concern communication but do not communicate."""


def communication_kind(frame: CallFrame) -> str | None:
    """Return the kind of communication of a function; None if it does not communicate."""
    parts = frame.function.split(".")
    name = parts[-1] if parts[-1] not in ("default", "out") or len(parts) == 1 else parts[-2]
    name = name.lstrip("_")
    if not name or _NEVER.fullmatch(name.rstrip("_").rpartition("_")[2].lower()):
        return None
    file = (frame.file or "").replace("\\", "/")
    if _COLLECTIVE.match(name):
        return COLLECTIVE
    short = _SHORT.match(name)
    if short is not None and (short["sure"] or _DISTRIBUTED.search(f"{file}/{frame.function}")):
        return COLLECTIVE
    is_step = name in _STEPS and (_REDISTRIBUTE_FILE.search(file) or "Redistribute" in parts)
    return REDISTRIBUTION if is_step or _REDISTRIBUTION.match(name) else None


def kind_or_found(frame: CallFrame, find: NamePattern | None) -> str | None:
    """Return the kind of a function; one that is none but matches a pattern is `FOUND`."""
    kind = communication_kind(frame)
    if kind is None and find is not None and find.found_in(str(frame)):
        return FOUND
    return kind
