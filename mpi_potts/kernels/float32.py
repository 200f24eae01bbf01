"""Arithmetic in float32 that vectorises and gives the same bits in every loop.

`fma` and `larger` are single instructions on current processors, and are written as such: a compiler that is
free to contract a product and a sum may do it in one loop and not in the next.

exp2(t) = 2**i p(f) with i the nearest integer to t, f = t - i in [-1/2, 1/2], and p the polynomial of degree
5 with the smallest relative error (7.5e-8; with rounding 2.2e-7).
"""

from numba import float32, int32, njit, types
from numba.extending import intrinsic

from .bits import from_bits, to_bits

# Adding it leaves the nearest integer in the low bits of the sum.
ROUND = float32(1.5 * 2**23)

# Smaller results would not be normal numbers; beside the weight 1 of the largest, 2**-125 is as good as 0.
SMALLEST = float32(-125.0)

P0, P1, P2 = float32(1.0000000716546849), float32(0.6931469670647565), float32(0.24022119723840063)
P3, P4, P5 = float32(0.055507132735040834), float32(0.009675541334453294), float32(0.001327647199076385)


@intrinsic
def fma(typing, a, b, c):
    """a * b + c, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), generate


@intrinsic
def larger(typing, a, b):
    """The larger of two numbers, neither of them NaN."""

    def generate(context, builder, signature, arguments):
        first, second = arguments
        return builder.select(builder.fcmp_ordered(">", first, second, flags=("nnan",)), first, second)

    return types.float32(types.float32, types.float32), generate


@njit(cache=True)
def exp2(t):
    """2**t for t <= 0, as float32; what is below 2**-125 is 2**-125."""
    t = larger(t, SMALLEST)
    rounded = t + ROUND
    f = t - (rounded - ROUND)
    p = fma(fma(fma(fma(fma(P5, f, P4), f, P3), f, P2), f, P1), f, P0)
    # The integer goes into the exponent; the constant's own bits are shifted out.
    return from_bits(int32(to_bits(p) + int32(to_bits(rounded) << 23)))
