"""Runs the code of a page of the documentation as its reader does: in order, in one session and one folder."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import serving

# What a reader of the page calls weft: free ports are taken for those of the page.
WEFT = """#!/usr/bin/env bash
case $1 in
push|rollout|traffic) exec {weft} "$@" --admin {admin} ;;
*) exec {weft} "$@" ;;
esac
"""


class Block:
    """A fenced block: its language, its text, the first line of it, and the heading above."""

    def __init__(self, language, text, line, heading):
        self.language, self.text, self.line, self.heading = language, text, line, heading


def blocks(page):
    """The blocks of a page in Markdown."""
    found, heading = [], ""
    for match in re.finditer(r"^#+ ([^\n]+)$|^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if match[1]:
            heading = match[1]
        else:
            found.append(Block(match[2], match[3], page[: match.start(3)].count("\n") + 1, heading))
    return found


class Session:
    """Runs blocks. names are those of the Python session; said is what the latest block printed."""

    def __init__(self, path, folder, names):
        self.path, self.folder, self.names, self.said, self.server = path, folder, {"__name__": "page", **names}, "", None
        self.bin = os.path.join(folder, "bin")
        os.mkdir(self.bin)
        self._command(admin="")

    def _command(self, admin):
        path = os.path.join(self.bin, "weft")
        with open(path, "w", encoding="utf-8") as script:
            script.write(WEFT.format(weft=os.path.abspath(serving.WEFT), admin=admin))
        os.chmod(path, 0o755)

    def run(self, block):
        """Runs a block; a block of another language than sh or python is only to be read."""
        if block.text == "weft serve models\n":
            self.server = serving.Server("--state-dir", "auto", models=os.path.join(self.folder, "models"))
            self._command(self.server.admin)
        elif block.language == "sh":
            ran = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=self.folder, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.said = ran.stdout
            if ran.returncode != 0:
                raise RuntimeError(f"{self.path}:{block.line}: status {ran.returncode}:\n{ran.stdout}")
        elif block.language == "python":
            text = block.text
            if self.server:
                text = text.replace("127.0.0.1:9000", self.server.address).replace("127.0.0.1:9002", self.server.admin)
            text = "\n" * (block.line - 1) + text
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, self.path, "exec"), self.names)
            self.said = out.getvalue()

    def close(self):
        """Stops the server."""
        if self.server:
            self.server.close()


def export_again(file, folder):
    """Writes a file that the page's export writes, such as m/1/model.onnx or m-1.onnx, from what that wrote once."""
    *_, model, version = os.path.splitext(file.removesuffix("/model.onnx"))[0].replace("-", "/").split("/")
    os.makedirs(os.path.dirname(file) or ".", exist_ok=True)
    shutil.copy(os.path.join(folder, f"{model}-{version}.onnx"), file)
