"""The Python client of Weft against a server."""

import asyncio
import math
import threading
import unittest

import numpy as np

import echo
import serving
import weft


class Pole:
    """A pole balanced on a cart (after Barto, Sutton and Anderson 1983), without gusts: as Gymnasium has it."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.state = np.zeros(4)

    def reset(self):
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
        big_endian = np.array([[1, 2]], dtype=">f4")
        np.testing.assert_array_equal(big_endian, self.client.predict("echo_fp32", {"x": big_endian})["y"])
        transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
        np.testing.assert_array_equal(transposed, self.client.predict("echo_fp32", {"x": transposed})["y"])

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
