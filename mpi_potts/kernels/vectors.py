"""Vectors of bytes, written as such: loops over bytes are not left to the compiler, which widens them.

A vector is 64 or 32 bytes, whatever the processor's own are; the compiler takes as many of those as it needs.
Arrays are of bytes, contiguous; loads and stores need no alignment and are not checked against their ends.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model


class Bytes(types.Type):
    """A vector of so many bytes."""

    def __init__(self, size: int):
        self.size = size
        super().__init__(name=f"Bytes({size})")


@register_model(Bytes)
class _BytesModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _vector(kind.size))


def _vector(size):
    return ir.VectorType(ir.IntType(8), size)


def _pointer(context, builder, kind, array, index, size):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _vector(size).as_pointer())


@intrinsic(prefer_literal=True)
def load(typing, array, i, size):
    """array[i : i + size] as a vector; the size is a constant."""
    vector = Bytes(size.literal_value)

    def generate(context, builder, signature, arguments):
        array, i, _ = arguments
        return builder.load(_pointer(context, builder, signature.args[0], array, i, vector.size), align=1)

    return vector(array, types.int64, size), generate


@intrinsic
def save(typing, array, i, value):
    """Store a vector at array[i : i + size]."""

    def generate(context, builder, signature, arguments):
        array, i, vector = arguments
        builder.store(vector, _pointer(context, builder, signature.args[0], array, i, value.size), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), generate


@intrinsic(prefer_literal=True)
def fill(typing, byte, size):
    """A vector of one byte over and over."""
    vector = Bytes(size.literal_value)

    def generate(context, builder, signature, arguments):
        undefined, word = ir.Constant(_vector(vector.size), ir.Undefined), ir.IntType(32)
        one = builder.insert_element(undefined, arguments[0], word(0))
        order = ir.Constant(ir.VectorType(word, vector.size), [0] * vector.size)
        return builder.shuffle_vector(one, undefined, order)

    return vector(types.uint8, size), generate


@intrinsic
def add_equal(typing, count, a, b):
    """count + 1 where a and b are equal."""

    def generate(context, builder, signature, arguments):
        count, a, b = arguments
        # True is -1 as a byte.
        return builder.sub(count, builder.sext(builder.icmp_unsigned("==", a, b), count.type))

    return count(count, a, b), generate


@intrinsic
def larger_bytes(typing, a, b):
    """The larger of every two bytes."""

    def generate(context, builder, signature, arguments):
        a, b = arguments
        return builder.select(builder.icmp_unsigned(">", a, b), a, b)

    return a(a, b), generate


@intrinsic
def either(typing, a, b):
    """The bits of a or b."""

    def generate(context, builder, signature, arguments):
        return builder.or_(*arguments)

    return a(a, b), generate


@intrinsic
def mix(typing, old, new, mask):
    """The bits of `new` where the mask is 1, else those of `old`."""

    def generate(context, builder, signature, arguments):
        old, new, mask = arguments
        return builder.xor(old, builder.and_(builder.xor(old, new), mask))

    return old(old, new, mask), generate


@intrinsic
def where_equal(typing, a, b, one, other):
    """The bytes of `one` where a and b are equal, else those of `other`."""

    def generate(context, builder, signature, arguments):
        a, b, one, other = arguments
        return builder.select(builder.icmp_unsigned("==", a, b), one, other)

    return one(a, b, one, other), generate
