"""Replica groups: ids, modes and texts."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.hlo.opcodes import collective_op_group_mode
from hlo_lens.shapes.replica_groups import (
    CollectiveOpGroupMode,
    CollectiveOpGroupMode as Mode,
    Groups,
    connected_devices,
    device_groups,
    expand_replica_groups,
    parse_device_list,
)
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{}", ()),
        ("{{}}", ((),)),
        ("{{0}}", ((0,),)),
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{0},{1,2}}", ((0,), (1, 2))),
        ("{ { 0 , 1 } , { 2,3 } }", ((0, 1), (2, 3))),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=2,'b'=4] {'a'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=4] {'b':(1)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['a'=2,'b'=4] {'b':(2)2}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        (
            "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}",
            ((0, 1), (2, 3), (4, 5), (6, 7)),
        ),
        ("mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'b'}", ((3, 2), (1, 0))),
        ("mesh['a'=2,'b'=4] {'a','b'}", (tuple(range(8)),)),
        ("mesh['a'=2,'b'=4] {'b','a'}", ((0, 4, 1, 5, 2, 6, 3, 7),)),
        ("mesh['a'=2] {}", ((0,), (1,))),
        ("maximal_mesh[device_id=3] {}", ((3,),)),
    ],
)
def test_every_form_expands_to_lists_of_ids(text: str, groups: Groups) -> None:
    assert expand_replica_groups(text) == groups
    assert hlo_lens.expand_replica_groups(text) == groups


MODE = CollectiveOpGroupMode


@pytest.mark.parametrize(
    ("opcode", "channel_id", "use_global_device_ids", "mode"),
    [
        ("all-reduce", None, None, MODE.CROSS_REPLICA),
        ("all-reduce", None, False, MODE.CROSS_REPLICA),
        ("all-reduce", 1, None, MODE.CROSS_REPLICA_AND_PARTITION),
        ("all-gather", 1, False, MODE.CROSS_REPLICA_AND_PARTITION),
        ("reduce-scatter", 1, True, MODE.FLATTENED_ID),
        ("all-gather-start", 0, True, MODE.FLATTENED_ID),
        ("all-to-all", None, None, MODE.CROSS_REPLICA),
        ("all-to-all", 1, None, MODE.CROSS_PARTITION),
        ("ragged-all-to-all", 1, None, MODE.CROSS_PARTITION),
        ("collective-permute-start", 1, None, MODE.CROSS_PARTITION),
        ("collective-permute-done", None, None, MODE.CROSS_REPLICA),
        ("collective-broadcast", 1, None, MODE.CROSS_PARTITION),
    ],
)
def test_mode_follows_channel_and_flag(
    opcode: str, channel_id: int | None, use_global_device_ids: bool | None, mode: MODE
) -> None:
    assert collective_op_group_mode(opcode, channel_id, use_global_device_ids) is mode


def test_global_ids_need_a_channel() -> None:
    with pytest.raises(DumpMismatchError, match="no channel_id"):
        collective_op_group_mode("all-reduce", None, use_global_device_ids=True)


@pytest.mark.parametrize(
    ("mode", "listed", "replicas", "partitions", "groups"),
    [
        (Mode.FLATTENED_ID, ((0, 3), (1, 2)), 2, 2, ((0, 3), (1, 2))),
        (Mode.FLATTENED_ID, (), 2, 2, None),
        (Mode.CROSS_REPLICA, (), 3, None, ((0, 1, 2),)),
        (Mode.CROSS_REPLICA, ((1, 0),), 2, 2, ((2, 0), (3, 1))),
        (Mode.CROSS_PARTITION, ((0, 1),), 1, None, ((0, 1),)),
        (Mode.CROSS_PARTITION, ((0, 1),), 2, None, None),
        (Mode.CROSS_PARTITION, (), 1, None, None),
        (Mode.CROSS_PARTITION, (), 2, 2, ((0, 1), (2, 3))),
        (Mode.CROSS_REPLICA_AND_PARTITION, ((0,),), 1, 4, ((0, 1, 2, 3),)),
        (Mode.CROSS_REPLICA_AND_PARTITION, ((0,), (1,)), 2, 2, ((0, 1), (2, 3))),
        (Mode.CROSS_REPLICA_AND_PARTITION, (), 2, 2, ((0, 1, 2, 3),)),
        (Mode.CROSS_REPLICA_AND_PARTITION, ((0,),), 1, None, None),
        (Mode.CROSS_REPLICA, (), 10**12, None, None),
        (Mode.CROSS_REPLICA, ((0, 1),), 2, 10**12, None),
        (Mode.CROSS_PARTITION, ((0, 1),), 10**12, 2, None),
    ],
)
def test_ids_mean_what_the_mode_says(
    mode: Mode, listed: Groups, replicas: int, partitions: int | None, groups: Groups | None
) -> None:
    assert device_groups(listed, mode, replicas, partitions) == groups


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        ((), ()),
        (((0, 0),), ((0,),)),
        (((0, 1), (1, 2), (2, 3), (3, 0)), ((0, 1, 2, 3),)),
        (((0, 4), (4, 0), (1, 5)), ((0, 4), (1, 5))),
        (((0, 1), (2, 3), (3, 1)), ((0, 1, 2, 3),)),
    ],
)
def test_transfers_connect_devices(pairs: Groups, groups: Groups) -> None:
    assert connected_devices(pairs) == groups


ERRORS = [
    ("", 1, "expected a mesh, '[' or '{', found the end"),
    ("x", 1, "expected a mesh, '[' or '{', found 'x'"),
    ("{{0,1", 6, "expected '}', found the end"),
    ("{0,1}", 2, "expected '{' or '}', found '0'"),
    ("{{0,x}}", 4, "expected '}', found ','"),
    ("[8]<=[8]", 3, "expected ',', found ']'"),
    ("[2,2,2]<=[8]", 5, "expected ']', found ','"),
    ("[2,4]<=[9]", 9, "expected 2x4 devices, found 9"),
    ("[0,4]<=[8]", 2, "expected a number above 0, found 0"),
    ("[2,4]<=[4,2]T(1)", 15, "expected a permutation of 0 to 1"),
    ("mesh['a'=2] {'c'}", 14, "expected an axis of the mesh (a), found 'c'"),
    ("mesh['a'=2] {'a','a'}", 14, "axes 'a' and 'a' overlap"),
    ("mesh['a'=2]", 12, "expected ', device_ids=' or '{', found the end"),
]


@pytest.mark.parametrize(("text", "column", "message"), ERRORS)
def test_error_names_place_and_alternatives(text: str, column: int, message: str) -> None:
    with pytest.raises(DumpSyntaxError) as caught:
        parse_device_list(text)
    assert (caught.value.line, caught.value.column, caught.value.message) == (1, column, message)
