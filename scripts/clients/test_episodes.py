"""Clients of a model whose state the server keeps: Triton's, as it is, and ours."""

import asyncio
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import unittest
import wave

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
                                         state={"s": "sn"} if every == 3 else None)
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

    def test_weft_async(self):
        async def play(client, name):
            episode = client.episode("memory", name, checkpoint_every=3)
            for i, want in enumerate(alone(range(8))):
                if i == 5:
                    await asyncio.to_thread(self.lose, name)
                answer = await episode.step({"x": [[i]]}, timeout=30)
                self.assertEqual({"y": want}, {name: array[0, 0] for name, array in answer.items()})
            await episode.end()

        async def play_all():
            async with weft.AsyncClient(self.server.address) as client:
                await asyncio.gather(*(play(client, "async/%d" % n) for n in range(8)))
        asyncio.run(play_all())

    def test_weft_state(self):
        """A state that is not as the server has it is refused before the first step."""
        with weft.Client(self.server.address) as client:
            for state, says in (
                ({"s": "y"}, "'s' has the output 'sn', got 'y'; leave it out to have the server's"),
                ({"z": "sn"}, "'s' with the output 'sn' is missing; 'z' is no input with an output that the server keeps"),
            ):
                with self.assertRaisesRegex(ValueError, "^state of model 'memory': " + says):
                    client.episode("memory", "wrong", checkpoint_every=1, state=state).step({"x": [[1]]})

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


EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def example(name, *args):
    """What an example prints, line by line."""
    return subprocess.run([sys.executable, EXAMPLES / name, *args], check=True, stdout=subprocess.PIPE, text=True,
                          timeout=120).stdout.splitlines()


class Examples(unittest.TestCase):
    """The examples of examples/python, as their user runs them."""

    def test_positions(self):
        server = serving.Server()
        self.addCleanup(server.close)
        self.assertEqual(["the pole stood after 500 steps"], example("positions.py", server.address))

    @unittest.skipUnless(os.environ.get("WEFT_TEST_MODELS"), "WEFT_TEST_MODELS does not name a folder with silero_vad")
    def test_vad(self):
        """The probabilities are those of a client that passes the state on."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copytree(os.path.join(os.environ["WEFT_TEST_MODELS"], "silero_vad"), folder / "models" / "silero_vad")
        (folder / "models/silero_vad/model.yaml").write_text("state: {pairs: [{input: state, output: stateN}]}\n")
        noise = np.random.default_rng(1).normal(0, 2000, 40 * 512 + 100).astype("<i2")
        with wave.open(str(folder / "noise.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(noise.tobytes())
        server = serving.Server(models=str(folder / "models"))
        self.addCleanup(server.close)
        said = [float(line.split()[2]) for line in example("vad.py", folder / "noise.wav", server.address)]
        samples = np.pad(noise / np.float32(32768), (64, 412)).astype(np.float32)
        state = np.zeros((2, 1, 128), np.float32)
        with weft.Client(server.address) as client:
            for n in range(41):
                answer = client.predict("silero_vad", {
                    "input": samples[np.newaxis, 512 * n:512 * n + 576], "sr": np.array(16000), "state": state})
                state = answer["stateN"]
                self.assertAlmostEqual(answer["output"][0, 0], said[n], delta=0.001)
        self.assertEqual(41, len(said))
