"""Processor instructions on eight or more bytes that numba does not offer.

Invariant: the caller has checked that the bytes exist. Data need not be aligned.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WORD = 8  # bytes
_BITS = ir.IntType(64)
_PLACE = ir.IntType(8).as_pointer()
_PREFETCH = ir.FunctionType(ir.VoidType(), [_PLACE, *[ir.IntType(32)] * 3])
_UPDATE = ir.FunctionType(ir.IntType(32), [_PLACE, _PLACE, _BITS]).as_pointer()
_FINISH = ir.FunctionType(ir.IntType(32), [_PLACE, _PLACE]).as_pointer()
# What `llvm.prefetch` is told: to read, as close as can be, data and not instructions.
_READ_CLOSE_DATA = (0, 3, 1)


def _address(context: Any, builder: Any, array: Any, value: Any, at: Any) -> Any:
    row = context.make_array(array)(context, builder, value=value)
    return builder.gep(row.data, [at])


@intrinsic  # type: ignore[untyped-decorator]
def item(_typing: Any, array: Any, at: Any) -> Any:
    """One element; a position is never negative here, and asking whether it is takes as long as a step."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *arguments))

    return array.dtype(array, at), generate


@intrinsic  # type: ignore[untyped-decorator]
def word(_typing: Any, array: Any, at: Any) -> Any:
    """Eight bytes from a position on, as one number; the first byte is its lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(builder.bitcast(address, _BITS.as_pointer()), align=1)

    return types.uint64(array, at), generate


@intrinsic  # type: ignore[untyped-decorator]
def fetch(_typing: Any, array: Any, at: Any) -> Any:
    """Have the processor bring an element close, while other work goes on; it need not be there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(_address(context, builder, signature.args[0], *arguments), _PLACE)
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [_PLACE], _PREFETCH)
        builder.call(prefetch, [address, *(ir.Constant(ir.IntType(32), one) for one in _READ_CLOSE_DATA)])
        return context.get_dummy_value()

    return types.void(array, at), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_word(_typing: Any, array: Any, at: Any, value: Any) -> Any:  # noqa: ARG001 - as below
    """Write eight bytes from a position on, as `word` reads them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], builder.bitcast(address, _BITS.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, at, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def zeros_below(_typing: Any, bits: Any) -> Any:  # noqa: ARG001 - numba reads the names
    """The number of zero bits below the lowest one bit; 64 if there is none."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def copy(_typing: Any, source: Any, start: Any, length: Any, target: Any, at: Any) -> Any:  # noqa: ARG001 - as above
    """Copy bytes from one row to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, first, count, out, place = arguments
        read = _address(context, builder, signature.args[0], data, first)
        written = _address(context, builder, signature.args[3], out, place)
        cgutils.raw_memcpy(builder, written, read, count, 1)
        return context.get_dummy_value()

    return types.void(source, start, types.int64, target, at), generate


@intrinsic  # type: ignore[untyped-decorator]
def update(_typing: Any, function: Any, state: Any, data: Any, start: Any, length: Any) -> Any:  # noqa: ARG001 - as above
    """Call the hash function's update at this address, with bytes of a row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, hashing, row, first, count = arguments
        none = context.get_constant(types.int64, 0)
        places = (
            builder.bitcast(_address(context, builder, signature.args[1], hashing, none), _PLACE),
            builder.bitcast(_address(context, builder, signature.args[2], row, first), _PLACE),
        )
        builder.call(builder.inttoptr(address, _UPDATE), [*places, count])
        return context.get_dummy_value()

    return types.void(types.int64, state, data, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def finish(_typing: Any, function: Any, state: Any, out: Any) -> Any:  # noqa: ARG001 - as above
    """Call the hash function's end at this address; the digest goes to the beginning of a row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, hashing, row = arguments
        none = context.get_constant(types.int64, 0)
        places = (
            builder.bitcast(_address(context, builder, signature.args[2], row, none), _PLACE),
            builder.bitcast(_address(context, builder, signature.args[1], hashing, none), _PLACE),
        )
        builder.call(builder.inttoptr(address, _FINISH), list(places))
        return context.get_dummy_value()

    return types.void(types.int64, state, out), generate
