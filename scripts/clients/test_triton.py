"""Triton's client, as it is, against a Weft server."""

import json
import os
import queue
import random
import threading
import time
import unittest
import urllib.error
import urllib.request

import numpy as np
import tritonclient.grpc as triton
import tritonclient.http as web
import tritonclient.utils.shared_memory as shared
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

import echo
import serving


def tensor(name, datatype, value):
    """An input with a value."""
    made = triton.InferInput(name, list(value.shape), datatype)
    made.set_data_from_numpy(value)
    return made


def sample(datatype, rows, seed):
    """Rows of a datatype, by a seed."""
    draw = np.random.default_rng(seed)
    if datatype == "BYTES":
        texts = [draw.bytes(int(draw.integers(0, 9))) for _ in range(2 * rows)]
        return np.array(texts, dtype=np.object_).reshape(rows, 2)
    return draw.integers(-100, 100, (rows, 2)).astype(echo.TYPES[datatype][0])


class Triton(unittest.TestCase):
    """Calls of tritonclient."""

    @classmethod
    def setUpClass(cls):
        cls.server = serving.Server("--shared-memory", models=echo.models())
        cls.addClassCleanup(cls.server.close)
        cls.client = triton.InferenceServerClient(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def fails(self, status, text, call, *args, **kwargs):
        """Wants a call to fail with a status whose text has this in it."""
        with self.assertRaises(InferenceServerException) as caught:
            call(*args, **kwargs)
        self.assertEqual("StatusCode." + status, caught.exception.status())
        self.assertIn(text, caught.exception.message())

    def test_infer(self):
        for datatype in echo.TYPES:
            for rows in (1, 3):
                with self.subTest(datatype=datatype, rows=rows):
                    x = sample(datatype, rows, rows)
                    answer = self.client.infer("echo_" + datatype.lower(), [tensor("x", datatype, x)], request_id="one")
                    np.testing.assert_array_equal(x, answer.as_numpy("y"))
                    self.assertEqual("one", answer.get_response().id)

    def test_large(self):
        x = np.random.default_rng(1).random((50_000, 2), dtype=np.float32)
        answer = self.client.infer("echo_fp32", [tensor("x", "FP32", x)], outputs=[triton.InferRequestedOutput("y")])
        np.testing.assert_array_equal(x, answer.as_numpy("y"))

    def test_versions(self):
        x = [tensor("x", "FP32", sample("FP32", 1, 1))]
        for asked, answered in (("", "2"), ("1", "1")):
            self.assertEqual(answered, self.client.infer("echo_fp32", x, model_version=asked).get_response().model_version)
        self.fails("NOT_FOUND", "has no version 7", self.client.infer, "echo_fp32", x, model_version="7")
        self.fails("INVALID_ARGUMENT", "model_version", self.client.infer, "echo_fp32", x, model_version="new")
        self.fails("NOT_FOUND", 'no model is named "nope"', self.client.infer, "nope", x)

    def test_wrong_inputs(self):
        x = sample("FP32", 1, 1)
        for text, inputs in {
            'inputs["x"].datatype': [tensor("x", "INT64", x.astype(np.int64))],
            'inputs["x"].shape': [tensor("x", "FP32", x.reshape(2))],
            'but "y"': [tensor("y", "FP32", x)],
            "each input once": [tensor("x", "FP32", x)] * 2,
        }.items():
            self.fails("INVALID_ARGUMENT", text, self.client.infer, "echo_fp32", inputs)

    def test_async(self):
        answers = queue.Queue()
        sent = {}
        for n in range(50):
            sent[str(n)] = sample("FP32", 1 + n % 3, n)
            self.client.async_infer(
                "echo_fp32", [tensor("x", "FP32", sent[str(n)])], request_id=str(n),
                callback=lambda result, error: answers.put((result, error)),
            )
        for _ in range(50):
            result, error = answers.get(timeout=30)
            self.assertIsNone(error)
            np.testing.assert_array_equal(sent.pop(result.get_response().id), result.as_numpy("y"))

    def test_stream(self):
        answers = queue.Queue()
        self.client.start_stream(lambda result, error: answers.put((result, error)))
        self.addCleanup(self.client.stop_stream)
        sent = {}
        for n in range(50):
            sent[str(n)] = sample("FP16", 1 + n % 3, n)
            self.client.async_stream_infer(
                "echo_fp16", [tensor("x", "FP16", sent[str(n)])], request_id=str(n), enable_empty_final_response=True,
            )
        for _ in range(50):
            result, error = answers.get(timeout=30)
            self.assertIsNone(error)
            response = result.get_response()
            self.assertTrue(response.parameters["triton_final_response"].bool_param)
            np.testing.assert_array_equal(sent.pop(response.id), result.as_numpy("y"))
        self.client.async_stream_infer("nope", [tensor("x", "FP16", sample("FP16", 1, 1))], request_id="bad")
        _, error = answers.get(timeout=30)
        self.assertIn('no model is named "nope"', error.message())

    def test_parameters(self):
        x = [tensor("x", "FP32", sample("FP32", 1, 1))]
        self.client.infer("echo_fp32", x, priority=3, sequence_id=7, sequence_start=True, sequence_end=True)
        self.client.infer("echo_fp32", x, sequence_id="seven", parameters={"mine": "x"})
        for limit in ({"timeout": 1}, {"client_timeout": 0.001}):
            with self.assertRaises(InferenceServerException) as caught:
                self.client.infer("slow", [tensor("x", "FP32", np.zeros((1, 4), np.float32))], **limit)
            # Refused, where it is known beforehand that there is no time.
            self.assertIn(caught.exception.status(), ("StatusCode.DEADLINE_EXCEEDED", "StatusCode.RESOURCE_EXHAUSTED"))

    def test_facts(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("echo_fp32"))
        self.assertTrue(self.client.is_model_ready("echo_fp32", "1"))
        self.assertIn("statistics", self.client.get_server_metadata().extensions)
        metadata = self.client.get_model_metadata("echo_bytes")
        self.assertEqual(("x", "BYTES", [-1, 2]),
                         (metadata.inputs[0].name, metadata.inputs[0].datatype, list(metadata.inputs[0].shape)))
        config = self.client.get_model_config("echo_fp32", as_json=True)["config"]
        self.assertGreater(config["max_batch_size"], 1)
        self.assertEqual(["2"], config["input"][0]["dims"])
        index = {(m.name, m.version, m.state) for m in self.client.get_model_repository_index().models}
        self.assertIn(("echo_int8", "1", "READY"), index)
        self.fails("UNIMPLEMENTED", "shared memory of the system", self.client.register_cuda_shared_memory, "a", b"", 0, 8)

    def test_settings(self):
        over_http = web.InferenceServerClient(self.server.http)
        self.addCleanup(over_http.close)
        self.assertEqual({"log_error": True, "log_warning": True, "log_info": True, "log_verbose_level": 0, "log_file": "",
                          "log_format": "default"}, over_http.get_log_settings())
        self.fails("PERMISSION_DENIED", "--admin-listen", self.client.update_log_settings, {"log_verbose_level": 1})
        with triton.InferenceServerClient(self.server.admin) as admin:
            for level in (1, 0):
                changed = admin.update_log_settings({"log_verbose_level": level})
                self.assertEqual(level, changed.settings["log_verbose_level"].uint32_param)
                self.assertEqual(level, over_http.get_log_settings()["log_verbose_level"])
            self.fails("UNIMPLEMENTED", "redirect", admin.update_log_settings, {"log_file": "/tmp/log"})
        self.assertTrue(any("event=log_level_changed from=INFO to=DEBUG who=127" in line for line in self.server.said))
        self.assertEqual(["OFF"], list(self.client.get_trace_settings().settings["trace_level"].value))
        self.assertEqual(["OFF"], over_http.get_trace_settings("echo_fp32")["trace_level"])
        self.fails("UNIMPLEMENTED", "GetSchedulerState", self.client.update_trace_settings, settings={"trace_level": "TENSORS"})

    def test_load_and_unload(self):
        self.fails("PERMISSION_DENIED", "--admin-listen", self.client.unload_model, "echo_int8")
        with triton.InferenceServerClient(self.server.admin) as admin:
            admin.unload_model("echo_int8")
            self.assertFalse(any(m.name == "echo_int8" and m.state == "READY"
                                 for m in admin.get_model_repository_index().models))
            x = [tensor("x", "INT8", sample("INT8", 1, 1))]
            with self.assertRaises(InferenceServerException):
                self.client.infer("echo_int8", x)
            admin.load_model("echo_int8")
            self.client.infer("echo_int8", x)
            self.fails("NOT_FOUND", "no version of it", admin.load_model, "nope")

    def test_http(self):
        client = web.InferenceServerClient(self.server.http)
        self.addCleanup(client.close)
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("echo_fp32", "1"))
        for datatype in echo.TYPES:
            for binary in (True, False):
                with self.subTest(datatype=datatype, binary=binary):
                    if datatype == "FP16" and not binary:
                        continue  # the client has no JSON of it
                    x = sample(datatype, 2, 1) if binary or datatype != "BYTES" else np.array([[b"a", b""]], object)
                    made = web.InferInput("x", list(x.shape), datatype)
                    made.set_data_from_numpy(x, binary_data=binary)
                    wanted = web.InferRequestedOutput("y", binary_data=binary)
                    answer = client.infer("echo_" + datatype.lower(), [made], outputs=[wanted]).as_numpy("y")
                    np.testing.assert_array_equal(x, answer.astype(x.dtype) if datatype != "BYTES" else
                                                  np.array([[bytes(e) if isinstance(e, bytes) else e.encode() for e in r]
                                                            for r in answer], object))
        self.assertEqual("x", client.get_model_metadata("echo_fp32")["inputs"][0]["name"])
        self.assertGreater(client.get_model_config("echo_fp32")["max_batch_size"], 1)
        self.assertEqual("echo_fp32", client.get_inference_statistics("echo_fp32")["model_stats"][0]["name"])
        self.assertIn("READY", {m["state"] for m in client.get_model_repository_index()})
        with self.assertRaises(InferenceServerException) as caught:
            client.infer("nope", [])
        self.assertEqual("404", caught.exception.status())

    def test_http_packed(self):
        client = web.InferenceServerClient(self.server.http)
        self.addCleanup(client.close)
        x = sample("FP32", 3000, 1)
        for binary in (True, False):
            made = web.InferInput("x", list(x.shape), "FP32")
            made.set_data_from_numpy(x, binary_data=binary)
            wanted = [web.InferRequestedOutput("y", binary_data=binary)]
            for asks in (None, "gzip", "deflate"):
                for accepts in (None, "gzip", "deflate"):
                    with self.subTest(binary=binary, asks=asks, accepts=accepts):
                        got = client.infer("echo_fp32", [made], outputs=wanted, request_compression_algorithm=asks,
                                           response_compression_algorithm=accepts).as_numpy("y")
                        np.testing.assert_array_equal(x, got.astype(x.dtype))

    def test_http_no_numbers(self):
        """NaN and infinities go and come in JSON."""
        client = web.InferenceServerClient(self.server.http)
        self.addCleanup(client.close)
        x = np.array([[np.nan, np.inf], [-np.inf, 0.5]], np.float32)
        made = web.InferInput("x", list(x.shape), "FP32")
        made.set_data_from_numpy(x, binary_data=False)
        got = client.infer("echo_fp32", [made], outputs=[web.InferRequestedOutput("y", binary_data=False)]).as_numpy("y")
        np.testing.assert_array_equal(x, got.astype(np.float32))

    def test_http_readiness(self):
        """What KServe's client reads."""
        for path, want in {"/v2/health/live": {"live": True}, "/v2/health/ready": {"ready": True},
                           "/v2/models/echo_fp32/ready": {"name": "echo_fp32", "ready": True}}.items():
            with urllib.request.urlopen("http://" + self.server.http + path) as answer:
                self.assertEqual(want, json.load(answer))

    def test_http_too_large(self):
        """A body that never fits is refused with that, also to a client that reads when it has sent all."""
        ask = urllib.request.Request("http://" + self.server.http + "/v2/models/echo_fp32/infer", data=b" " * (40 << 20))
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(ask)
        self.assertEqual(413, caught.exception.code)
        self.assertIn("--max-message-bytes", json.load(caught.exception)["error"])

    def test_classification(self):
        x = np.array([[0.5, 2.25], [7, 7]], np.float32)
        over_http = web.InferenceServerClient(self.server.http)
        self.addCleanup(over_http.close)
        for library, client in ((triton, self.client), (web, over_http)):
            made = library.InferInput("x", [2, 2], "FP32")
            made.set_data_from_numpy(x)
            for count, want in {1: [[b"2.250000:1"], [b"7.000000:0"]],
                                5: [[b"2.250000:1", b"0.500000:0"], [b"7.000000:0", b"7.000000:1"]]}.items():
                wanted = library.InferRequestedOutput("y", class_count=count)
                got = client.infer("echo_fp32", [made], outputs=[wanted]).as_numpy("y")
                self.assertEqual(want, got.tolist())
        self.fails("INVALID_ARGUMENT", 'outputs["y"].parameters["classification"]: expected an output of numbers',
                   self.client.infer, "echo_bytes", [tensor("x", "BYTES", sample("BYTES", 1, 1))],
                   outputs=[triton.InferRequestedOutput("y", class_count=1)])

    def region(self, name, size):
        """Shared memory of that name, which is registered."""
        key = "/weftserve-clients-%d-%s" % (os.getpid(), name)
        memory = shared.create_shared_memory_region(name, key, size)
        self.addCleanup(shared.destroy_shared_memory_region, memory)
        with triton.InferenceServerClient(self.server.admin) as admin:
            admin.register_system_shared_memory(name, key, size)
            self.assertIn(name, admin.get_system_shared_memory_status().regions)
        self.addCleanup(self.unregister, name)
        return memory

    def unregister(self, name):
        with triton.InferenceServerClient(self.server.admin) as admin:
            admin.unregister_system_shared_memory(name)
            self.assertNotIn(name, admin.get_system_shared_memory_status().regions)

    def test_shared_memory(self):
        over_http = web.InferenceServerClient(self.server.http)
        self.addCleanup(over_http.close)
        size = 1 << 16
        into, out = self.region("in", size), self.region("out", size)
        for n, datatype in enumerate(echo.TYPES):
            for library, client in ((triton, self.client), (web, over_http)):
                with self.subTest(datatype=datatype, library=library.__name__):
                    x = sample(datatype, 7, n)
                    framed = serialize_byte_tensor(x) if datatype == "BYTES" else x
                    packed = framed.item() if datatype == "BYTES" else x.tobytes()
                    shared.set_shared_memory_region(into, [framed], offset=n)
                    made = library.InferInput("x", list(x.shape), datatype)
                    made.set_shared_memory("in", len(packed), offset=n)
                    wanted = library.InferRequestedOutput("y")
                    wanted.set_shared_memory("out", len(packed) + 3, offset=2 * n)
                    answer = client.infer("echo_" + datatype.lower(), [made], outputs=[wanted])
                    got = shared.get_contents_as_numpy(out, x.dtype, x.shape, offset=2 * n)
                    np.testing.assert_array_equal(x, got)
                    if library is triton:
                        about = answer.get_output("y")
                        self.assertEqual([b""], list(answer.get_response().raw_output_contents))
                        self.assertEqual(len(packed), about.parameters["shared_memory_byte_size"].int64_param)
                    else:
                        self.assertEqual(len(packed), answer.get_output("y")["parameters"]["shared_memory_byte_size"])

    def test_shared_memory_is_refused(self):
        self.region("refused", 64)
        self.fails("PERMISSION_DENIED", "--admin-listen", self.client.register_system_shared_memory, "a", "/a", 8)
        with triton.InferenceServerClient(self.server.admin) as admin:
            self.fails("INVALID_ARGUMENT", "no such file", admin.register_system_shared_memory, "a", "/weft-none", 8)
        x = triton.InferInput("x", [1, 2], "FP32")
        for (name, bytes_, offset), (status, text) in {
            ("none", 8, 0): ("NOT_FOUND", 'named "none"'), ("refused", 8, 57): ("INVALID_ARGUMENT", "at most the 64 bytes"),
            ("refused", 7, 0): ("INVALID_ARGUMENT", "expected 8 (shape [1,2] of fp32), got 7"),
        }.items():
            x.set_shared_memory(name, bytes_, offset)
            self.fails(status, text, self.client.infer, "echo_fp32", [x])

    def statistics(self, model):
        """The statistics of a model's newest version."""
        return self.client.get_inference_statistics(model).model_stats[-1]

    def test_statistics_add_up(self):
        """The parts add up to the time in the server, and that to the client's: in the best call, for machines are busy."""
        x = [tensor("x", "FP32", np.zeros((1, 4), np.float32))]
        self.client.infer("slow", x)
        inside, outside = [], []
        before = self.statistics("slow").inference_stats
        for _ in range(20):
            began = time.perf_counter()
            self.client.infer("slow", x)
            took = (time.perf_counter() - began) * 1e9
            after = self.statistics("slow").inference_stats
            success, *parts = (getattr(after, name).ns - getattr(before, name).ns
                               for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"))
            self.assertEqual(1, after.success.count - before.success.count)
            self.assertLessEqual(sum(parts), success)
            self.assertLess(success, took)
            inside.append(sum(parts) / success)
            outside.append(success / took)
            before = after
        self.assertGreater(max(inside), 0.95, inside)
        self.assertGreater(max(outside), 0.95, outside)

    def test_batches_are_counted(self):
        threads = [threading.Thread(target=self.client.infer, args=("slow", [tensor("x", "FP32", np.zeros((1, 4), np.float32))]))
                   for _ in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        counted = self.statistics("slow")
        self.assertEqual(counted.execution_count, sum(b.compute_infer.count for b in counted.batch_stats))
        self.assertEqual(counted.inference_count, sum(b.batch_size * b.compute_infer.count for b in counted.batch_stats))
        self.assertLess(counted.execution_count, counted.inference_count)

    def test_sweep_of_concurrency(self):
        for concurrency in (1, 4, 16):
            faults, deadline = [], time.monotonic() + 1

            def ask(seed):
                n = seed
                with triton.InferenceServerClient(self.server.address) as client:
                    while time.monotonic() < deadline:
                        x = sample("FP32", 1 + n % 4, n)
                        got = client.infer("echo_fp32", [tensor("x", "FP32", x)]).as_numpy("y")
                        if not np.array_equal(x, got):
                            faults.append((x, got))
                        n += 1

            self.all_run([threading.Thread(target=ask, args=(1000 * k,)) for k in range(concurrency)], faults)

    def test_sweep_of_rate(self):
        pace = random.Random(1)
        for rate in (50, 400):
            answers, sent = queue.Queue(), 0
            due, end = time.monotonic(), time.monotonic() + 1
            while due < end:
                time.sleep(max(0, due - time.monotonic()))
                self.client.async_infer("echo_fp32", [tensor("x", "FP32", sample("FP32", 1, sent))],
                                        callback=lambda result, error: answers.put(error))
                sent, due = sent + 1, due + pace.expovariate(rate)
            self.assertEqual([None] * sent, [answers.get(timeout=30) for _ in range(sent)])

    def all_run(self, threads, faults):
        """Runs threads, none of which may fail."""
        failed = []
        hook, threading.excepthook = threading.excepthook, failed.append
        try:
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        finally:
            threading.excepthook = hook
        self.assertEqual(([], []), (failed, faults))


if __name__ == "__main__":
    unittest.main()
