"""What a server answers."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
from google.rpc import error_details_pb2, status_pb2

from . import _tensor
from .v1 import prediction_service_pb2 as pb


class Priority(enum.IntEnum):
    """Who is given up first where not all can be served in time."""

    CRITICAL = pb.PRIORITY_CRITICAL
    CRITICAL_PLUS = pb.PRIORITY_CRITICAL_PLUS
    SHEDDABLE = pb.PRIORITY_SHEDDABLE
    SHEDDABLE_PLUS = pb.PRIORITY_SHEDDABLE_PLUS


class Answer(Mapping[str, npt.NDArray[np.generic]]):
    """The outputs of a model by name, and how they came about."""

    def __init__(self, message: pb.PredictResponse) -> None:
        self._outputs = {name: _tensor.to_array(t) for name, t in message.outputs.items()}
        self.model: str = message.model.name
        self.version: int = message.model.version
        #: The entry of the model's traffic that led to the version; "" where the request chose it.
        self.slot: str = message.execution.slot
        #: A hash of the model's traffic that led to the version: servers that lead episodes alike have the same.
        self.table: str = message.execution.table
        #: Time in the queue and computing, the batch, and more: weft.v1.ExecutionInfo.
        self.execution = message.execution

    def __getitem__(self, name: str) -> npt.NDArray[np.generic]:
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def drop(self, names: Iterable[str]) -> None:
        """Leaves outputs out."""
        for name in names:
            del self._outputs[name]

    def __repr__(self) -> str:
        with np.printoptions(threshold=16):
            outputs = ", ".join(f"{name}={array!r}" for name, array in self._outputs.items())
        return f"<weft.Answer of {self.model} version {self.version}: {outputs}>"


class WeftError(Exception):
    """Why a request was not answered."""

    def __init__(self, error: grpc.RpcError | grpc.aio.AioRpcError, *, late: bool = False, unconnected: str = "") -> None:
        """late: the deadline has passed. unconnected: what to say if so, where there was no connection."""
        code, details = error.code(), error.details()
        if late and code is grpc.StatusCode.CANCELLED:
            # The server noticed the deadline first and reset the stream, before the client's own timer fired.
            code, details = grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"
        if unconnected and code is grpc.StatusCode.DEADLINE_EXCEEDED:
            details = unconnected
        super().__init__(details)
        self.code: grpc.StatusCode = code
        #: The server's reason, such as QUEUE_FULL; "" where the code says it all.
        self.reason: str = ""
        self.metadata: dict[str, str] = {}
        #: How many seconds to wait before trying again; None: trying again does not help, or nobody knows.
        self.retry_after: float | None = None
        trailing: Any = error.trailing_metadata() or ()
        for key, value in trailing:
            if key == "grpc-status-details-bin":
                self._read(value)

    def after(self, refusal: WeftError) -> None:
        """Has the error of a deadline say why the attempt before was refused."""
        self.args = (f"{Exception.__str__(self)}; the attempt before was refused: {refusal}",)
        self.reason, self.metadata, self.retry_after = refusal.reason, refusal.metadata, refusal.retry_after

    def _read(self, value: Any) -> None:
        for detail in status_pb2.Status.FromString(value).details:
            info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
            if detail.Unpack(info):
                self.reason, self.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(retry):
                self.retry_after = retry.retry_delay.ToTimedelta().total_seconds()

    def __str__(self) -> str:
        return f"{self.code.name}: {super().__str__()}"
