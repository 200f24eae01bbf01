"""Operations on words of bits, which Python has no names for or numba does not turn into vectors."""

import numpy as np
from llvmlite import ir
from numba import njit, types, uint64
from numba.extending import intrinsic

ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
HALVES = (1, 2, 4, 8, 16, 32)


# A float and the integer that has its bits.
_INTEGERS = {types.float64: types.uint64, types.float32: types.int32}
_FLOATS = {integer: real for real, integer in _INTEGERS.items()}


@intrinsic
def to_bits(typingctx, value):
    """The bits of a float64 as uint64, or of a float32 as int32."""
    return _cast(value, _INTEGERS)


@intrinsic
def from_bits(typingctx, value):
    """The float64 that has the bits of a uint64, or the float32 that has those of an int32."""
    return _cast(value, _FLOATS)


def _cast(kind, kinds):
    """Signature and code of a change of type that leaves the bits as they are; none for other types."""

    def codegen(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return (kinds[kind](kind), codegen) if kind in kinds else None


@intrinsic
def popcount(typingctx, word):
    """The number of ones in a uint64 (one machine instruction, which Python cannot name)."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def lowest(typingctx, word):
    """The position of the lowest one in a uint64 that is not zero."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@njit(inline="always")
def flood(seeds, along):
    """The bits of `along` that seeds reach when they spread upwards through consecutive ones of `along`.

    Adding a seed to a block of ones carries through it: all bits from the seed to the block's end change.
    """
    return along & (((along + seeds) ^ along) | seeds)


@njit(inline="always")
def parity_below(word):
    """Bit x of the result is the parity of the bits 0..x of `word`."""
    for s in HALVES:
        word = word ^ (word << uint64(s))
    return word


@njit(cache=True)
def deposit_steps(masks, steps):
    """The masks by which `deposit` moves bits up, step s by 2**s (Warren, Hacker's Delight, section 7-5)."""
    s0, s1, s2, s3, s4, s5 = steps[0], steps[1], steps[2], steps[3], steps[4], steps[5]
    for j in range(masks.size):
        rest, holes = masks[j], ~masks[j] << ONE
        s0[j], rest, holes = _step(rest, holes, 1)
        s1[j], rest, holes = _step(rest, holes, 2)
        s2[j], rest, holes = _step(rest, holes, 4)
        s3[j], rest, holes = _step(rest, holes, 8)
        s4[j], rest, holes = _step(rest, holes, 16)
        s5[j], rest, holes = _step(rest, holes, 32)


@njit(inline="always")
def _step(mask, holes, distance):
    """The bits of the mask with an odd number of holes below, and what remains when they have moved down."""
    odd = parity_below(holes)
    moved = odd & mask
    return moved, (mask ^ moved) | (moved >> uint64(distance)), holes & ~odd


@njit(cache=True)
def deposit(words, masks, steps):
    """Move the lowest bits of every word, in order, to the places where its mask has ones."""
    s0, s1, s2, s3, s4, s5 = steps[0], steps[1], steps[2], steps[3], steps[4], steps[5]
    for j in range(masks.size):
        word = words[j]
        word = (word & ~s5[j]) | ((word << uint64(32)) & s5[j])
        word = (word & ~s4[j]) | ((word << uint64(16)) & s4[j])
        word = (word & ~s3[j]) | ((word << uint64(8)) & s3[j])
        word = (word & ~s2[j]) | ((word << uint64(4)) & s2[j])
        word = (word & ~s1[j]) | ((word << uint64(2)) & s1[j])
        word = (word & ~s0[j]) | ((word << uint64(1)) & s0[j])
        words[j] = word & masks[j]
