"""The example in JavaScript against a server."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import serving

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "javascript", "cartpole.mjs")


def missing():
    """Says why the example cannot be run; None: it can be."""
    if (node := shutil.which("node")) is None:
        return "there is no node"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return None if int(re.match(r"v(\d+)", version).group(1)) >= 20 else "it needs node 20, not " + version


class JavaScript(unittest.TestCase):
    """The program, as its user runs it."""

    @classmethod
    def setUpClass(cls):
        if why := missing():
            if os.environ.get("CLIENTS_REQUIRED") == "1":
                raise RuntimeError(why)
            print("clients: SKIPPED the example in JavaScript (CLIENTS_REQUIRED=1 makes this a failure):", why, file=sys.stderr)
            raise unittest.SkipTest(why)

    def run_example(self, address):
        return subprocess.run(["node", EXAMPLE, address], capture_output=True, text=True, timeout=120, check=False)

    def test_episodes(self):
        server = serving.Server()
        self.addCleanup(server.close)
        ended = self.run_example("http://" + server.http)
        self.assertEqual((0, ""), (ended.returncode, ended.stderr))
        json, raw = ended.stdout.splitlines()
        self.assertRegex(json, r"^in JSON:  500 steps, \d+ late, the cart ends at ")
        self.assertRegex(raw, r"^in bytes: 500 steps, \d+ late, the cart ends at ")
        if " 0 late" in json and " 0 late" in raw:  # the same numbers went either way
            self.assertEqual(json.split(":")[1].strip(), raw.split(":")[1].strip())

    def test_failure(self):
        with tempfile.TemporaryDirectory() as models:
            os.makedirs(os.path.join(models, "other", "1"))
            with open(os.path.join(models, "other", "model.yaml"), "w", encoding="utf-8") as manifest:
                manifest.write("synth: {inputs: {x: {dtype: fp32, shape: [-1, 4]}}, outputs: {y: {dtype: fp32, shape: [-1, 4]}}}")
            server = serving.Server(models=models)
            self.addCleanup(server.close)
            ended = self.run_example("http://" + server.http)
        self.assertEqual((1, ""), (ended.returncode, ended.stdout))
        self.assertIn('404: no model is named "cartpole"', ended.stderr)


if __name__ == "__main__":
    unittest.main()
