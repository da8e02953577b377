"""Tells which Arrow types Delta has."""

import pyarrow as pa


def narrow(kind: pa.DataType) -> pa.DataType:
    """A type as Delta has it: bytes of a fixed length become bytes, at any depth."""
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, narrow(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), narrow(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(narrow(kind.value_type))
    return kind
