"""Shardings of arguments and results, edited in the text."""

from __future__ import annotations

import pytest

from hlo_lens import parse_hlo
from hlo_lens.questions.what_if.arguments import EntryArrays
from hlo_lens.questions.what_if.shardings import edit_sharding
from hlo_lens.questions.what_if.stored_types import edit_donation
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.errors import UsageError
from tests.questions.what_if.programs import GSPMD, ONE_DEVICE, SHARDY, edited

MESHES = [Mesh.of({"data": 2, "model": 4})]


def sharded(text: str, *requests: str) -> str:
    module = parse_hlo(text)
    return edit_sharding(module, requests, meshes=MESHES).text_of(module)


def specs(text: str) -> dict[str, str | None]:
    arrays = EntryArrays.of(parse_hlo(text))
    table = [*arrays.arguments, *arrays.results]
    meshes = [one.sharding and one.sharding.to_partition_spec(MESHES[0]) for one in table]
    names = [str(one.value.name) for one in arrays.arguments]
    names += [f"result{one.value.index}" for one in arrays.results]
    return {name: str(spec) for name, spec in zip(names, meshes, strict=True)}


@pytest.mark.parametrize("text", [SHARDY, GSPMD])
def test_sharding_of_an_argument(text: str) -> None:
    module = edited(text, edit_sharding(parse_hlo(text), ["x=P(('data','model'))"], meshes=MESHES))
    sharding = module.entry.parameters[1].sharding
    assert sharding is not None
    assert sharding.text == "{devices=[8,1]<=[8]}"
    shardy = module.entry.parameters[1].frontend_attributes.get("xla.sdy.sharding")
    if text is SHARDY:
        assert shardy == '#sdy.sharding<@mesh, [{"data", "model"}, {}]>'
    else:
        assert shardy is None


@pytest.mark.parametrize("text", [SHARDY, GSPMD])
def test_result_that_has_the_memory_follows(text: str) -> None:
    donated = edit_donation(parse_hlo(text), donate=["p"]).text_of(parse_hlo(text))
    alone = specs(sharded(text, "p=P('data')"))
    assert (alone["p['w']"], alone["result{0}"]) == ("('data',)", "(None, 'model')")
    both = specs(sharded(donated, "p=P('data')"))
    assert (both["p['w']"], both["result{0}"]) == ("('data',)", "('data',)")
    apart = specs(sharded(donated, "p=P('data')", "result{0}=P(None, 'data')"))
    assert (apart["p['w']"], apart["result{0}"]) == ("('data',)", "(None, 'data')")


@pytest.mark.parametrize("text", [SHARDY, GSPMD])
def test_sharding_of_a_result_that_was_left_to_xla(text: str) -> None:
    module = edited(text, edit_sharding(parse_hlo(text), ["result[1]=P('data')"], meshes=MESHES))
    assert module.header["allow_spmd_sharding_propagation_to_output"] == "{false,false}"
    assert specs(module.columns.source.text)["result{1}"] == "('data',)"
    assert module.entry.root is not None
    call = module.entry.root.producer(1)
    assert call is not None
    assert ("FuncResultSharding" in str(call[0].attributes)) == (text is SHARDY)


@pytest.mark.parametrize("text", [SHARDY, GSPMD])
def test_sharding_and_back_is_the_text_again(text: str) -> None:
    changed = sharded(text, "p=P('data')", "x=P()", "result{0}=P('data')")
    back = ["p=P(None, 'model')", "x=P('data')", "result{0}=P(None, 'model')"]
    assert changed != text
    assert sharded(changed, *back) == text


@pytest.mark.parametrize(
    ("request_text", "reason"),
    [
        ("x=P('z')", "no axis z in mesh['data'=2,'model'=4]"),
        ("x=P('data', 'data')", "axes 'data' and 'data' overlap"),
        ("x=P('data', None, None)", "P('data', None, None) is for 3 dimensions, it has 2"),
        ("x=P('data')", "it is sharded so: P('data',)"),
        ("result{2}=P('data')", "no result is called 'result{2}'; there is result{0}, result{1}"),
        ("y=P('data')", "no argument is called 'y'; there is p['w'], x"),
    ],
)
def test_reasons(request_text: str, reason: str) -> None:
    (change,) = edit_sharding(parse_hlo(SHARDY), [request_text]).changes
    assert not change.applies
    assert reason in change.why_not


def test_uneven_division_does_not_apply() -> None:
    (change,) = edit_sharding(
        parse_hlo(SHARDY.replace("f32[16,8]", "f32[16,6]")), ["x=P(None,'model')"]
    ).changes
    assert change.why_not == "dimension 1 of 6 does not divide by 4"


def test_one_device_and_no_mesh() -> None:
    (change,) = edit_sharding(parse_hlo(ONE_DEVICE), ["c=P('x')"]).changes
    assert change.why_not == "the program runs on one device"
    (change,) = edit_sharding(parse_hlo(GSPMD), ["x=P()"]).changes
    assert change.why_not.startswith("the text names no mesh axes")


def test_single_result() -> None:
    text = SHARDY[: SHARDY.index("  %res.1")] + "}\n"
    text = text.replace("%neg.1 =", "ROOT %neg.1 =").replace("{false,true}", "{true}")
    text = text.replace("(f32[8,64]{1,0}, f32[16,64]{1,0})", "f32[8,64]{1,0}")
    for start in (text, sharded(text, "result=P('model')")):
        module = parse_hlo(sharded(start, "result=P('data')"))
        assert not module.gaps
        assert module.entry.root is not None
        assert module.entry.root.opcode == "get-tuple-element"
        assert module.entry.root.attribute("sharding") is not None
        assert "propagation_to_output" not in module.columns.source.text
        assert module.columns.source.text.count("FuncResultSharding") == 1


def test_malformed_request() -> None:
    with pytest.raises(UsageError, match="not a sharding"):
        edit_sharding(parse_hlo(SHARDY), ["x"])
