"""Savings of a finding as text: the same words in pages, annotations and SARIF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.text.units import flops_text, format_bytes, format_seconds

if TYPE_CHECKING:
    from hlo_lens.questions.findings.finding import Saves


def savings_text(saves: Saves, share: float | None) -> str:
    """Return the savings of a finding with their basis: ``at most 1.64GiB (11%)``; may be empty.

    Args:
        saves: The savings.
        share: The largest of them as a share of the program; None if not known.
    """
    parts: list[str] = []
    if saves.own_bytes is not None:
        parts.append(f"{format_bytes(saves.own_bytes)} of its own")
    elif saves.bytes is not None:
        parts.append(format_bytes(saves.bytes))
    if saves.wire_bytes is not None:
        parts.append(f"{format_bytes(saves.wire_bytes)} sent a run")
    if saves.flops is not None:
        parts.append(flops_text(saves.flops))
    if saves.seconds is not None:
        parts.append(format_seconds(saves.seconds))
    if not parts:
        return ""
    of_all = "" if share is None else f" ({_percent(share)})"
    text = f"{' and '.join(parts)}{of_all}"
    if saves.own_bytes is not None:
        return text if saves.bytes is None else f"{text}, at most {format_bytes(saves.bytes)}"
    if saves.basis is None:
        return text
    return f"at most {text}" if saves.basis == "at most" else f"{text}, {saves.basis}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.1f}%"
