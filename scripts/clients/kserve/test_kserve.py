"""KServe's own client of both versions of its protocol, against a Weft server."""

import asyncio
import os
import sys
import unittest

import httpx
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import Server  # noqa: E402

ROW = [0.0, 0.1, 0.05, -0.2]


class KServe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.url = "http://" + cls.server.http

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def test_version_1(self):
        async def ask():
            client = InferenceRESTClient(RESTConfig(protocol="v1"))
            self.assertTrue(await client.is_server_live(self.url))
            self.assertTrue(await client.is_model_ready(self.url, "cartpole"))
            with self.assertRaisesRegex(httpx.HTTPStatusError, 'no model is named "none"'):
                await client.is_model_ready(self.url, "none")
            answer = await client.infer(self.url, {"instances": [ROW, ROW]}, model_name="cartpole")
            self.assertEqual(np.shape(answer["predictions"]), (2, 1))
            await client.close()

        asyncio.run(ask())

    def test_version_2(self):
        async def ask():
            client = InferenceRESTClient(RESTConfig(protocol="v2"))
            self.assertTrue(await client.is_server_live(self.url))
            self.assertTrue(await client.is_server_ready(self.url))
            self.assertTrue(await client.is_model_ready(self.url, "cartpole"))
            self.assertFalse(await client.is_model_ready(self.url, "none"))
            for binary in (False, True):
                x = InferInput("observation", [1, 4], "FP32")
                x.set_data_from_numpy(np.array([ROW], np.float32), binary_data=binary)
                answer = await client.infer(self.url, InferRequest("cartpole", [x]), model_name="cartpole")
                self.assertEqual(answer.outputs[0].as_numpy().shape, (1, 1))
            await client.close()

        asyncio.run(ask())


if __name__ == "__main__":
    unittest.main()
