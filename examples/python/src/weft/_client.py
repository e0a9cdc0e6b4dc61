"""Clients of a server, with and without asyncio."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import grpc
import numpy.typing as npt

from . import _tensor
from ._answer import Answer, Priority, WeftError
from ._episode import AsyncLiveEpisode, LiveEpisode
from ._stream import Stream
from .v1 import admin_service_pb2 as admin, admin_service_pb2_grpc as admin_stubs
from .v1 import model_pb2, model_service_pb2 as models, model_service_pb2_grpc as model_stubs
from .v1 import prediction_service_pb2 as pb, prediction_service_pb2_grpc as stubs, tensor_pb2

_ATTEMPTS = 4
# gRPC repeats these calls by itself, when the server says so. Requests on streams have errors of their own.
_RETRIES = json.dumps({"methodConfig": [{
    "name": [{"service": "weft.v1.PredictionService", "method": method}
             for method in ("Predict", "GetModelMetadata", "ReportOutcome")],
    "retryPolicy": {
        "maxAttempts": _ATTEMPTS, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2,
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


def _checked(address: str) -> str:
    if "://" in address:
        raise ValueError(f"address: expected HOST:PORT, without http://, or unix:/PATH, found {address!r}; gRPC is on "
                         "port 9000 unless the server has it elsewhere")
    return address


def _unconnected(address: str, timeout: float | None) -> str:
    return f"no connection to {address} within {1000 * (timeout or 0):.0f} ms: does the server run?"


# The states of a channel that a late request had no connection in.
_UNCONNECTED = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING,
                grpc.ChannelConnectivity.TRANSIENT_FAILURE)


class _Signatures:
    """The types of the inputs of models that requests need more of than arrays by name, until one is refused."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int | None, str | None], dict[str, tensor_pb2.DataType]] = {}

    def wants(self, inputs: Any, of: tuple[str, int | None, str | None]) -> bool:
        """Reports whether the model must be asked."""
        arrays = isinstance(inputs, Mapping) and all(hasattr(x, "dtype") for x in inputs.values())
        return not arrays and of not in self._known

    def learn(self, of: tuple[str, int | None, str | None], metadata: pb.GetModelMetadataResponse) -> None:
        """Keeps what the model said."""
        self._known[of] = {t.name: t.dtype for t in metadata.signature.inputs}

    def forget(self, of: tuple[str, int | None, str | None]) -> None:
        """Has the model asked again: its inputs may be others since."""
        self._known.pop(of, None)

    def inputs(self, inputs: Any, of: tuple[str, int | None, str | None]) -> dict[str, tensor_pb2.Tensor]:
        """Returns the messages of inputs, or of the only one. Raises TypeError."""
        types = self._known.get(of, {})
        if not isinstance(inputs, Mapping):
            if len(types) != 1:
                raise TypeError(f"model {of[0]!r} takes {len(types)} inputs: expected a dict of arrays by the names "
                                f"{', '.join(map(repr, types))}, found {type(inputs).__name__}")
            inputs = {next(iter(types)): inputs}
        return {name: _tensor.to_message(name, x, types.get(name)) for name, x in inputs.items()}


def _left(timeout: float | None, began: float) -> float | None:
    return None if timeout is None else max(0.0, timeout - (time.monotonic() - began))


def _spec(model: str, version: int | None, label: str | None) -> model_pb2.ModelSpec:
    if version is not None and label is not None:
        raise ValueError("either a version or a label chooses, not both")
    return model_pb2.ModelSpec(name=model, version=version, label=label)


def _request(model: str, inputs: Mapping[str, tensor_pb2.Tensor], *, version: int | None, label: str | None,
             outputs: Sequence[str], episode: str, begin_episode: bool, end_of_episode: bool, step: int, request_id: str,
             priority: Priority | None, target: float | None) -> pb.PredictRequest:
    q = pb.PredictRequest(
        model=_spec(model, version, label), inputs=inputs, outputs=outputs,
        episode_id=episode, begin_episode=begin_episode, end_of_episode=end_of_episode, step=step, request_id=request_id,
        priority=None if priority is None else pb.Priority.Name(priority), output_encoding=tensor_pb2.OUTPUT_ENCODING_RAW,
    )
    if target is not None:
        q.target_latency.FromNanoseconds(int(target * 1e9))
    return q


def _report(model: str, episode: str, *, reward: float | None, success: bool | None, metrics: Mapping[str, float] | None,
            version: int | None, tables: Iterable[str]) -> pb.ReportOutcomeRequest:
    return pb.ReportOutcomeRequest(
        model=_spec(model, version, None), episode_id=episode, reward=reward, success=success, metrics=metrics or {},
        tables=sorted(set(tables)),
    )


def _beside(metadata: list[tuple[str, str]] | None, request: Any) -> list[tuple[str, str]] | None:
    """Adds what proxies and hash rings find the server of an episode by. Metadata carry printable ASCII only."""
    if not isinstance(request, (pb.PredictRequest, pb.ReportOutcomeRequest)):
        return metadata
    pairs = (("weft-model", request.model.name), ("weft-episode", request.episode_id))
    return [*(metadata or ()), *((key, value) for key, value in pairs
                                 if value and value.isascii() and value.isprintable() and value == value.strip())]


def _upload(path: str | os.PathLike[str], model: str, version: int | None) -> Iterator[admin.UploadVersionRequest]:
    given = pathlib.Path(path)
    files = {"pipeline.yaml" if given.suffix in (".yaml", ".yml") else "model.onnx": given}
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


# The inputs of versions: their types and shapes by name.
_Inputs = dict[int, dict[str, tuple[int, list[int]]]]


def _changed(model: str, pushed: int, before: _Inputs, now: _Inputs) -> Iterator[str]:
    """Yields what users of a model may not expect of a version that was pushed."""
    others = [version for version in now if version != pushed]
    if pushed not in now and others:
        yield (f"version {pushed} of {model} answers no request that names no version: the traffic names "
               f"{' and '.join(map(str, others))}; `weft traffic {model} {pushed}=100`, or `weft rollout start {model} "
               f"--baseline {others[0]} --candidate {pushed}`")
    new = now.get(pushed, {})
    for version, old in before.items():
        names = sorted(name for name in old.keys() | new.keys() if not _takes(old.get(name), new.get(name)))
        if new and names:
            yield (f"version {pushed} of {model} takes other inputs than version {version}, whose clients will fail: "
                   f"{', '.join(names)}")


def _takes(old: tuple[int, list[int]] | None, new: tuple[int, list[int]] | None) -> bool:
    """Reports whether an input takes what another did: a dimension may be open that was not."""
    return old is not None and new is not None and old[0] == new[0] and len(old[1]) == len(new[1]) and all(
        size in (was, -1) for was, size in zip(old[1], new[1]))


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
        self._address, self._answered, self._signatures = _checked(address), False, _Signatures()
        options = _options(retries, max_message_bytes)
        if tls is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            self._channel = grpc.secure_channel(address, _credentials(token, tls), options)
        self._stub = stubs.PredictionServiceStub(self._channel)
        self._metadata = _metadata(token, tls)
        self._attempts = _ATTEMPTS if retries else 1
        # For episodes, whose steps have retries of their own: gRPC's can only be left out of a whole connection.
        self._once: Client | None = None
        if retries:
            self._once = Client(address, token=token, tls=tls, retries=False, max_message_bytes=max_message_bytes)

    def predict(self, model: str, inputs: Mapping[str, npt.ArrayLike] | npt.ArrayLike, *, version: int | None = None,
                label: str | None = None, outputs: Sequence[str] = (), episode: str = "", begin_episode: bool = False,
                end_of_episode: bool = False, step: int = 0, request_id: str = "", priority: Priority | None = None,
                target: float | None = None, timeout: float | None = None) -> Answer:
        """Returns a model's outputs for inputs whose first dimension is that of rows. Raises WeftError.

        inputs are arrays by name, or an array for a model of one input. Lists of numbers get the types of the model's
        inputs, which it is asked for once; arrays keep theirs.
        version or label chooses a version; without, the model's traffic does. Requests of an episode stay with one
        version; begin_episode and step are for models whose state the server keeps, see episode. timeout, in seconds, is
        after when the answer is worth nothing, target how soon it is wanted.
        """
        began = time.monotonic()
        q = self._question(model, inputs, version=version, label=label, timeout=timeout, outputs=outputs,
                           episode=episode, begin_episode=begin_episode, end_of_episode=end_of_episode, step=step,
                           request_id=request_id, priority=priority, target=target)
        try:
            return Answer(self._call(self._stub.Predict, q, _left(timeout, began)))
        except WeftError as error:
            if error.code is grpc.StatusCode.INVALID_ARGUMENT:
                self._signatures.forget((model, version, label))
            raise

    def stream(self, *, model: str = "", episode: str = "") -> Stream:
        """Returns a stream for one closed loop, whose predict is as that of the client. If a server stops, the stream
        opens again by itself. model and episode, by which proxies and hash rings find the server, are for a stream whose
        requests are all of them."""
        return Stream(self, pb.PredictRequest(model=_spec(model, None, None), episode_id=episode))

    def _question(self, model: str, inputs: Any, *, version: int | None, label: str | None, timeout: float | None,
                  **more: Any) -> pb.PredictRequest:
        """Returns the request of a prediction. The model is asked for its types before, where that is needed."""
        of = (model, version, label)
        if self._signatures.wants(inputs, of):
            self._signatures.learn(of, self.metadata(model, version=version, label=label, timeout=timeout))
        return _request(model, self._signatures.inputs(inputs, of), version=version, label=label, **more)

    def _open(self, requests: Iterator[pb.PredictStreamRequest], beside: pb.PredictRequest) -> Any:
        return self._stub.PredictStream(requests, metadata=_beside(self._metadata, beside))

    def episode(self, model: str, episode: str, *, outputs: Sequence[str] = (), attempt: float | None = None,
                checkpoint_every: int = 0, state: Mapping[str, str] | None = None, version: int | None = None,
                label: str | None = None, priority: Priority | None = None, target: float | None = None) -> LiveEpisode:
        """Returns an episode of a model whose state the server keeps. It begins with its first step.

        episode is an id of its own, such as "robot-7/42". attempt is how many seconds a step may take before it is sent
        again. outputs are those that are wanted, without the state if empty. After each checkpoint_every steps the state is
        fetched, with an answer. The first step asks the server what it keeps; state, the output of each input that is kept,
        is only needed where it may not be asked. It is compared else, and the step raises ValueError if it is wrong. windows
        of model.yaml have no checkpoint.
        """
        return LiveEpisode(self._once or self, model, episode, outputs=outputs, attempt=attempt, state=state,
                           checkpoint_every=checkpoint_every, version=version, label=label, priority=priority, target=target)

    def metadata(self, model: str, *, version: int | None = None, label: str | None = None,
                 timeout: float | None = None) -> pb.GetModelMetadataResponse:
        """Returns the signature of a model, and how it is served. Raises WeftError."""
        q = pb.GetModelMetadataRequest(model=_spec(model, version, label))
        metadata: pb.GetModelMetadataResponse = self._call(self._stub.GetModelMetadata, q, timeout)
        return metadata

    def report_outcome(self, model: str, episode: str, *, reward: float | None = None, success: bool | None = None,
                       metrics: Mapping[str, float] | None = None, version: int | None = None,
                       tables: Iterable[str] = (), timeout: float | None = None) -> pb.ReportOutcomeResponse:
        """Reports how an episode went, for comparing versions. Raises WeftError.

        tables are those of the answers (Answer.table): an episode that saw two counts for no comparison.
        """
        q = _report(model, episode, reward=reward, success=success, metrics=metrics, version=version, tables=tables)
        reported: pb.ReportOutcomeResponse = self._call(self._stub.ReportOutcome, q, timeout)
        return reported

    def push(self, path: str | os.PathLike[str], model: str, *, version: int | None = None, label: str | None = None,
             timeout: float | None = None) -> admin.UploadVersionResponse:
        """Uploads a version, and returns the server's answer when it is ready. Raises WeftError.

        The client is one of the server's admin address. path is an ONNX file, the YAML file of a pipeline, or a folder
        with model.onnx and its files of external data, or with pipeline.yaml. Without version it gets the number after
        the highest. label is moved to it. The answer's version is the number; served is false if the model's
        versions.policy does not select it, so that it is only stored.

        Without traffic the newest version answers, so this one does at once; `weft push --rollout` gives it a part of the
        requests. Warns if it does not answer because the traffic names others, or if it takes other inputs.
        """
        uploads = admin_stubs.AdminServiceStub(self._channel)
        before = self._answering(model, timeout)
        answer: admin.UploadVersionResponse = self._call(uploads.UploadVersion, _upload(path, model, version), timeout)
        if label is not None:
            self._call(uploads.SetLabel, admin.SetLabelRequest(model=model, label=label, version=answer.version), timeout)
        if answer.served and before is not None and (now := self._answering(model, timeout)) is not None:
            for fault in _changed(model, answer.version, before, now):
                warnings.warn(fault, stacklevel=2)
        return answer

    def _about(self, model: str, *, timeout: float | None) -> model_pb2.Model:
        service = model_stubs.ModelServiceStub(self._channel)
        about: models.GetModelResponse = self._call(service.GetModel, models.GetModelRequest(name=model), timeout)
        return about.model

    def _answering(self, model: str, timeout: float | None) -> _Inputs | None:
        """Returns the versions that the traffic names, or the newest one. None: the server does not say."""
        service = model_stubs.ModelServiceStub(self._channel)
        try:
            traffic = self._call(service.GetTraffic, models.GetTrafficRequest(model=model), timeout)
            found = self._about(model, timeout=timeout)
        except WeftError:
            return None
        rolled_back = {r.version for r in traffic.rolled_back}
        ready = [v.version for v in found.versions
                 if v.state == model_pb2.VERSION_STATE_READY and v.version not in rolled_back]
        chosen = [s.version for s in traffic.traffic.split if s.weight > 0] or ready[-1:]
        return {v.version: {t.name: (t.dtype, list(t.shape)) for t in v.signature.inputs}
                for v in found.versions if v.version in chosen}

    def _call(self, method: Any, request: Any, timeout: float | None) -> Any:
        began = time.monotonic()
        try:
            answer = method(request, timeout=timeout, metadata=_beside(self._metadata, request))
        except grpc.RpcError as error:
            raise self._failed(error, timeout, began) from None
        self._answered = True
        return answer

    def _failed(self, error: grpc.RpcError, timeout: float | None, began: float) -> WeftError:
        late = timeout is not None and time.monotonic() - began >= timeout
        alone = late and not self._answered and self._state() in _UNCONNECTED
        return WeftError(error, late=late, unconnected=_unconnected(self._address, timeout) if alone else "")

    def _state(self) -> grpc.ChannelConnectivity | None:
        """Returns the state of the connection, which gRPC tells from a thread of its own."""
        states: list[grpc.ChannelConnectivity] = []
        told = threading.Event()

        def tell(state: grpc.ChannelConnectivity) -> None:
            states.append(state)
            told.set()

        self._channel.subscribe(tell)
        told.wait(1)
        self._channel.unsubscribe(tell)
        return states[-1] if states else None

    def close(self) -> None:
        """Closes the connection; calls in flight fail."""
        self._channel.close()
        if self._once is not None:
            self._once.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncClient:
    """Client for asyncio: each method that calls is a coroutine."""

    def __init__(self, address: str = "127.0.0.1:9000", *, token: str | None = None, tls: Tls | None = None,
                 retries: bool = True, max_message_bytes: int = 16 << 20) -> None:
        self._address, self._answered, self._signatures = _checked(address), False, _Signatures()
        options = _options(retries, max_message_bytes)
        if tls is None:
            self._channel = grpc.aio.insecure_channel(address, options)
        else:
            self._channel = grpc.aio.secure_channel(address, _credentials(token, tls), options)
        self._stub = stubs.PredictionServiceStub(self._channel)
        self._metadata = _metadata(token, tls)
        # For episodes, whose steps have retries of their own: gRPC's can only be left out of a whole connection.
        self._once: AsyncClient | None = None
        if retries:
            self._once = AsyncClient(address, token=token, tls=tls, retries=False, max_message_bytes=max_message_bytes)

    async def predict(self, model: str, inputs: Mapping[str, npt.ArrayLike] | npt.ArrayLike, *, version: int | None = None,
                      label: str | None = None, outputs: Sequence[str] = (), episode: str = "",
                      begin_episode: bool = False, end_of_episode: bool = False, step: int = 0, request_id: str = "",
                      priority: Priority | None = None, target: float | None = None,
                      timeout: float | None = None) -> Answer:
        """See Client.predict."""
        began, of = time.monotonic(), (model, version, label)
        if self._signatures.wants(inputs, of):
            self._signatures.learn(of, await self.metadata(model, version=version, label=label, timeout=timeout))
            timeout = _left(timeout, began)
        q = _request(model, self._signatures.inputs(inputs, of), version=version, label=label, outputs=outputs,
                     episode=episode, begin_episode=begin_episode, end_of_episode=end_of_episode, step=step,
                     request_id=request_id, priority=priority, target=target)
        try:
            return Answer(await self._call(self._stub.Predict, q, timeout))
        except WeftError as error:
            if error.code is grpc.StatusCode.INVALID_ARGUMENT:
                self._signatures.forget(of)
            raise

    def episode(self, model: str, episode: str, *, outputs: Sequence[str] = (), attempt: float | None = None,
                checkpoint_every: int = 0, state: Mapping[str, str] | None = None, version: int | None = None,
                label: str | None = None, priority: Priority | None = None, target: float | None = None,
                ) -> AsyncLiveEpisode:
        """See Client.episode. This is no coroutine: its methods are."""
        return AsyncLiveEpisode(self._once or self, model, episode, outputs=outputs, attempt=attempt, state=state,
                                checkpoint_every=checkpoint_every, version=version, label=label, priority=priority,
                                target=target)

    async def metadata(self, model: str, *, version: int | None = None, label: str | None = None,
                       timeout: float | None = None) -> pb.GetModelMetadataResponse:
        """See Client.metadata."""
        q = pb.GetModelMetadataRequest(model=_spec(model, version, label))
        metadata: pb.GetModelMetadataResponse = await self._call(self._stub.GetModelMetadata, q, timeout)
        return metadata

    async def _about(self, model: str, *, timeout: float | None) -> model_pb2.Model:
        service = model_stubs.ModelServiceStub(self._channel)
        about: models.GetModelResponse = await self._call(service.GetModel, models.GetModelRequest(name=model), timeout)
        return about.model

    async def report_outcome(self, model: str, episode: str, *, reward: float | None = None, success: bool | None = None,
                             metrics: Mapping[str, float] | None = None, version: int | None = None,
                             tables: Iterable[str] = (), timeout: float | None = None) -> pb.ReportOutcomeResponse:
        """See Client.report_outcome."""
        q = _report(model, episode, reward=reward, success=success, metrics=metrics, version=version, tables=tables)
        reported: pb.ReportOutcomeResponse = await self._call(self._stub.ReportOutcome, q, timeout)
        return reported

    async def _call(self, method: Any, request: Any, timeout: float | None) -> Any:
        began = time.monotonic()
        try:
            answer = await method(request, timeout=timeout, metadata=_beside(self._metadata, request))
        except grpc.aio.AioRpcError as error:
            late = timeout is not None and time.monotonic() - began >= timeout
            alone = late and not self._answered and self._channel.get_state() in _UNCONNECTED
            raise WeftError(error, late=late, unconnected=_unconnected(self._address, timeout) if alone else "") from None
        self._answered = True
        return answer

    async def close(self) -> None:
        """Closes the connection; calls in flight fail."""
        await self._channel.close()
        if self._once is not None:
            await self._once.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()
