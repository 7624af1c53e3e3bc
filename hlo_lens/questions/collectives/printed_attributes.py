"""Printed attributes of collectives: groups of devices, pairs, transfers to hosts and other slices.

They are read once for all collectives of a kind whose attributes differ in nothing but the channel
and the computation that they apply to elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import LONG_NUMBER
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.collectives.operations import CUSTOM_CALL
from hlo_lens.questions.collectives.wire_bytes import TRANSFERS
from hlo_lens.shapes.replica_groups import (
    CollectiveOpGroupMode,
    Groups,
    collective_op_group_mode,
    connected_devices,
    device_groups,
)
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule

_PAIRS = "_xla_send_recv_source_target_pairs"
_HANDLER = "_xla_host_transfer_handler_name"
_MEGASCALE = "xla_megascale_runtime"
_SLICE_TRANSFER = "_xla_megascale_transfer_type"
_RENDEZVOUS = "_xla_host_transfer_rendezvous"


class CollectiveDevices(NamedTuple):
    """Devices of a collective, one object for all of a kind that print the same.

    Attributes:
        mode: What the printed ids number.
        groups: Flattened ids of the devices of each group.
        pairs: Source and target of each transfer.
        is_host_transfer: Whether it is between a device and its host.
        crosses_slices: Whether it goes to other slices.
        slice_transfer: Kind of the collective between slices that it is part of.
    """

    mode: CollectiveOpGroupMode | None
    groups: Groups | None
    pairs: Groups | None
    is_host_transfer: bool
    crosses_slices: bool
    slice_transfer: str | None


class PrintedAttributes(NamedTuple):
    """Attributes of a collective, one object for all of a kind that print the same.

    Attributes:
        text: Their text, without channel and applied computation.
        devices: Its devices.
        rendezvous: Name that the send and the recv of a transfer between slices have in common.
    """

    text: str
    devices: CollectiveDevices
    rendezvous: str | None


class AttributeReader:
    """Reads the attributes of a module's collectives.

    Args:
        module: The module.
        partitions: Its number of partitions; None if unknown.
    """

    def __init__(self, module: HloModule, partitions: int | None) -> None:
        self._module = module
        self._replicas = module.replica_count
        self._partitions = partitions
        self._read: dict[tuple[str, str, bool, str], PrintedAttributes] = {}
        self._devices: dict[tuple[object, ...], CollectiveDevices] = {}

    def read(self, instruction: HloInstruction, kind: str) -> tuple[int | None, PrintedAttributes]:
        """Return the channel of a collective, and its other attributes."""
        printed = self._module.columns.attributes_text(instruction.row)
        text, number = _without(", channel_id=", printed)
        channel = int(number) if number.isdecimal() and len(number) < LONG_NUMBER else None
        if channel is None and "channel_id=" in printed:
            channel = instruction.channel_id
        channel_id = None if channel is None or channel < 0 else channel
        text, _ = _without(", to_apply=", text)
        key = (kind, instruction.opcode, channel_id is None, text)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = self._parsed(instruction, kind, channel_id, text)
        return channel_id, found

    def _parsed(
        self, instruction: HloInstruction, kind: str, channel_id: int | None, text: str
    ) -> PrintedAttributes:
        attributes = instruction.attributes
        is_custom = instruction.opcode == CUSTOM_CALL
        mode = None if is_custom else _mode(kind, channel_id, attributes)
        frontend = attributes.get("frontend_attributes")
        said = self._module.reader.frontend_attributes(frontend) if frontend else {}
        listed = None if is_custom else _listed_text(kind, attributes, said)
        is_host_transfer = attributes.get("is_host_transfer") == "true"
        crosses_slices = said.get(_HANDLER) == _MEGASCALE
        across = said.get(_SLICE_TRANSFER)
        key = (kind, mode, listed, is_host_transfer, crosses_slices, across)
        if key not in self._devices:
            groups, pairs = self._groups_and_pairs(kind, mode, listed)
            transfer = across.lower().replace("_", "-") if across else None
            self._devices[key] = CollectiveDevices(
                mode, groups, pairs, is_host_transfer, crosses_slices, transfer
            )
        return PrintedAttributes(text, self._devices[key], said.get(_RENDEZVOUS))

    def _groups_and_pairs(
        self, kind: str, mode: CollectiveOpGroupMode | None, text: str | None
    ) -> tuple[Groups | None, Groups | None]:
        """Return groups, and source and target of each transfer, of flattened ids."""
        listed = _listed(self._module, text)
        is_transfer = kind in TRANSFERS
        if listed is None or (mode is None and not is_transfer):
            return None, None
        if mode is not None and (listed or not is_transfer):
            found = device_groups(listed, mode, self._replicas, self._partitions)
        else:
            found = listed
        if not is_transfer or found is None:
            return found, None
        return connected_devices(found), found


def _without(name: str, text: str) -> tuple[str, str]:
    """Return attributes without the value of one, and this value; empty if not found.

    >>> _without(", channel_id=", ", channel_id=7, dimensions={0}")
    (', channel_id=, dimensions={0}', '7')
    """
    before, found, after = text.partition(name)
    if not found or '"' in before:  # then it may be inside a string
        return text, ""
    value, comma, rest = after.partition(",")
    return f"{before}{name}{comma}{rest}", value


def _mode(
    kind: str, channel_id: int | None, attributes: Mapping[str, str]
) -> CollectiveOpGroupMode | None:
    """Return the meaning of the printed ids; None for send, recv and invalid combinations."""
    if opcode_traits(kind).is_paired:
        return None
    is_global = attributes.get("use_global_device_ids") == "true"
    try:
        return collective_op_group_mode(kind, channel_id, is_global)
    except DumpMismatchError:
        return None


def _listed_text(
    kind: str, attributes: Mapping[str, str], frontend: Mapping[str, str]
) -> str | None:
    if kind == "collective-permute":
        return attributes.get("source_target_pairs")
    if opcode_traits(kind).is_paired:
        return frontend.get(_PAIRS)
    return attributes.get("replica_groups", "{}")


def _listed(module: HloModule, text: str | None) -> Groups | None:
    """Return the printed groups or pairs; () if empty, which means all devices."""
    try:
        return module.reader.device_list(text).flattened_replica_groups() if text else None
    except DumpSyntaxError:
        return None
