"""A two-layer model over two devices: columns, then rows, then a bias that needs the whole sum."""

from __future__ import annotations

from programs.traced.dtensor.api import DTensor, distribute_tensor
from programs.traced.dtensor.placement import COLUMNS, REPLICATE, ROWS, Matrix

DEVICES = 2
WIDTH = 4


class Block:
    """Two products with a positive part between them, and a bias."""

    def __init__(self) -> None:
        self.w_in = distribute_tensor(matrix(WIDTH, WIDTH), DEVICES, COLUMNS)
        self.w_out = distribute_tensor(matrix(WIDTH, WIDTH), DEVICES, ROWS)
        self.bias = distribute_tensor(matrix(1, WIDTH), DEVICES, REPLICATE)

    def forward(self, x: DTensor) -> DTensor:
        """Returns the block's output; its bias asks for the sum over devices."""
        hidden = x.matmul(self.w_in).relu()
        return hidden.matmul(self.w_out).add(self.bias)


def matrix(rows: int, columns: int) -> Matrix:
    """Returns a matrix of small numbers."""
    return [[((row * 3 + column) % 5 - 2) / 4 for column in range(columns)] for row in range(rows)]


def step(blocks: list[Block], batch: Matrix) -> Matrix:
    """Returns the model's output for a batch."""
    x = distribute_tensor(batch, DEVICES, REPLICATE)
    for block in blocks:
        x = block.forward(x)
    return x.full_tensor()


def main() -> None:
    """Runs two steps of two blocks."""
    blocks = [Block(), Block()]
    for _ in range(2):
        step(blocks, matrix(1, WIDTH))
