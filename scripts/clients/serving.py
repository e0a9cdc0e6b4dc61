"""A Weft server for the tests of clients."""

import os
import re
import signal
import subprocess
import threading
import time
import urllib.request

WEFT = os.environ.get("WEFT", "bin/weft")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "models")


class Server:
    """A server of models that runs until close(). address, admin and http are where it listens."""

    def __init__(self, *flags, models=EXAMPLES):
        self.said = []
        self.process = subprocess.Popen(
            [WEFT, "serve", models, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
             "--state-dir", "none", "--lame-duck", "0s", *flags],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.address = self._wait(r"event=grpc_listening .*?grpc=(\S+)")
        self.admin = self._wait(r"event=admin_listening .*?admin=(\S+)")
        self.http = self._wait(r"event=http_listening .*?http=(\S+)")
        self._wait(r"event=(ready) ")
        self._settle()

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

    def _settle(self):
        """Waits for the versions whose proof is slow: a server is ready without them."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with urllib.request.urlopen("http://%s/metrics" % self.http) as answer:
                if b'weft_models{state="loading"} 0\n' in answer.read():
                    return
            time.sleep(0.02)
        raise RuntimeError("the server still loads models:\n%s" % "".join(self.said))

    def close(self):
        """Stops the server, which must end well."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        self.listener.join()
        self.process.stderr.close()
        if status != 0:
            raise RuntimeError("the server ended with status %d:\n%s" % (status, "".join(self.said)))
