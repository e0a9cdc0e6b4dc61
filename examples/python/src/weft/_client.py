"""Clients of a server, with and without asyncio."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import grpc
import numpy.typing as npt

from . import _tensor
from ._answer import Answer, Priority, WeftError
from .v1 import admin_service_pb2 as admin, admin_service_pb2_grpc as admin_stubs
from .v1 import model_pb2, prediction_service_pb2 as pb, prediction_service_pb2_grpc as stubs, tensor_pb2

# gRPC repeats these calls by itself, when the server says so.
_RETRIES = json.dumps({"methodConfig": [{
    "name": [{"service": "weft.v1.PredictionService"}],
    "retryPolicy": {
        "maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2,
        "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"],
    },
}]})


@dataclasses.dataclass(frozen=True)
class Tls:
    """PEM files of the CA that the server's certificate is of, and of the client's own certificate, if it has one."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files."""
        def read(path: str | None) -> bytes | None:
            return None if path is None else pathlib.Path(path).read_bytes()
        return grpc.ssl_channel_credentials(read(self.ca), read(self.key), read(self.cert))


class _Token(grpc.AuthMetadataPlugin):
    def __init__(self, token: str) -> None:
        self._metadata = (("authorization", "Bearer " + token),)

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        callback(self._metadata, None)


def _options(retries: bool, max_message_bytes: int) -> list[tuple[str, Any]]:
    options: list[tuple[str, Any]] = [
        ("grpc.max_send_message_length", max_message_bytes), ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.enable_retries", int(retries)),
    ]
    if retries:
        options.append(("grpc.service_config", _RETRIES))
    return options


def _metadata(token: str | None, tls: Tls | None) -> list[tuple[str, str]] | None:
    # With TLS the token is a credential of the channel. Without, it is sent as it is, which only loopback should see.
    return [("authorization", "Bearer " + token)] if token and tls is None else None


def _credentials(token: str | None, tls: Tls) -> grpc.ChannelCredentials:
    credentials = tls.credentials()
    if token:
        call = grpc.metadata_call_credentials(_Token(token))
        credentials = grpc.composite_channel_credentials(credentials, call)
    return credentials


def _spec(model: str, version: int | None, label: str | None) -> model_pb2.ModelSpec:
    if version is not None and label is not None:
        raise ValueError("either a version or a label chooses, not both")
    return model_pb2.ModelSpec(name=model, version=version, label=label)


def _request(model: str, inputs: Mapping[str, npt.ArrayLike], *, version: int | None, label: str | None,
             outputs: Sequence[str], episode: str, end_of_episode: bool, request_id: str, priority: Priority | None,
             target: float | None) -> pb.PredictRequest:
    q = pb.PredictRequest(
        model=_spec(model, version, label), inputs={name: _tensor.to_message(name, x) for name, x in inputs.items()},
        outputs=outputs, episode_id=episode, end_of_episode=end_of_episode, request_id=request_id,
        priority=None if priority is None else pb.Priority.Name(priority), output_encoding=tensor_pb2.OUTPUT_ENCODING_RAW,
    )
    if target is not None:
        q.target_latency.FromNanoseconds(int(target * 1e9))
    return q


def _report(model: str, episode: str, *, reward: float | None, success: bool | None, metrics: Mapping[str, float] | None,
            version: int | None) -> pb.ReportOutcomeRequest:
    return pb.ReportOutcomeRequest(
        model=_spec(model, version, None), episode_id=episode, reward=reward, success=success, metrics=metrics or {},
    )


def _upload(path: str | os.PathLike[str], model: str, version: int | None) -> Iterator[admin.UploadVersionRequest]:
    given = pathlib.Path(path)
    files = {"model.onnx": given}
    if given.is_dir():
        # SHA256SUMS is what the server writes. If it does not take model.onnx, it says so before the rest is sent.
        found = (file.relative_to(given).as_posix() for file in given.rglob("*") if file.is_file())
        names = sorted(found, key=lambda name: (name != "model.onnx", name))
        files = {name: given / name for name in names if "/." not in "/" + name and name != "SHA256SUMS"}
    start = admin.UploadStart(model=model, version=version or 0)
    for name, file in files.items():
        digest = hashlib.sha256()
        for chunk in _chunks(file):
            digest.update(chunk)
        start.files.add(name=name, bytes=file.stat().st_size, sha256=digest.digest())
    return itertools.chain(
        [admin.UploadVersionRequest(start=start)],
        (admin.UploadVersionRequest(chunk=chunk) for file in files.values() for chunk in _chunks(file)))


def _chunks(file: pathlib.Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while chunk := opened.read(1 << 20):
            yield chunk


class Client:
    """A client of one server. It is safe for concurrent use, and a context manager.

    address is HOST:PORT or unix:/PATH. token is a bearer token. retries: requests that a server refuses for lack of
    capacity are sent again when it says so, within their timeout.
    """

    def __init__(self, address: str = "127.0.0.1:9000", *, token: str | None = None, tls: Tls | None = None,
                 retries: bool = True, max_message_bytes: int = 16 << 20) -> None:
        options = _options(retries, max_message_bytes)
        if tls is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            self._channel = grpc.secure_channel(address, _credentials(token, tls), options)
        self._stub = stubs.PredictionServiceStub(self._channel)
        self._metadata = _metadata(token, tls)

    def predict(self, model: str, inputs: Mapping[str, npt.ArrayLike], *, version: int | None = None,
                label: str | None = None, outputs: Sequence[str] = (), episode: str = "", end_of_episode: bool = False,
                request_id: str = "", priority: Priority | None = None, target: float | None = None,
                timeout: float | None = None) -> Answer:
        """Returns a model's outputs for inputs whose first dimension is that of rows. Raises WeftError.

        version or label chooses a version; without, the model's traffic does. Requests of an episode stay with one
        version. timeout, in seconds, is after when the answer is worth nothing, target how soon it is wanted.
        """
        q = _request(model, inputs, version=version, label=label, outputs=outputs, episode=episode,
                     end_of_episode=end_of_episode, request_id=request_id, priority=priority, target=target)
        return Answer(self._call(self._stub.Predict, q, timeout))

    def metadata(self, model: str, *, version: int | None = None, label: str | None = None,
                 timeout: float | None = None) -> pb.GetModelMetadataResponse:
        """Returns the signature of a model, and how it is served. Raises WeftError."""
        q = pb.GetModelMetadataRequest(model=_spec(model, version, label))
        metadata: pb.GetModelMetadataResponse = self._call(self._stub.GetModelMetadata, q, timeout)
        return metadata

    def report_outcome(self, model: str, episode: str, *, reward: float | None = None, success: bool | None = None,
                       metrics: Mapping[str, float] | None = None, version: int | None = None,
                       timeout: float | None = None) -> pb.ReportOutcomeResponse:
        """Reports how an episode went, for comparing versions. Raises WeftError."""
        q = _report(model, episode, reward=reward, success=success, metrics=metrics, version=version)
        reported: pb.ReportOutcomeResponse = self._call(self._stub.ReportOutcome, q, timeout)
        return reported

    def push(self, path: str | os.PathLike[str], model: str, *, version: int | None = None, label: str | None = None,
             timeout: float | None = None) -> admin.UploadVersionResponse:
        """Uploads a version, and returns its number when it is ready. Raises WeftError.

        The client is one of the server's admin address. path is an ONNX file, or a folder with model.onnx and its files
        of external data. Without version it gets the number after the highest. label is moved to it.
        """
        uploads = admin_stubs.AdminServiceStub(self._channel)
        answer: admin.UploadVersionResponse = self._call(uploads.UploadVersion, _upload(path, model, version), timeout)
        if label is not None:
            self._call(uploads.SetLabel, admin.SetLabelRequest(model=model, label=label, version=answer.version), timeout)
        return answer

    def _call(self, method: Any, request: Any, timeout: float | None) -> Any:
        began = time.monotonic()
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise WeftError(error, late=timeout is not None and time.monotonic() - began >= timeout) from None

    def close(self) -> None:
        """Closes the connection; calls in flight fail."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncClient:
    """Client for asyncio: each method is a coroutine."""

    def __init__(self, address: str = "127.0.0.1:9000", *, token: str | None = None, tls: Tls | None = None,
                 retries: bool = True, max_message_bytes: int = 16 << 20) -> None:
        options = _options(retries, max_message_bytes)
        if tls is None:
            self._channel = grpc.aio.insecure_channel(address, options)
        else:
            self._channel = grpc.aio.secure_channel(address, _credentials(token, tls), options)
        self._stub = stubs.PredictionServiceStub(self._channel)
        self._metadata = _metadata(token, tls)

    async def predict(self, model: str, inputs: Mapping[str, npt.ArrayLike], *, version: int | None = None,
                      label: str | None = None, outputs: Sequence[str] = (), episode: str = "",
                      end_of_episode: bool = False, request_id: str = "", priority: Priority | None = None,
                      target: float | None = None, timeout: float | None = None) -> Answer:
        """See Client.predict."""
        q = _request(model, inputs, version=version, label=label, outputs=outputs, episode=episode,
                     end_of_episode=end_of_episode, request_id=request_id, priority=priority, target=target)
        return Answer(await self._call(self._stub.Predict, q, timeout))

    async def metadata(self, model: str, *, version: int | None = None, label: str | None = None,
                       timeout: float | None = None) -> pb.GetModelMetadataResponse:
        """See Client.metadata."""
        q = pb.GetModelMetadataRequest(model=_spec(model, version, label))
        metadata: pb.GetModelMetadataResponse = await self._call(self._stub.GetModelMetadata, q, timeout)
        return metadata

    async def report_outcome(self, model: str, episode: str, *, reward: float | None = None, success: bool | None = None,
                             metrics: Mapping[str, float] | None = None, version: int | None = None,
                             timeout: float | None = None) -> pb.ReportOutcomeResponse:
        """See Client.report_outcome."""
        q = _report(model, episode, reward=reward, success=success, metrics=metrics, version=version)
        reported: pb.ReportOutcomeResponse = await self._call(self._stub.ReportOutcome, q, timeout)
        return reported

    async def _call(self, method: Any, request: Any, timeout: float | None) -> Any:
        began = time.monotonic()
        try:
            return await method(request, timeout=timeout, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise WeftError(error, late=timeout is not None and time.monotonic() - began >= timeout) from None

    async def close(self) -> None:
        """Closes the connection; calls in flight fail."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()
