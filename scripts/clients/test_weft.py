"""The Python client of Weft against a server."""

import asyncio
import concurrent.futures
import importlib.metadata
import math
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2

import echo
import serving
import weft
from weft.v1 import model_service_pb2 as models, model_service_pb2_grpc as model_stubs
from weft.v1 import prediction_service_pb2 as pb, prediction_service_pb2_grpc as stubs


class Pole:
    """A pole balanced on a cart (after Barto, Sutton and Anderson 1983), without gusts: as Gymnasium has it."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.state = np.zeros(4)

    def reset(self, seed=None):
        self.random = self.random if seed is None else np.random.default_rng(seed)
        self.state = self.random.uniform(-0.05, 0.05, 4)
        return self.state, {}

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 * float(np.clip(action, -1, 1))
        pushed = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = (9.8 * math.sin(angle) - math.cos(angle) * pushed) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
        push = pushed - 0.05 * turn * math.cos(angle) / 1.1
        self.state = np.array([x + 0.02 * v, v + 0.02 * push, angle + 0.02 * spin, spin + 0.02 * turn])
        return self.state, 1.0, bool(abs(x) > 2.4 or abs(angle) > 0.21), False, {}


def act(answer):
    return answer["action"][0, 0]


class Refuses(stubs.PredictionServiceServicer):
    """Refuses every request but the last one of each model, NAME:CODE:PUSHBACK, by the code and with the pushback."""

    def __init__(self, times):
        self.times, self.asked = times, {}

    def Predict(self, request, context):
        name = request.model.name
        self.asked[name] = self.asked.get(name, 0) + 1
        if self.asked[name] <= self.times:
            _, code, pushback = name.split(":")
            if pushback:
                context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
            context.abort(grpc.StatusCode[code], "no")
        return pb.PredictResponse(model=request.model)


class Keeps(Refuses, model_stubs.ModelServiceServicer):
    """Says what it keeps, if it may. It is full but for every fourth request, which it does not answer."""

    def __init__(self):
        super().__init__(0)
        self.kept, self.code = [], None

    def GetModelMetadata(self, request, context):
        return pb.GetModelMetadataResponse(model={"name": "m", "version": 1}, signature={"outputs": [{"name": "y"}]})

    def GetModel(self, request, context):
        if self.code is not None:
            context.abort(self.code, "no")
        versions = [{"version": 2, "state": "VERSION_STATE_FAILED", "kept_inputs": [{"input": "s", "output": "y"}]},
                    {"version": 1, "state": "VERSION_STATE_READY", "kept_inputs": self.kept}]
        return models.GetModelResponse(model={"name": "m", "versions": versions})

    def Predict(self, request, context):
        self.asked["m"] = self.asked.get("m", 0) + 1
        if self.asked["m"] % 4 == 0:
            while context.is_active():
                time.sleep(0.01)
        details = status_pb2.Status(code=8, message="full")
        details.details.add().Pack(error_details_pb2.ErrorInfo(reason="EPISODES_FULL", metadata={"limit": "3"}))
        details.details.add().Pack(error_details_pb2.RetryInfo(retry_delay={"nanos": 10_000_000}))
        context.set_trailing_metadata((("grpc-retry-pushback-ms", "10"),
                                       ("grpc-status-details-bin", details.SerializeToString())))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")


class Checkpoints(unittest.TestCase):
    """What an episode with checkpoints asks a server first, and how it fails where that is full."""

    def setUp(self):
        self.keeps = Keeps()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        stubs.add_PredictionServiceServicer_to_server(self.keeps, server)
        model_stubs.add_ModelServiceServicer_to_server(self.keeps, server)
        self.address = "127.0.0.1:%d" % server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)

    def step(self, **options):
        with weft.Client(self.address) as client:
            client.episode("m", "e", **options).step({"x": np.zeros((1, 1))}, timeout=2)

    def test_kept(self):
        pair, window = {"input": "s", "output": "sn"}, {"input": "f", "window": 4, "output": "y"}
        for kept, code, state, says in (
            ([], None, None, r"keeps no state \(state in model.yaml\): leave it out"),
            ([window], None, None, "keeps only windows, which have no checkpoint: leave it out"),
            ([pair, window], None, {"s": "sn", "f": "y"}, "'f' is no input with an output that the server keeps"),
            ([pair, {"input": "c", "output": "cn"}], None, {"s": "sn"}, "'c' with the output 'cn' is missing; leave it out"),
            ([], "PERMISSION_DENIED", None, "expected state, as pairs of model.yaml, since the server does not tell it: PERM"),
        ):
            self.keeps.kept, self.keeps.code = kept, code and grpc.StatusCode[code]
            with self.subTest(says=says), self.assertRaisesRegex(ValueError, says):
                self.step(checkpoint_every=1, state=state)
        self.assertEqual({}, self.keeps.asked)

    def test_full(self):
        """A server that is full is not said to be slow."""
        async def ask():
            async with weft.AsyncClient(self.address) as client:
                await client.episode("m", "e").step({"x": np.zeros((1, 1))}, timeout=2)

        self.keeps.code = grpc.StatusCode.UNIMPLEMENTED
        for way in (self.step, lambda: self.step(checkpoint_every=1, state={"s": "sn"}), lambda: asyncio.run(ask())):
            self.keeps.asked.clear()
            with self.assertRaisesRegex(weft.WeftError, "the attempt before was refused: RESOURCE_EXHAUSTED: full") as caught:
                way()
            self.assertEqual(("DEADLINE_EXCEEDED", "EPISODES_FULL", {"limit": "3"}),
                             (caught.exception.code.name, caught.exception.reason, caught.exception.metadata))
            self.assertEqual(4, self.keeps.asked["m"])


class Retries(unittest.TestCase):
    """What is sent again, and when: as the server says."""

    def setUp(self):
        self.refuses = Refuses(2)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        stubs.add_PredictionServiceServicer_to_server(self.refuses, server)
        self.address = "127.0.0.1:%d" % server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)

    def asks(self, retries):
        """Ways to ask."""
        def ask(model):
            with weft.Client(self.address, retries=retries) as client:
                client.predict(model, {}, timeout=20)

        def ask_async(model):
            async def run():
                async with weft.AsyncClient(self.address, retries=retries) as client:
                    await client.predict(model, {}, timeout=20)
            asyncio.run(run())

        return {"sync": ask, "async": ask_async}

    def test_pushback(self):
        for code, pushback, times in (
            ("RESOURCE_EXHAUSTED", "", 3), ("UNAVAILABLE", "", 3), ("RESOURCE_EXHAUSTED", "300", 3),
            ("RESOURCE_EXHAUSTED", "-1", 1), ("UNAVAILABLE", "-1", 1),
            ("INVALID_ARGUMENT", "", 1), ("DEADLINE_EXCEEDED", "", 1), ("INTERNAL", "", 1),
        ):
            for way, ask in self.asks(retries=True).items():
                with self.subTest(code=code, pushback=pushback, way=way):
                    model = ":".join((way, code, pushback))
                    began = time.monotonic()
                    if times == 1:
                        self.refused(code, ask, model)
                    else:
                        ask(model)
                    self.assertEqual(times, self.refuses.asked[model])
                    if pushback == "300":  # two waits of more than the client's own, which are 0.05 and 0.1 s at most
                        self.assertGreater(time.monotonic() - began, 0.59)

    def test_none(self):
        for way, ask in self.asks(retries=False).items():
            self.refused("RESOURCE_EXHAUSTED", ask, way + ":RESOURCE_EXHAUSTED:0")
            self.assertEqual(1, self.refuses.asked[way + ":RESOURCE_EXHAUSTED:0"])

    def test_late(self):
        """A stream that the server resets at the deadline is late, too; one that it resets before was cancelled."""
        class Reset(grpc.RpcError):
            code = staticmethod(lambda: grpc.StatusCode.CANCELLED)
            details = staticmethod(lambda: "Stream removed")
            trailing_metadata = staticmethod(tuple)

        for late, code in ((True, "DEADLINE_EXCEEDED"), (False, "CANCELLED")):
            self.assertEqual(code, weft.WeftError(Reset(), late=late).code.name)

    def refused(self, code, ask, model):
        """Wants a request to fail."""
        with self.assertRaises(weft.WeftError) as caught:
            ask(model)
        self.assertEqual(code, caught.exception.code.name)


class Wheel(unittest.TestCase):
    """The package as it is installed."""

    def test_requirements(self):
        """The package asks for what its generated files ask for: older releases are refused when they are imported."""
        declared = dict(re.match(r"([a-z-]+)>=([0-9.]+)", r).groups() for r in importlib.metadata.requires("weftserve-client"))
        generated = pathlib.Path(stubs.__file__).read_text(encoding="utf-8")
        self.assertEqual(re.search(r"GRPC_GENERATED_VERSION = '(.+)'", generated)[1], declared["grpcio"])
        generated = pathlib.Path(pb.__file__).read_text(encoding="utf-8")
        self.assertEqual(re.search(r"# Protobuf Python Version: (.+)", generated)[1], declared["protobuf"])


class Weft(unittest.TestCase):
    """Calls of weft.Client and weft.AsyncClient."""

    @classmethod
    def setUpClass(cls):
        cls.server = serving.Server(models=echo.models())
        cls.addClassCleanup(cls.server.close)
        cls.examples = serving.Server()
        cls.addClassCleanup(cls.examples.close)
        cls.client = weft.Client(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def test_types(self):
        for name, (dtype, _) in echo.TYPES.items():
            with self.subTest(type=name):
                x = np.array([[b"\xff\x00", b""]], dtype=object) if name == "BYTES" else np.array([[0, 1]], dtype=dtype)
                answer = self.client.predict("echo_" + name.lower(), {"x": x})
                np.testing.assert_array_equal(x, answer["y"])
                self.assertEqual(x.dtype, answer["y"].dtype)
        np.testing.assert_array_equal([[b"a", b"b"]], self.client.predict("echo_bytes", {"x": [["a", "b"]]})["y"])
        np.testing.assert_array_equal([[0.5, 1]], self.client.predict("echo_fp32", {"x": [[0.5, 1.0]]})["y"])
        np.testing.assert_array_equal([[0, 1]], self.client.predict("echo_int64", {"x": [[0, 1]]})["y"])
        big_endian = np.array([[1, 2]], dtype=">f4")
        np.testing.assert_array_equal(big_endian, self.client.predict("echo_fp32", {"x": big_endian})["y"])
        transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
        np.testing.assert_array_equal(transposed, self.client.predict("echo_fp32", {"x": transposed})["y"])

    def test_convenience(self):
        """What people type: a bare array, lists of numbers, and print."""
        x = np.array([[1, 2]], np.float32)
        self.assertEqual("<weft.Answer of echo_fp32 version 2: y=array([[1., 2.]], dtype=float32)>",
                         repr(self.client.predict("echo_fp32", x)))
        for dtype in ("fp32", "fp16", "int8", "int64"):
            for given in ([[1, 2]], {"x": [[1, 2]]}):
                np.testing.assert_array_equal(x, self.client.predict("echo_" + dtype, given)["y"])
        for given in ([[1, 300]], [[0.5, 1.5]]):  # not what the type holds
            with self.assertRaises(weft.WeftError) as caught:
                self.client.predict("echo_int8", given)
            self.assertIn('inputs["x"].dtype', str(caught.exception))
        signatures = weft._client._Signatures()
        two = pb.GetModelMetadataResponse()
        two.signature.inputs.add(name="a")
        two.signature.inputs.add(name="b")
        signatures.learn(("m", None, None), two)
        with self.assertRaisesRegex(TypeError, "model 'm' takes 2 inputs: expected a dict of arrays by the names 'a', 'b', "
                                    "found ndarray"):
            signatures.inputs(x, ("m", None, None))
        self.assertEqual(importlib.metadata.version("weftserve-client"), weft.__version__)

    def test_nobody_listens(self):
        with socket.socket() as listener:  # takes connections, and says nothing
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            address = "127.0.0.1:%d" % listener.getsockname()[1]
            says = "^DEADLINE_EXCEEDED: no connection to %s within 50 ms: does the server run\\?$" % address

            async def ask():
                async with weft.AsyncClient(address) as client:
                    await client.predict("m", {}, timeout=0.05)

            with self.assertRaisesRegex(weft.WeftError, says), weft.Client(address) as client:
                client.predict("m", {}, timeout=0.05)
            with self.assertRaisesRegex(weft.WeftError, says), weft.Client(address) as client, client.stream() as stream:
                stream.predict("m", {}, timeout=0.05)
            with self.assertRaisesRegex(weft.WeftError, says):
                asyncio.run(ask())
        with self.assertRaisesRegex(ValueError, "expected HOST:PORT, without http://, "):
            weft.Client("http://127.0.0.1:9001")

    def test_texts(self):
        for given, sent in (([b"ab\0", b"c\0\0"], [b"ab\0", b"c\0\0"]), (["a\0"], [b"a\0"]),
                            ([b"\xffab", "x"], [b"\xffab", b"x"])):
            self.assertEqual(list(weft._tensor.to_message("x", given).string_values), sent)
        with self.assertRaises(TypeError):
            weft._tensor.to_message("x", ["a", 1])

    def test_choice(self):
        x = {"x": np.zeros((1, 2), np.float32)}
        answer = self.client.predict("echo_fp32", x)
        self.assertEqual(("echo_fp32", 2, ["y"]), (answer.model, answer.version, list(answer)))
        self.assertEqual(1, self.client.predict("echo_fp32", x, version=1).version)
        self.assertGreater(answer.execution.batch_rows, 0)
        signature = self.client.metadata("echo_fp32").signature
        self.assertEqual(["x"], [t.name for t in signature.inputs])
        with self.assertRaises(ValueError):
            self.client.predict("echo_fp32", x, version=1, label="a")

    def test_errors(self):
        x = {"x": np.zeros((1, 2), np.float32)}
        for code, text, call in (
            ("NOT_FOUND", 'no model is named "nope"', lambda: self.client.predict("nope", x)),
            ("INVALID_ARGUMENT", 'inputs["x"].dtype', lambda: self.client.predict("echo_fp32", {"x": np.zeros((1, 2))})),
            ("INVALID_ARGUMENT", 'inputs["x"]', lambda: self.client.predict("echo_fp32", {})),
        ):
            with self.assertRaises(weft.WeftError) as caught:
                call()
            self.assertEqual(code, caught.exception.code.name)
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(weft.WeftError) as caught:
            self.client.predict("slow", {"x": np.zeros((1, 4), np.float32)}, timeout=0.005)
        self.assertIn(caught.exception.code.name, ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"))
        with self.assertRaises(TypeError):
            self.client.predict("echo_fp32", {"x": np.zeros((1, 2), np.complex64)})

    def test_retries(self):
        """A full server is asked again, when it says so, until there is room."""
        server = serving.Server("--max-concurrent-requests", "1", models=echo.models())
        self.addCleanup(server.close)
        faults = []

        def ask(client, expected):
            try:
                client.predict("slow", {"x": np.zeros((1, 4), np.float32)}, timeout=30)
            except weft.WeftError as error:
                if error.reason != expected:
                    faults.append(error)

        for retries, expected in ((True, None), (False, "SERVER_FULL")):
            with weft.Client(server.address, retries=retries) as client:
                threads = [threading.Thread(target=ask, args=(client, expected)) for _ in range(2)]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
        self.assertEqual([], faults)

    def test_push(self):
        """A version that is uploaded answers when the call ends, and gets its label; one that is there is refused."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        repository = shutil.copytree(serving.EXAMPLES, folder / "models")
        file = repository / "cartpole" / "3" / "model.onnx"
        server = serving.Server(models=str(repository))
        self.addCleanup(server.close)
        with weft.Client(server.admin) as operator, weft.Client(server.address) as client:
            pushed = operator.push(file, "cartpole", label="best")
            self.assertEqual((4, True), (pushed.version, pushed.served))
            answer = client.predict("cartpole", {"observation": np.zeros((1, 4), np.float32)}, label="best")
            self.assertEqual(4, answer.version)
            self.assertEqual(1, operator.push(file.parent, "fresh").version)
            pipeline = folder / "joined.yaml"
            pipeline.write_text("steps: [{name: act, model: cartpole, version: 3, inputs: {observation: observation}}]\n"
                                "outputs: {action: act.action}\n")
            self.assertEqual(1, operator.push(pipeline, "joined").version)
            with self.assertWarnsRegex(UserWarning, "version 2 of fresh takes other inputs than version 1, .*: observation"):
                operator.push(repository / "hopper" / "3" / "model.onnx", "fresh")
            subprocess.run([serving.WEFT, "traffic", "cartpole", "3=100", "--admin", server.admin], check=True,
                           stdout=subprocess.DEVNULL)
            with self.assertWarnsRegex(UserWarning, "version 5 of cartpole answers no request .*the traffic names 3; "
                                       "`weft traffic cartpole 5=100`, or `weft rollout start cartpole --baseline 3 "):
                operator.push(file, "cartpole")
            with self.assertRaises(weft.WeftError) as caught:
                operator.push(file, "cartpole", version=4)
            self.assertEqual(("ALREADY_EXISTS", "VERSION_EXISTS"), (caught.exception.code.name, caught.exception.reason))
            with self.assertRaises(FileNotFoundError):
                operator.push(folder / "absent.onnx", "cartpole")
            graph = folder / "graph.onnx"  # with an initializer in weights.bin
            graph.write_bytes(b"\x3a\x1d\x2a\x1b\x6a\x17\x0a\x08location\x12\x0bweights.bin\x70\x01")
            with self.assertRaises(weft.WeftError) as caught:
                operator.push(graph, "cartpole")
            self.assertEqual("INVALID_ARGUMENT", caught.exception.code.name)
            self.assertIn('"weights.bin"', str(caught.exception))

    def test_async(self):
        async def ask():
            async with weft.AsyncClient(self.server.address) as client:
                answers = await asyncio.gather(*(
                    client.predict("echo_fp32", {"x": np.full((1, 2), n, np.float32)}) for n in range(100)))
                with self.assertRaises(weft.WeftError):
                    await client.predict("nope", {})
                return answers, await client.metadata("echo_fp32")

        answers, metadata = asyncio.run(ask())
        self.assertEqual(list(range(100)), [int(a["y"][0, 0]) for a in answers])
        self.assertEqual("echo_fp32", metadata.model.name)

    def test_episode(self):
        with weft.Client(self.examples.address) as client:
            played = weft.run_episode(client, "cartpole", Pole(1), input="observation", act=act, max_steps=300)
        self.assertEqual((300, 300.0, 0), (played.steps, played.reward, played.late))
        self.assertEqual(3, played.version)

    def test_episode_by_choice(self):
        """Seed, episode and version are the caller's, and the same again gives the same."""
        with weft.Client(self.examples.address) as client:
            played = [weft.run_episode(client, "cartpole", Pole(n), input="observation", act=act, max_steps=300, seed=5,
                                       episode="mine", version=1) for n in range(2)]
        self.assertEqual(("mine", 1), (played[0].id, played[0].version))
        self.assertLess(played[0].steps, 300)
        self.assertEqual(played[0], played[1])

    def test_episode_in_time(self):
        """The first step waits for its action; the later ones repeat it where no answer comes in time."""
        with weft.Client(self.server.address) as client:
            played = weft.run_episode(client, "slow", Pole(1), input="x", act=lambda answer: 0.0, max_steps=5, timeout=0.005)
        self.assertEqual((5, 4), (played.steps, played.late))

    def test_episode_of_integers(self):
        """Observations keep their type, but for float64."""
        class Pixels(Pole):
            def reset(self, seed=None):
                return np.array([1, 2], np.int8), {}

        with weft.Client(self.server.address) as client:
            played = weft.run_episode(client, "echo_int8", Pixels(1), input="x", act=lambda a: a["y"][0, 1], max_steps=1)
        self.assertEqual(1, played.steps)

    def test_episode_of_a_model_that_goes(self):
        """What will not pass ends the episode, without a report."""
        class Leaves(weft.Client):
            asked = 0

            def predict(self, model, *args, **kwargs):
                self.asked += 1
                return super().predict(model if self.asked == 1 else "nope", *args, **kwargs)

        with Leaves(self.examples.address) as client:
            with self.assertRaises(weft.WeftError) as caught:
                weft.run_episode(client, "cartpole", Pole(1), input="observation", act=act)
        self.assertEqual(("NOT_FOUND", 2), (caught.exception.code.name, client.asked))

    def test_episodes(self):
        async def play():
            async with weft.AsyncClient(self.examples.address) as client:
                return await asyncio.gather(*(
                    weft.run_episode_async(client, "cartpole", Pole(n), input="observation", act=act, max_steps=200)
                    for n in range(16)))

        for played in asyncio.run(play()):
            self.assertEqual(200, played.steps)


if __name__ == "__main__":
    unittest.main()
