"""Clients of a model whose state the server keeps: Triton's, as it is, and ours."""

import asyncio
import os
import queue
import tempfile
import unittest

import numpy as np
import onnx
import tritonclient.grpc as triton
import tritonclient.http as web
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

import serving
import weft


def write_model(folder):
    """Writes memory, with the outputs y and sn, s*3+x: s is sn in the next step, and reset is 1 in the first one."""
    def number(name):
        return helper.make_tensor_value_info(name, TensorProto.INT64, ["rows", 1])

    def constant(name, value):
        return helper.make_tensor(name, TensorProto.INT64, [1], [value])

    graph = helper.make_graph(
        [helper.make_node("Mul", ["s", "three"], ["more"]), helper.make_node("Add", ["more", "x"], ["sum"]),
         helper.make_node("Mul", ["reset", "thousand"], ["begun"]), helper.make_node("Add", ["sum", "begun"], ["sn"]),
         helper.make_node("Identity", ["sn"], ["y"])],
        "memory", [number("x"), number("s"), number("reset")], [number("y"), number("sn")],
        [constant("three", 3), constant("thousand", 1000)],
    )
    os.makedirs(os.path.join(folder, "memory", "1"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              os.path.join(folder, "memory", "1", "model.onnx"))
    with open(os.path.join(folder, "memory", "model.yaml"), "w", encoding="utf-8") as manifest:
        manifest.write("state: {pairs: [{input: s, output: sn}], start: reset}\n")


def alone(values, state=0, begun=1000):
    """Yields what the model answers to one row after the other."""
    for x in values:
        state = 3 * state + x + begun
        begun = 0
        yield state


def tensor(of, x):
    """The input of a step, by Triton's client."""
    made = of.InferInput("x", [1, 1], "INT64")
    made.set_data_from_numpy(np.array([[x]], np.int64))
    return [made]


class Episodes(unittest.TestCase):
    """Episodes of a real server."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        write_model(folder)
        cls.server = serving.Server(models=folder)
        cls.addClassCleanup(cls.server.close)

    def test_triton(self):
        for of, address in ((triton, self.server.address), (web, self.server.http)):
            client = of.InferenceServerClient(address)
            self.addCleanup(client.close)
            for sequence in (7, "a text"):
                with self.subTest(of=of.__name__, sequence=sequence):
                    for i, want in enumerate(alone(range(5))):
                        answer = client.infer("memory", tensor(of, i), sequence_id=sequence, sequence_start=i == 0,
                                              sequence_end=i == 4)
                        self.assertEqual(want, answer.as_numpy("y")[0, 0])
                        self.assertIsNone(answer.as_numpy("sn"))
                    with self.assertRaises(InferenceServerException) as caught:
                        client.infer("memory", tensor(of, 1), sequence_id=sequence)
                    self.assertIn("no state for episode", caught.exception.message())

    def test_triton_stream(self):
        client, answers = triton.InferenceServerClient(self.server.address), queue.Queue()
        self.addCleanup(client.close)
        client.start_stream(lambda result, error: answers.put((result, error)))
        self.addCleanup(client.stop_stream)
        for i in range(100):
            for sequence in (1, 2, 3):
                client.async_stream_infer("memory", tensor(triton, i % 7 + sequence), request_id="%d %d" % (sequence, i),
                                          sequence_id=sequence, sequence_start=i % 25 == 0, sequence_end=i % 25 == 24)
        want = {"%d %d" % (sequence, 25 * part + i): y for sequence in (1, 2, 3) for part in range(4)
                for i, y in enumerate(alone([(25 * part + i) % 7 + sequence for i in range(25)]))}
        for _ in range(300):
            result, error = answers.get(timeout=30)
            self.assertIsNone(error)
            self.assertEqual(want.pop(result.get_response().id), result.as_numpy("y")[0, 0])

    def test_triton_facts(self):
        client = triton.InferenceServerClient(self.server.address)
        self.addCleanup(client.close)
        self.assertEqual(["x"], [i.name for i in client.get_model_metadata("memory").inputs])
        config = client.get_model_config("memory", as_json=True)["config"]
        self.assertEqual(["x"], [i["name"] for i in config["input"]])
        self.assertEqual(("s", "sn"), tuple(config["sequence_batching"]["state"][0][k] for k in ("input_name", "output_name")))

    def test_weft(self):
        with weft.Client(self.server.address) as client:
            for every in (0, 1, 3, 100):
                episode = client.episode("memory", "sync/%d" % every, outputs=["y"], attempt=5, checkpoint_every=every,
                                         state={"s": "sn"} if every else None)
                for i, want in enumerate(alone(range(8))):
                    if every and i == 5:
                        self.lose("sync/%d" % every)
                    answer = episode.step({"x": [[i]]}, timeout=30)
                    self.assertEqual({"y": want}, {name: array[0, 0] for name, array in answer.items()})
                episode.end(timeout=30)
                episode.end(timeout=30)
                with self.assertRaises(weft.WeftError) as caught:
                    client.predict("memory", {"x": [[1]]}, episode="sync/%d" % every, step=5000)
                self.assertEqual("EPISODE_LOST", caught.exception.reason)
            with self.assertRaises(ValueError):
                client.episode("memory", "wrong", checkpoint_every=1)

    def test_weft_async(self):
        async def play(client, name):
            episode = client.episode("memory", name, outputs=["y"], checkpoint_every=3, state={"s": "sn"})
            for i, want in enumerate(alone(range(8))):
                if i == 5:
                    await asyncio.to_thread(self.lose, name)
                self.assertEqual(want, (await episode.step({"x": [[i]]}, timeout=30))["y"][0, 0])
            await episode.end()

        async def play_all():
            async with weft.AsyncClient(self.server.address) as client:
                await asyncio.gather(*(play(client, "async/%d" % n) for n in range(8)))
        asyncio.run(play_all())

    def test_weft_lost(self):
        """Without checkpoints the caller hears of it, each time."""
        with weft.Client(self.server.address) as client:
            episode = client.episode("memory", "lost")
            episode.step({"x": [[1]]})
            self.lose("lost")
            for _ in range(2):
                with self.assertRaises(weft.WeftError) as caught:
                    episode.step({"x": [[1]]})
                self.assertEqual("EPISODE_LOST", caught.exception.reason)

    def lose(self, episode):
        """Has the server lose an episode."""
        with weft.Client(self.server.address) as client:
            client.predict("memory", {"x": [[0]]}, episode=episode, step=1000, end_of_episode=True)
