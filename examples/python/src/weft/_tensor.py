"""Arrays as the messages of weft.v1 carry them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .v1 import tensor_pb2 as pb

_DTYPES = {
    np.dtype(np.bool_): pb.DATA_TYPE_BOOL,
    np.dtype(np.uint8): pb.DATA_TYPE_UINT8,
    np.dtype(np.uint16): pb.DATA_TYPE_UINT16,
    np.dtype(np.uint32): pb.DATA_TYPE_UINT32,
    np.dtype(np.uint64): pb.DATA_TYPE_UINT64,
    np.dtype(np.int8): pb.DATA_TYPE_INT8,
    np.dtype(np.int16): pb.DATA_TYPE_INT16,
    np.dtype(np.int32): pb.DATA_TYPE_INT32,
    np.dtype(np.int64): pb.DATA_TYPE_INT64,
    np.dtype(np.float16): pb.DATA_TYPE_FP16,
    np.dtype(np.float32): pb.DATA_TYPE_FP32,
    np.dtype(np.float64): pb.DATA_TYPE_FP64,
}
_ARRAYS = {of: dtype.newbyteorder("<") for dtype, of in _DTYPES.items()}


def to_message(name: str, value: npt.ArrayLike, wanted: pb.DataType | None = None) -> pb.Tensor:
    """Returns the message of an array; texts and bytes become strings. Raises TypeError for other types.

    Numbers of Python become what is wanted, the type of the model's input, if that holds them. Else those that are not
    whole become float32, since few models take float64.
    """
    try:
        array = np.asarray(value)
    except UnicodeDecodeError:  # bytes beside texts
        array = np.asarray(value, dtype=np.object_)
    if array.dtype.kind in "SU" and not hasattr(value, "dtype"):
        array = np.asarray(value, dtype=np.object_)  # numpy's own texts end where their zeros begin
    if array.dtype.kind in "biuf" and not hasattr(value, "dtype"):
        array = _converted(array, _ARRAYS.get(wanted) if wanted is not None else None)
    if array.dtype.kind in "SUO":
        elements = [_bytes(name, element) for element in array.ravel()]
        return pb.Tensor(dtype=pb.DATA_TYPE_STRING, shape=array.shape, string_values=elements)
    of = _DTYPES.get(array.dtype.newbyteorder("="))
    if of is None:
        raise TypeError(f"input {name!r}: no tensor has elements of {array.dtype}; convert them, such as by astype('float32')")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return pb.Tensor(dtype=of, shape=array.shape, raw=little.tobytes())


def _converted(numbers: npt.NDArray[Any], wanted: np.dtype[Any] | None) -> npt.NDArray[Any]:
    if wanted is not None and np.can_cast(numbers.dtype, wanted, "same_kind"):
        converted = numbers.astype(wanted)
        if wanted.kind == "f" or np.array_equal(converted, numbers):
            return converted
    if wanted is not None and wanted.kind == "u" and numbers.dtype.kind == "i" and (numbers >= 0).all():
        return _converted(numbers.astype(np.uint64), wanted)
    return numbers.astype(np.float32) if numbers.dtype == np.float64 else numbers


def _bytes(name: str, element: object) -> bytes:
    if isinstance(element, str):
        return element.encode()
    if isinstance(element, (bytes, bytearray)):
        return bytes(element)
    raise TypeError(f"input {name!r}: an array of objects holds {type(element).__name__}; expected str or bytes")


def to_array(message: pb.Tensor) -> npt.NDArray[np.generic]:
    """Returns the array of a message with raw elements; strings are bytes. bfloat16 comes as float32."""
    shape = tuple(message.shape)
    if message.dtype == pb.DATA_TYPE_STRING:
        texts = np.empty(len(message.string_values), dtype=np.object_)
        texts[:] = list(message.string_values)
        return texts.reshape(shape)
    if message.dtype == pb.DATA_TYPE_BF16:
        upper = np.frombuffer(message.raw, dtype="<u2").astype(np.uint32) << 16
        return upper.view(np.float32).reshape(shape)
    return np.frombuffer(message.raw, dtype=_ARRAYS[message.dtype]).reshape(shape)
