"""A Weft server for the tests of clients, with models that give back what they get."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

WEFT = os.environ.get("WEFT", "bin/weft")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "models")

# The element types that clients send: the protocol's name, numpy's, and that of ONNX.
TYPES = {
    "FP32": (np.float32, TensorProto.FLOAT),
    "FP16": (np.float16, TensorProto.FLOAT16),
    "INT8": (np.int8, TensorProto.INT8),
    "INT64": (np.int64, TensorProto.INT64),
    "BOOL": (np.bool_, TensorProto.BOOL),
    "BYTES": (np.object_, TensorProto.STRING),
}

SLOW = """
synth:
  base: 50ms
  per_row: 0ms
  jitter: 0.0
  inputs: {x: {dtype: fp32, shape: [-1, 4]}}
  outputs: {y: {dtype: fp32, shape: [-1, 4]}}
"""


def write_models(folder):
    """Writes a model echo_TYPE for each element type, two versions of echo_fp32, and one that takes 50 ms."""
    for name, (_, element) in TYPES.items():
        shape = ["rows", 2]
        graph = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])],
            "echo",
            [helper.make_tensor_value_info("x", element, shape)],
            [helper.make_tensor_value_info("y", element, shape)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        for version in ("1", "2") if name == "FP32" else ("1",):
            path = os.path.join(folder, "echo_" + name.lower(), version)
            os.makedirs(path)
            onnx.save(model, os.path.join(path, "model.onnx"))
    with open(os.path.join(folder, "echo_fp32", "model.yaml"), "w", encoding="utf-8") as manifest:
        manifest.write("versions: {policy: all}\nbatching: {max_request_rows: 50000}\n")
    os.makedirs(os.path.join(folder, "slow", "1"))
    with open(os.path.join(folder, "slow", "model.yaml"), "w", encoding="utf-8") as manifest:
        manifest.write(SLOW)


class Server:
    """A server that runs until close(). address and admin are where it listens."""

    def __init__(self, *flags, models=None):
        self.folder = tempfile.mkdtemp(prefix="weft-clients-")
        if models is None:
            models = os.path.join(self.folder, "models")
            os.makedirs(models)
            write_models(models)
        self.said = []
        self.process = subprocess.Popen(
            [WEFT, "serve", models, "--listen", "127.0.0.1:0", "--http", "", "--admin-listen", "127.0.0.1:0",
             "--state-dir", "none", *flags],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.address = self._wait(r"event=grpc_listening .*?grpc=(\S+)")
        self.admin = self._wait(r"event=admin_listening .*?admin=(\S+)")
        self._wait(r"event=(ready) ")

    def _listen(self):
        for line in self.process.stderr:
            self.said.append(line)

    def _wait(self, pattern):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for line in list(self.said):
                if found := re.search(pattern, line):
                    return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError("the server did not say %s:\n%s" % (pattern, "".join(self.said)))

    def close(self):
        """Stops the server, which must end well."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        self.listener.join()
        self.process.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if status != 0:
            raise RuntimeError("the server ended with status %d:\n%s" % (status, "".join(self.said)))
