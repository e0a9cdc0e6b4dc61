"""Requests on a stream, for one closed loop."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import grpc
import numpy.typing as npt
from google.rpc import status_pb2

from ._answer import Answer, Priority, WeftError
from ._episode import _LEAST_WAIT
from .v1 import prediction_service_pb2 as pb

if TYPE_CHECKING:
    from ._client import Client


class _Failed(grpc.RpcError):
    """The error of one request, as a call would end with it."""

    def __init__(self, status: status_pb2.Status) -> None:
        self._status = status

    def code(self) -> grpc.StatusCode:
        return next(code for code in grpc.StatusCode if code.value[0] == self._status.code)

    def details(self) -> str:
        return str(self._status.message)

    def trailing_metadata(self) -> Any:
        return (("grpc-status-details-bin", self._status.SerializeToString()),)


class _Opened:
    """A stream of gRPC. A thread reads it, since gRPC waits for the next answer without a deadline."""

    def __init__(self, client: Client, beside: pb.PredictRequest) -> None:
        self.requests: queue.SimpleQueue[pb.PredictStreamRequest | None] = queue.SimpleQueue()
        self.came: queue.SimpleQueue[Any] = queue.SimpleQueue()  # answers, and in the end the call
        self.answered = False
        self.call = client._open(iter(self.requests.get, None), beside)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for answer in self.call:
                self.came.put(answer)
        self.requests.put(None)  # ends gRPC's thread that waits for the next request
        self.came.put(self.call)

    def ask(self, q: pb.PredictStreamRequest, until: float | None) -> pb.PredictResponse:
        """Sends a request, and returns its answer. Raises grpc.RpcError, or queue.Empty at the deadline."""
        self.requests.put(q)
        while True:
            came = self.came.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            if came is self.call:
                raise came
            if came.request_id != q.request.request_id:
                continue  # the late answer to a request whose deadline has passed
            if came.HasField("error") and WeftError(_Failed(came.error)).reason == "DRAINING":
                continue  # it was not accepted, and the stream ends soon
            self.answered = True
            if came.HasField("error"):
                raise _Failed(came.error)
            answer: pb.PredictResponse = came.response
            return answer


class Stream:
    """Requests on one stream, for a closed loop: each waits for its answer. Client.stream makes it. It is a context
    manager, and one thread at a time uses it.

    The first request opens the stream, as does the one after an error that ended it. A server that stops ends the
    stream. The request that it has not accepted is then sent on another one, as often in a row as Client.predict does.
    """

    def __init__(self, client: Client, beside: pb.PredictRequest) -> None:
        self._client, self._beside, self._count = client, beside, 0
        self._now: _Opened | None = None

    def predict(self, model: str, inputs: Mapping[str, npt.ArrayLike] | npt.ArrayLike, *, version: int | None = None,
                label: str | None = None, outputs: Sequence[str] = (), episode: str = "", begin_episode: bool = False,
                end_of_episode: bool = False, step: int = 0, supersede: bool = False, priority: Priority | None = None,
                target: float | None = None, timeout: float | None = None) -> Answer:
        """See Client.predict. Raises WeftError: what one request is refused for does not end the stream.

        supersede drops requests of the same episode that still wait in the server after their timeout here.
        """
        self._count += 1
        client, began = self._client, time.monotonic()
        q = client._question(model, inputs, version=version, label=label, timeout=timeout, outputs=outputs,
                             episode=episode, begin_episode=begin_episode, end_of_episode=end_of_episode, step=step,
                             request_id=str(self._count), priority=priority, target=target)
        until, tries, wait = None if timeout is None else began + timeout, client._attempts, 0.0
        while True:
            if self._now is None or self._now.call.done():
                self._now = _Opened(client, self._beside)
            now, message = self._now, pb.PredictStreamRequest(request=q, supersede=supersede)
            if until is not None:
                message.timeout.FromNanoseconds(max(1, int(1e9 * (until - time.monotonic()))))
            try:
                answer = Answer(now.ask(message, until))
                client._answered = True
                return answer
            except (grpc.RpcError, queue.Empty) as error:
                if isinstance(error, queue.Empty):
                    error = _Failed(status_pb2.Status(code=4, message="Deadline Exceeded"))
                    if not now.answered:  # it may have no connection yet, which is not to carry requests that are late
                        now.call.cancel()
                why = client._failed(error, timeout, began)
                if why.code is grpc.StatusCode.INVALID_ARGUMENT:
                    client._signatures.forget((model, version, label))
                tries -= 1
                # A stream without any answer may never have reached a server.
                again = why.code is grpc.StatusCode.UNAVAILABLE and (why.reason == "DRAINING" or not now.answered)
                if not again or not tries or until is not None and time.monotonic() + wait >= until:
                    raise why from None
            time.sleep(wait)
            wait = max(_LEAST_WAIT, 2 * wait)

    def close(self) -> None:
        """Ends the stream."""
        if self._now is not None:
            self._now.requests.put(None)
            self._now.reader.join(1)  # the server ends it once all was answered
            self._now.call.cancel()
            self._now = None

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
