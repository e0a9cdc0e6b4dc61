"""docs/how-to/clients.md: its programs, as they stand there, against a server."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import serving

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/clients.md").read_text(encoding="utf-8")

GO = """package main
import ("context"; "errors"; "fmt"; "log"; "time"; "github.com/weftserve/weft/proto/weftclient")
func main() {
%s}
"""


def block(heading, language):
    """Returns the code of a language below a heading of the page."""
    section = re.search(r"^## %s\n(.*?)(?=^## |\Z)" % re.escape(heading), PAGE, re.M | re.S).group(1)
    return re.search(r"^```%s\n(.*?)^```$" % language, section, re.M | re.S).group(1)


def skipped(what, why, variable):
    """Skips a test so that whoever runs it sees that; with VARIABLE=1 fails it."""
    if os.environ.get(variable) == "1":
        raise RuntimeError(f"{what}: {why}")
    print(f"clients: SKIPPED {what} ({variable}=1 makes this a failure): {why}", file=sys.stderr)
    raise unittest.SkipTest(why)


def needs(what, variable, *programs):
    for program in programs:
        if shutil.which(program) is None:
            skipped(what, "there is no " + program, variable)


def nightly(what):
    """Leaves what takes minutes to compile to `make lab`."""
    if "WEFT_LONG" not in os.environ:
        raise unittest.SkipTest(f"{what} is compiled with WEFT_LONG=1")


class Languages(unittest.TestCase):
    """One server, asked in each language for the same action."""

    @classmethod
    def setUpClass(cls):
        cls.server = serving.Server()
        cls.addClassCleanup(cls.server.close)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "proto").symlink_to(ROOT / "proto")
        for language in ("cpp", "java"):
            shutil.copytree(ROOT / "examples" / language, cls.folder / "examples" / language)

    def here(self, code):
        """Has a program ask the server of this test."""
        return code.replace("127.0.0.1:9000", self.server.address).replace("127.0.0.1:9001", self.server.http)

    def run_program(self, command, code="", cwd=None):
        ended = subprocess.run(command, input=code, cwd=cwd or self.folder, capture_output=True, text=True, timeout=900,
                               check=False)
        self.assertEqual(0, ended.returncode, ended.stderr + ended.stdout)
        return ended.stdout

    def want_action(self, said):
        """The same number in all languages, that of examples/models, by its version."""
        self.assertRegex(said, r"0\.7955\d*\D* by version 3\b")

    def test_go(self):
        needs("the client in Go", "CLIENTS_REQUIRED", "go")
        main = self.folder / "main.go"
        main.write_text(GO % self.here(block("Go", "go")), encoding="utf-8")
        self.want_action(self.run_program(["go", "run", str(main)], cwd=ROOT))

    def test_python(self):
        self.want_action(self.run_program([sys.executable, "-"], self.here(block("Python", "python"))))

    def test_javascript(self):
        needs("the client in JavaScript", "CLIENTS_REQUIRED", "node")
        program = "examples/javascript/predict.mjs"
        self.assertIn(program, PAGE)
        self.assertRegex(self.run_program(["node", str(ROOT / program), "http://" + self.server.http]),
                         r"name: 'action'(?s:.*)\[ 0\.7955\d* \]")

    def test_cpp(self):
        nightly("the client in C++")
        needs("the client in C++", "COMPILED_REQUIRED", "c++", "protoc", "grpc_cpp_plugin", "pkg-config")
        if subprocess.run(["pkg-config", "--exists", "grpc++", "protobuf"], check=False).returncode:
            skipped("the client in C++", "there is no libgrpc++-dev", "COMPILED_REQUIRED")
        self.want_action(self.run_program(["bash", "-eu"], self.here(block("C++", "sh"))))

    def test_java(self):
        nightly("the client in Java")
        needs("the client in Java", "COMPILED_REQUIRED", "javac", "mvn")
        # A test fetches nothing that no digest pins: what Maven needs must be there already.
        offline = self.here(block("Java", "sh")).replace("mvn -q", "mvn -o -q")
        ended = subprocess.run(["bash", "-eu"], input=offline, cwd=self.folder, capture_output=True, text=True, timeout=900,
                               check=False)
        if "offline" in ended.stdout:
            skipped("the client in Java", "Maven has not fetched its packages: run the command of the page", "COMPILED_REQUIRED")
        self.assertEqual(0, ended.returncode, ended.stderr + ended.stdout)
        self.want_action(ended.stdout)


if __name__ == "__main__":
    unittest.main()
