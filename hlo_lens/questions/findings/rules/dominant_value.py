"""Values of one content are much of the memory at the peak: scores, logits, masks, repeats.

What:
    Temporaries with the same content hold a quarter or more of the bytes at the peak: attention
    scores, logits, one-hot tables, masks, or arrays that are repeated for a product, as key and
    value heads of grouped queries. Or one value of another content holds more than half. Of a
    program that does not fit, a tenth is enough for either.

Why it costs:
    The peak is these values. Attention scores grow with the square of the sequence, logits with the
    vocabulary, and both are there once more for the backward pass. A program that does not fit
    because of them is rarely short of capacity. The saving is their size.

Fix:
    Attention in blocks: jax.nn.dot_product_attention(..., implementation="cudnn") on GPU, the flash
    or splash attention of jax.experimental.pallas.ops.tpu on TPU, or jax.lax.map with
    jax.checkpoint over a few hundred queries at a time. The loss for a part of the sequence at a
    time: jax.lax.map(jax.checkpoint(loss_of), parts). jnp.take instead of a product with
    jax.nn.one_hot. Masks compared where they are used. Queries in groups, q.reshape(batch, length,
    kv_heads, -1, depth), instead of jnp.repeat of keys. Half the batch of a device, or 16 bits,
    halves each of them. --prove cannot apply these, which change what is computed.

Fine when:
    The program fits. Scores, logits and masks are a warning from half of the peak and 1 GiB on, or
    where the program does not fit; one-hot tables and repeated arrays from 64 MiB on. Else an
    info.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import PEAK, ModuleRule
from hlo_lens.questions.memory.contents import Content, ContentKind, contents
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import SAVED, memory_roles
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory

_SHARE, _LEAST_SHARE, _TOO_LARGE_SHARE = 0.5, 0.25, 0.1
"""Least share of the peak: of any value; of a known content; of either if the program does not
fit."""

_LEAST_BYTES = 1 << 20
_WARNING_BYTES, _NEEDLESS_BYTES = 1 << 30, 64 << 20
"""Least bytes of a warning, and of one about needless values."""

_MOST_VALUES, _MOST_SHOWN = 64, 5
"""Limit on the values at the peak that are examined, largest first; most that are listed."""

_NEEDLESS = (ContentKind.ONE_HOT, ContentKind.REPEATED)
"""Contents that nothing needs: the fix costs no arithmetic."""

_FIXES = {
    ContentKind.SCORES: "compute attention in blocks: jax.nn.dot_product_attention(..., "
    'implementation="cudnn"), a flash attention kernel, or jax.lax.map with jax.checkpoint over '
    "some queries at a time; half the batch of a device or 16 bits halve it",
    ContentKind.LOGITS: "compute the loss for a part of the sequence at a time: "
    "jax.lax.map(jax.checkpoint(loss_of), parts); half the batch of a device or 16 bits halve it",
    ContentKind.ONE_HOT: "take rows instead of a product: jnp.take(table, tokens, axis=0)",
    ContentKind.MASK: "compare positions where the mask is used: jnp.where(queries[:, None] >= "
    "keys, ...), or is_causal=True of jax.nn.dot_product_attention",
    ContentKind.REPEATED: "divide the other operand into groups instead of repeating this one: "
    "q.reshape(batch, length, kv_heads, -1, depth), with one more letter in jnp.einsum",
}
_NO_CONTENT_FIX = (
    "divide it with jax.lax.with_sharding_constraint where it is made, or make it in parts with "
    "jax.lax.map"
)
_SAVED_FIX = (
    "compute it again in the backward pass: jax.checkpoint around the function that makes it, with "
    "flax nn.remat"
)


class _Kin(NamedTuple):
    """Key of values with one finding."""

    kind: ContentKind
    dimensions: tuple[int, ...]


def dominant_value(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each content, and for other values that are large."""
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if memory is None or peak is None or peak.total_bytes < _LEAST_BYTES:
        return
    is_too_large = memory.statement.fits is False
    known_contents = contents(known)
    groups: dict[_Kin, list[tuple[LiveValue, Content]]] = defaultdict(list)
    for one in peak.live[:_MOST_VALUES]:
        if one.category != "temp" or not one.owned_bytes or one.shape.startswith("("):
            continue
        elements = Shape.parse(one.shape).element_count
        origin = peak.origin_of(one)
        content = known_contents and elements and known_contents.of_value(origin, elements)
        if content:
            groups[_Kin(content.kind, content.dimensions)].append((one, content))
        elif one.owned_bytes > (_TOO_LARGE_SHARE if is_too_large else _SHARE) * peak.total_bytes:
            yield _value_finding(known, peak, one, is_too_large=is_too_large)
    for found in groups.values():
        values = [value for value, _ in found]
        least = _TOO_LARGE_SHARE if is_too_large else _LEAST_SHARE
        if sum(one.owned_bytes for one in values) >= least * peak.total_bytes:
            first = min((content for _, content in found), key=lambda one: str(one.place))
            yield _content_finding(peak, values, first, is_too_large=is_too_large)


def _content_finding(
    peak: PeakMemory, values: Sequence[LiveValue], content: Content, *, is_too_large: bool
) -> Finding:
    size = sum(one.owned_bytes for one in values)
    share, kind = size / peak.total_bytes, content.kind
    is_needless = kind in _NEEDLESS
    least = (_LEAST_SHARE, _NEEDLESS_BYTES) if is_needless else (_SHARE, _WARNING_BYTES)
    is_large = share >= least[0] and size >= least[1]
    return Finding(
        message=(
            f"{_named(content)} {'hold' if kind.endswith('s') else 'holds'} "
            f"{format_bytes(size)} in {plural(len(values), 'value')}, "
            f"{share:.0%} of the memory at the peak"
        ),
        fix=_FIXES[kind],
        **at(content.place or peak.origin_of(values[0]).place),
        values=tuple(one.value for one in values),
        evidence=(
            f"{' x '.join(f'{one:,}' for one in content.dimensions)} elements on all devices"
            f"{_growth(content)}",
            listed([f"{one.value} {_shape(one)}" for one in values], _MOST_SHOWN),
        ),
        saves=Saves.up_to(size),
        severity=None if is_large or is_too_large else Severity.INFO,
        has_cost=True,
    )


def _named(content: Content) -> str:
    copies = f", {content.copies} copies of each," if content.copies > 1 else ""
    return f"{content.kind}{copies}"


def _growth(content: Content) -> str:
    """Return what the size of a content grows with."""
    *_, queries, keys = (0, 0, *content.dimensions)
    if content.kind is ContentKind.SCORES:
        square = ": they grow with the square of the sequence" if queries == keys else ""
        return f" (batch x heads x queries x keys){square}"
    return " (the last is the vocabulary)" if content.kind is ContentKind.LOGITS else ""


def _value_finding(
    known: ModuleDump, peak: PeakMemory, one: LiveValue, *, is_too_large: bool
) -> Finding:
    """Return the finding about one value whose content is not known."""
    origin, roles = peak.origin_of(one), memory_roles(known)
    role = None if roles is None else roles.of_value(one.value, one.allocation).role
    return Finding(
        message=(
            f"{one.value} {_shape(one)} holds {format_bytes(one.owned_bytes)}, "
            f"{one.owned_bytes / peak.total_bytes:.0%} of the memory at the peak"
        ),
        fix=_SAVED_FIX if role == SAVED else _NO_CONTENT_FIX,
        **at(origin.place),
        values=(one.value,),
        evidence=(
            *([f"operation {origin.op_name}"] if origin.op_name else ()),
            *([f"role: {role}"] if role else ()),
        ),
        saves=Saves.up_to(one.owned_bytes),
        severity=None if is_too_large or peak.total_bytes >= _WARNING_BYTES else Severity.INFO,
        has_cost=True,
    )


def _shape(value: LiveValue) -> str:
    return value.shape.partition("{")[0]


RULE = ModuleRule("M011", dominant_value, PEAK)
