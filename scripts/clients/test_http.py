"""What people type: the lines of TensorFlow Serving's REST API with curl, and Python without a client."""

import json
import os
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import onnx
from onnx import TensorProto, helper

import serving


def half_plus_two(path):
    """Writes TensorFlow Serving's first example, x / 2 + 2, as ONNX."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows"])
    constants = [helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("half", 0.5), ("two", 2.0))]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "half"], ["h"]), helper.make_node("Add", ["h", "two"], ["y"])],
        "half_plus_two", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class HTTP(unittest.TestCase):
    """half_plus_two.onnx, served by its file."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = os.path.join(folder.name, "half_plus_two.onnx")
        half_plus_two(path)
        cls.server = serving.Server(models=path)
        cls.addClassCleanup(cls.server.close)
        cls.model = "http://%s/v1/models/half_plus_two" % cls.server.http

    def curl(self, *arguments):
        """The answer of curl, as JSON."""
        return json.loads(subprocess.run(["curl", "--silent", *arguments], check=True, capture_output=True).stdout)

    def test_curl(self):
        for body, want in (
            ('{"instances": [1.0, 2.0, 5.0]}', {"predictions": [2.5, 3.0, 4.5]}),
            ('{"instances": [{"x": 1.0}, {"x": 2.0}]}', {"predictions": [2.5, 3.0]}),
            ('{"inputs": [1.0, 2.0, 5.0]}', {"outputs": [2.5, 3.0, 4.5]}),
            ('{"signature_name": "serving_default", "inputs": {"x": [1.0]}}', {"outputs": [2.5]}),
        ):
            self.assertEqual(want, self.curl("-d", body, "-X", "POST", self.model + ":predict"))
            self.assertEqual(want, self.curl("-d", body, self.model + "/versions/1:predict"))
        states = self.curl(self.model)["model_version_status"]
        self.assertEqual([("1", "AVAILABLE")], [(s["version"], s["state"]) for s in states])
        signature = self.curl(self.model + "/metadata")["metadata"]["signature_def"]["signature_def"]["serving_default"]
        self.assertEqual("DT_FLOAT", signature["inputs"]["x"]["dtype"])
        self.assertIn("the nearest is POST /v1/models/{model}:predict", self.curl(self.model + ":predict")["error"])

    def test_python(self):
        def post(path, body):
            request = urllib.request.Request("http://%s%s" % (self.server.http, path), json.dumps(body).encode())
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        for body in ({"inputs": [{"name": "x", "data": [1, 2]}]}, {"inputs": {"x": [1, 2]}}, {"x": [1, 2]}, [1, 2]):
            answer = post("/v2/models/half_plus_two/infer", body)
            self.assertEqual([2.5, 3.0], answer["outputs"][0]["data"], body)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            post("/v1/models/half_plus_two:predict", {"instances": ["a"]})
        self.assertEqual(400, refused.exception.code)
        self.assertIn("DT_FLOAT", json.load(refused.exception)["error"])


if __name__ == "__main__":
    unittest.main()
