"""The Python client's stream, and what clients see while a server stops."""

import concurrent.futures
import http.client
import json
import threading
import time
import unittest

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2

import echo
import serving
import weft
from weft.v1 import prediction_service_pb2 as pb, prediction_service_pb2_grpc as stubs

DRAINING = status_pb2.Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message="stops")
DRAINING.details.add().Pack(error_details_pb2.ErrorInfo(reason="DRAINING"))


class Ends(stubs.PredictionServiceServicer):
    """Ends each stream with a request that it does not accept. Those of the episode "slow" are answered late."""

    def __init__(self):
        self.answers, self.reason = 2, True  # of each stream, and whether its end says DRAINING
        self.streams, self.accepted = 0, []

    def PredictStream(self, request_iterator, context):
        self.streams += 1
        for n, message in enumerate(request_iterator):
            q = message.request
            if n == self.answers:
                yield pb.PredictStreamResponse(request_id=q.request_id, error=DRAINING)
                if self.reason:
                    context.set_trailing_metadata((("grpc-status-details-bin", DRAINING.SerializeToString()),))
                context.abort(grpc.StatusCode.UNAVAILABLE, "stops")
            self.accepted.append(message)
            time.sleep(0.3 * (q.episode_id == "slow"))
            yield pb.PredictStreamResponse(request_id=q.request_id, response=pb.PredictResponse(
                model=q.model, execution={"slot": q.episode_id}))


class Reopened(unittest.TestCase):
    """When a stream is opened again."""

    def setUp(self):
        self.ends = Ends()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        stubs.add_PredictionServiceServicer_to_server(self.ends, server)
        self.address = "127.0.0.1:%d" % server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)

    def stream(self, **options):
        client = weft.Client(self.address, **options)
        self.addCleanup(client.close)
        return client.stream()

    def refused(self, stream, code, reason, **options):
        with self.assertRaises(weft.WeftError) as caught:
            stream.predict("m", {}, **options)
        self.assertEqual((code, reason), (caught.exception.code.name, caught.exception.reason))

    def test_requests(self):
        """What was not accepted is sent again, once, and nothing else is."""
        with self.stream() as stream:
            for n in range(7):
                answer = stream.predict("m", {}, episode=str(n), begin_episode=n == 0, step=n + 1,
                                        end_of_episode=n == 6, supersede=n == 3, timeout=20)
                self.assertEqual(str(n), answer.slot)
        self.assertEqual([(str(n), n == 0, n + 1, n == 6, n == 3) for n in range(7)], [
            (m.request.episode_id, m.request.begin_episode, m.request.step, m.request.end_of_episode, m.supersede)
            for m in self.ends.accepted])
        self.assertEqual(4, self.ends.streams)
        self.assertLess(0, self.ends.accepted[2].timeout.ToNanoseconds())
        self.assertGreater(20e9, self.ends.accepted[2].timeout.ToNanoseconds())

    def test_attempts(self):
        """It opens as often in a row as the client sends a request. An answer is not necessary."""
        self.ends.answers = 0
        for retries, streams in ((True, 4), (False, 1)):
            self.ends.streams = 0
            with self.stream(retries=retries) as stream:
                self.refused(stream, "UNAVAILABLE", "DRAINING")
                self.assertEqual(streams, self.ends.streams)
                self.refused(stream, "UNAVAILABLE", "DRAINING", timeout=0.1)  # which leaves no time for the last one
        self.assertEqual([], self.ends.accepted)

    def test_lost(self):
        """A request may have run whose connection was lost: its caller decides. The next one opens another stream."""
        self.ends.reason = False
        with self.stream() as stream:
            for _ in range(2):
                stream.predict("m", {})
            self.refused(stream, "UNAVAILABLE", "")
            stream.predict("m", {})
        self.assertEqual((3, 2), (len(self.ends.accepted), self.ends.streams))

    def test_late(self):
        """A late answer is no other request's."""
        self.ends.answers = 9
        with self.stream() as stream:
            for n in range(3):
                self.refused(stream, "DEADLINE_EXCEEDED", "", episode="slow", timeout=0.05)
                self.assertEqual(str(n), stream.predict("m", {}, episode=str(n), timeout=20).slot)
        self.assertEqual(2, self.ends.streams)  # the first request did not know yet whether there is a server


class Stop(unittest.TestCase):
    """A server that stops, and another one."""

    @classmethod
    def setUpClass(cls):
        cls.new = serving.Server(models=echo.models())
        cls.addClassCleanup(cls.new.close)

    def test_stream(self):
        """What a request is refused for does not end the stream, which may be of an episode."""
        with weft.Client(self.new.address) as client, client.stream() as stream:
            self.assertEqual(2, stream.predict("echo_fp32", [[1, 2]], timeout=20)["y"][0, 1])
            now = stream._now
            for code, text, model, x in (
                ("NOT_FOUND", 'no model is named "nope"', "nope", {}),
                ("INVALID_ARGUMENT", 'inputs["x"].dtype', "echo_fp32", {"x": np.zeros((1, 2))}),
            ):
                with self.assertRaises(weft.WeftError) as caught:
                    stream.predict(model, x, timeout=20)
                self.assertEqual(code, caught.exception.code.name)
                self.assertIn(text, str(caught.exception))
            for n in range(100):
                self.assertEqual(n, stream.predict("echo_fp32", {"x": np.full((1, 2), n, np.float32)})["y"][0, 0])
            self.assertIs(now, stream._now)
        with weft.Client(self.new.address) as client, client.stream(model="echo_fp32", episode="a") as stream:
            stream.predict("echo_fp32", [[1, 2]], episode="a", timeout=20)
            with self.assertRaisesRegex(weft.WeftError, 'metadata weft-episode: expected "b"'):
                stream.predict("echo_fp32", [[1, 2]], episode="b", timeout=20)

    def test_loops(self):
        """Loops of calls, of streams and of HTTP go on with another server, and each request gets its answer."""
        old = serving.Server("--lame-duck", "2s", models=echo.models())
        new = self.new
        over, counts, faults = threading.Event(), {}, []

        def loop(name, ask):
            for n in range(1 << 24):
                try:
                    if (got := ask(n)) != n:
                        faults.append((name, n, got))
                except Exception as error:
                    faults.append((name, n, error))
                counts[name] = n
                if over.wait(0.001):
                    return

        def call(predict, steps=0):
            def ask(n):
                episode = {"episode": str(n // steps), "end_of_episode": n % steps == steps - 1} if steps else {}
                return predict("echo_fp32", {"x": np.full((1, 2), n, np.float32)}, timeout=20, **episode)["y"][0, 0]
            return ask

        def post(servers):
            connection = http.client.HTTPConnection(servers[0])
            self.addCleanup(lambda: connection.close())

            def ask(n):
                nonlocal connection
                connection.request("POST", "/v1/models/echo_fp32:predict", json.dumps({"instances": [[n, n]]}))
                answer = connection.getresponse()
                got = json.load(answer)
                if answer.getheader("Connection") == "close":
                    connection.close()
                    connection = http.client.HTTPConnection(servers[1])
                return got["predictions"][0][0]
            return ask

        with weft.Client("ipv4:%s,%s" % (old.address, new.address)) as client, client.stream() as plain, \
                client.stream() as episodes:
            loops = {"calls": call(client.predict), "stream": call(plain.predict),
                     "episodes": call(episodes.predict, 20),
                     **{"HTTP %d" % n: post([old.http, new.http]) for n in range(4)}}
            threads = [threading.Thread(target=loop, args=of) for of in loops.items()]
            for t in threads:
                t.start()

            def more(than):
                deadline = time.monotonic() + 60
                while not all(counts.get(name, 0) > than.get(name, 0) + 50 for name in loops):
                    self.assertLess(time.monotonic(), deadline, (counts, faults))
                    time.sleep(0.02)

            try:
                more({})
                old.close()
                more(dict(counts))
            finally:
                over.set()
                for t in threads:
                    t.join()
        print("requests while a server stopped:", counts)
        self.assertEqual([], faults)


if __name__ == "__main__":
    unittest.main()
