"""Roles of the arguments of a program; the first one that holds counts.

- *caches*: a result replaces it by itself with a part overwritten (``dynamic-update-slice``);
- *weights*: a result replaces it (by alias, else of its shape and computed from it nearby), and it
  is an operand of a matrix product, convolution or gather, directly or as a copy;
- *optimizer state*: a result replaces it, and no product uses it. It is *weights* with a name such
  as ``params`` or if it is broadcast, as a bias is, and *other* if a Pallas or Triton kernel uses
  it;
- *inputs*: integers that no result replaces, and arguments with such a name. Integers that a
  product joins with a computed value, in a program that replaces only caches, are quantized
  weights;
- *weights*: arguments with such a name, and frozen weights: in a program with a backward pass, a
  product of the forward pass joins it, or an array of the same argument, with a computed value;
- in a program that replaces other arguments, not only caches: *inputs*;
- *weights*: a product joins it with a computed value; else *other*.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.memory.argument_copies import SCALAR
from hlo_lens.questions.memory.role_names import (
    CACHES,
    INPUTS,
    NO_ROLE,
    OTHER,
    STATE,
    WEIGHTS,
    Role,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.program.signature import EntrySignature
    from hlo_lens.questions.memory.argument_copies import ArgumentCopies

BACKWARD = "transpose("
"""Part of the operation paths of the backward pass, as JAX writes them."""

_NEAR, _OPERANDS = 4, 64
_WORD = re.compile(r"[a-z]+")
_WEIGHT_WORDS = {
    *("param", "params", "parameter", "weight", "weights", "w", "kernel", "bias"),
    *("embedding", "embed", "scale", "gamma", "beta"),
}
_STATE_WORDS = {
    *("opt", "optimizer", "mu", "nu", "m", "v", "momentum", "velocity", "adam", "trace", "ema"),
    *("count", "step", "master", "acc", "accumulator", "squares", "avg"),
}
_INPUT_WORDS = {
    *("batch", "input", "inputs", "x", "y", "token", "tokens", "label", "labels", "target"),
    *("targets", "image", "images", "mask", "data", "positions", "ids", "segment", "example"),
}
_CACHE_WORDS = {"cache", "kv"}
_INTEGER = re.compile(r"(?:pred|[su]\d+)\[")
_NUMBER = re.compile(r"\d+")
_FUNCTION_ARGUMENT = re.compile(r"args\[\d+\]|[A-Za-z_]\w*(?=[\[.]\D|\[)")


class _Leaf(NamedTuple):
    """A leaf of a parameter: its name, shape, and the output that replaces it, if any."""

    value: Value
    name: str
    shape: str | None
    output: Value | None
    is_aliased: bool


class ArgumentRoles:
    """Roles of the leaves of a program's parameters.

    Args:
        copies: Copies of the arguments.
        signature: Parameters and outputs.
    """

    def __init__(self, copies: ArgumentCopies, signature: EntrySignature) -> None:
        self._copies = copies
        self._steps = copies.steps
        self._rows = {number: row for row, number in copies.parameters.items()}
        self._leaves = {leaf.value: leaf for leaf in self._read(signature)}
        self._used, self._joined, self._frozen = self._find_used()
        spread = map(copies.of_value, copies.broadcast_operands())
        self._spread = {one.argument for one in spread if one is not None}
        kernels = map(copies.of_value, copies.kernel_operands())
        self._in_kernels = {one.argument for one in kernels if one is not None}
        replaced = {
            leaf.value: self._replaced_role(leaf, leaf.output)
            for leaf in self._leaves.values()
            if leaf.output is not None
        }
        self._is_training = any(one.role != CACHES for one in replaced.values())
        self._roles = {
            value: replaced.get(value) or self._kept_role(leaf)
            for value, leaf in self._leaves.items()
        }

    def of_leaf(self, value: Value) -> Role:
        """Return the role of a leaf of a parameter."""
        return self._roles.get(value, NO_ROLE)

    def of_number(self, number: int) -> Role:
        """Return the role of a parameter that is an array."""
        row = self._rows.get(number)
        return NO_ROLE if row is None else self.of_leaf(Value(row))

    def is_leaf(self, value: Value) -> bool:
        """Return whether a value is a leaf of a parameter."""
        return value in self._leaves

    def name_of(self, value: Value) -> str:
        """Return the name of an argument."""
        leaf = self._leaves.get(value)
        return "an argument" if leaf is None else leaf.name

    def replacing(self) -> Iterator[Value]:
        """Yield the results that replace weights and optimizer state."""
        for leaf in self._leaves.values():
            if leaf.output is not None and self._roles[leaf.value].role in (WEIGHTS, STATE):
                yield self._steps.definition(leaf.output)

    def _read(self, signature: EntrySignature) -> Iterator[_Leaf]:
        outputs = self._replacing_outputs(signature)
        for one in signature.parameters:
            row = None if one.number is None else self._rows.get(one.number)
            if row is None:
                continue
            value = Value(row, _index(one.index))
            output = one.aliased_with
            is_aliased = output is not None
            replacing = self._output(output) if output is not None else outputs.get(value)
            yield _Leaf(value, one.name, one.shape, replacing, is_aliased)

    def _output(self, index: str) -> Value | None:
        root = self._copies.module.entry.root_row
        return None if root == NOTHING else Value(root, _index(index))

    def _replacing_outputs(self, signature: EntrySignature) -> dict[Value, Value]:
        """Return outputs without alias that are computed from an argument of their shape nearby.

        Only for programs with a backward pass or other aliases: the output of a residual block is
        computed from its input too.
        """
        aliased = {
            _index(one.aliased_with)  # of a result that is no tuple, "{}" as the alias of ""
            for one in signature.parameters
            if one.aliased_with is not None
        }
        if not aliased and BACKWARD not in self._copies.module.columns.source.text:
            return {}
        shapes = {
            Value(self._rows[one.number], _index(one.index)): one.shape
            for one in signature.parameters
            if one.number in self._rows
            and one.aliased_with is None
            and not _words(one.name) & _INPUT_WORDS
        }
        found: dict[Value, Value] = {}
        for one in signature.outputs:
            output = self._output(one.index)
            if _index(one.index) in aliased or output is None or (one.size_bytes or 0) <= SCALAR:
                continue
            for argument in self._nearby(output):
                if argument not in found and shapes.get(argument) == one.shape:
                    found[argument] = output
                    break
        return found

    def _nearby(self, output: Value) -> Iterator[Value]:
        """Yield the arguments of which copies are a few operations before an output."""
        waiting = [self._steps.definition(output)]
        seen = set(waiting)
        for _ in range(_NEAR):
            before = []
            for value in waiting:
                for one in map(self._steps.definition, self._steps.operands(value.row, _OPERANDS)):
                    if one in seen:
                        continue
                    seen.add(one)
                    copy = self._copies.of_value(one)
                    if copy is not None:
                        yield copy.argument
                    elif self._steps.size(one) > SCALAR:
                        before.append(one)
            waiting = before[:_OPERANDS]

    def _find_used(self) -> tuple[set[Value], set[Value], set[str]]:
        """Return the arguments that products use, and those of them joined with computed values.

        Of those that no result replaces and products of the forward pass join, also the arguments
        of the function.
        """
        used: set[Value] = set()
        joined: set[Value] = set()
        forward: set[Value] = set()
        columns = self._copies.module.columns
        has_backward = BACKWARD in columns.source.text
        for row, operands in self._copies.product_operands():
            copies = [self._copies.of_value(one) for one in operands]
            arguments = {one.argument for one in copies if one is not None}
            used |= arguments
            if None in copies or len(copies) == 1:
                joined |= arguments
                if has_backward and BACKWARD not in columns.attributes_text(row):
                    forward |= arguments
        leaves = (leaf for value, leaf in self._leaves.items() if value in forward)
        return used, joined, {_function_argument(one.name) for one in leaves if one.output is None}

    def _kept_role(self, leaf: _Leaf) -> Role:
        words = _words(leaf.name)
        is_quantized = leaf.value in self._joined and not self._is_training
        if leaf.shape is not None and _INTEGER.match(leaf.shape) and not is_quantized:
            return Role(INPUTS, "integers that no result replaces")
        if words & _INPUT_WORDS:
            return Role(INPUTS, "no result replaces it; its name")
        if words & _WEIGHT_WORDS:
            return Role(WEIGHTS, "its name; no result replaces it")
        if self._is_training and _function_argument(leaf.name) in self._frozen:
            return Role(WEIGHTS, "a product of the forward pass uses it; no result replaces it")
        if self._is_training:
            return Role(INPUTS, "no result replaces it, as others")
        if leaf.value in self._joined:
            return Role(WEIGHTS, "a product joins it with a computed value")
        return Role(OTHER, "argument whose use does not show its role")

    def _replaced_role(self, leaf: _Leaf, output: Value) -> Role:
        words = _words(leaf.name)
        how = (
            "a result has its memory"
            if leaf.is_aliased
            else "a result of its shape is computed from it"
        )
        if words & _CACHE_WORDS or self._is_overwritten(leaf, output):
            return Role(CACHES, f"{how}: itself with a part overwritten")
        if leaf.value in self._used:
            return Role(WEIGHTS, f"{how}, and a product uses it")
        if words & _STATE_WORDS:
            return Role(STATE, f"{how}, no product uses it; its name")
        if words & _WEIGHT_WORDS:
            return Role(WEIGHTS, f"{how}; its name")
        if leaf.value in self._spread:
            return Role(WEIGHTS, f"{how}, and it is broadcast")
        if leaf.value in self._in_kernels:
            return Role(OTHER, f"{how}, and a kernel uses it")
        return Role(STATE, f"{how}, and no product uses it")

    def _is_overwritten(self, leaf: _Leaf, output: Value) -> bool:
        """Return whether an output is an argument with a part overwritten.

        Not what a loop fills that starts with other contents, as the gradients of stacked weights.
        """
        value: Value | None = self._steps.definition(output)
        if value is not None and self._steps.opcodes[value.row] == "while":
            first = self._steps.operand(value.row, 0, value.element)
            source = None if first is None else self._copies.of_value(first)
            if source is None or source.argument != leaf.value:
                return False
            value = self._steps.written(value)
        return value is not None and self._steps.update(value) is not None


def _function_argument(name: str) -> str:
    """Return the argument of the function that an array belongs to: ``base`` of ``base[0]['w']``.

    >>> _function_argument("base[0]['w']"), _function_argument("args[1].w"), _function_argument("x")
    ('base', 'args[1]', 'x')
    """
    found = _FUNCTION_ARGUMENT.match(name)
    return name if found is None else found[0]


def _words(name: str) -> set[str]:
    return set(_WORD.findall(name.lower()))


def _index(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(text or "")))
