"""docs/quickstart/python-policy.md, run as it stands, by a Python with torch or, but for its exports, by one without."""

import ast
import importlib.util
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import gymnasium
import numpy as np
import onnx

import page

import echo
import serving
import weft

HERE = pathlib.Path(__file__).parent
PAGE = HERE / "../../../docs/quickstart/python-policy.md"
MODULE = HERE / "../../../examples/python/deterministic.py"
NOT_BATCHED = HERE / "../../../docs/how-to/not-batched.md"
PROVEN = "in batches of up to 64 rows: proven harmless by structure"
EXPORTED = HERE / "exported"
HAVE = {name for name in ("torch", "stable_baselines3") if importlib.util.find_spec(name)}
TORCH, SB3 = "torch" in HAVE, {"torch", "stable_baselines3"} <= HAVE

MASK = (1 << 64) - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotate(x, by):
    return (x << by | x >> (64 - by)) & MASK


def xxh64(name):
    """XXH64 with seed 0 of a name of less than 32 bytes."""
    data = name.encode()
    assert len(data) < 32
    h = (P5 + len(data)) & MASK
    while len(data) >= 8:
        k = rotate(int.from_bytes(data[:8], "little") * P2 & MASK, 31) * P1 & MASK
        h, data = (rotate(h ^ k, 27) * P1 + P4) & MASK, data[8:]
    if len(data) >= 4:
        h = (rotate(h ^ (int.from_bytes(data[:4], "little") * P1 & MASK), 23) * P2 + P3) & MASK
        data = data[4:]
    for byte in data:
        h = rotate(h ^ (byte * P5 & MASK), 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def join(a, b):
    return mix(mix(a) ^ b)


def led(model, slots, episode):
    """The slot of equal weights that an episode goes to, as the documentation of server/routing has it."""
    key = join(xxh64(model), xxh64(episode))
    return min(slots, key=lambda slot: -math.log(((join(key, xxh64(slot)) >> 12) + 0.5) / 2**52))


def too_long(*_):
    raise TimeoutError("the page takes more than ten minutes")


class Page(unittest.TestCase):
    """One run of the page, looked at after each step."""

    @classmethod
    def setUpClass(cls):
        cls.text = PAGE.read_text(encoding="utf-8")
        cls.folder = tempfile.mkdtemp(prefix="weft-page-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        before, path = os.getcwd(), os.environ["PATH"]
        cls.addClassCleanup(os.chdir, before)
        cls.addClassCleanup(os.environ.__setitem__, "PATH", path)
        # Without torch, export takes the files that it wrote with torch once, and needs no policies.
        names = {} if TORCH else {
            "Balance": list, "example": None, "export": lambda _, file, *__: page.export_again(file, EXPORTED),
        }
        cls.session = page.Session("docs/quickstart/python-policy.md", cls.folder, names)
        cls.addClassCleanup(cls.session.close)
        shutil.copy(MODULE, cls.folder)
        sys.path.insert(0, cls.folder)  # as in a session that runs there
        cls.addClassCleanup(sys.path.remove, cls.folder)
        os.environ["PATH"] = cls.session.bin + os.pathsep + path
        os.chdir(cls.folder)
        cls.said, left_out = [], []
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(600)
        cls.addClassCleanup(signal.alarm, 0)
        for block in page.blocks(cls.text):
            needed = set(re.findall(r"^(?:import|from) (torch|stable_baselines3)", block.text, re.MULTILINE))
            if "torch.onnx" in block.text:
                needed.add("torch")
            if block.language == "python" and not needed <= HAVE:
                left_out.append(f"{block.line} ({block.heading})")
                for file, model in re.findall(r'^export\(.*?, "(models/(\w+)/1/model.onnx)"', block.text, re.MULTILINE):
                    if (EXPORTED / f"{model}-1.onnx").exists():
                        page.export_again(file, EXPORTED)
                continue
            cls.session.run(block)
            cls.said.append((block, cls.session.said))
        print(f"docs/quickstart/python-policy.md: {len(cls.said)} blocks ran,", "torch " + sys.modules["torch"].__version__ if TORCH else
              "on versions that torch wrote before (no torch here: WEFT_TORCH_PYTHON names a Python that has it)", file=sys.stderr)
        for block in left_out:
            print("docs/quickstart/python-policy.md: SKIPPED the block in line", block, file=sys.stderr)

    def names(self, *names):
        return [self.session.names[name] for name in names]

    def test_proven(self):
        """All models of the page are batched by proof, whichever exporter wrote them."""
        checks = [said for block, said in self.said if "weft check" in block.text and block.language == "sh"]
        self.assertEqual(1, len(checks))
        checks += [check("models/balance"), check("models/memory")]  # with the versions that came later
        if TORCH:
            balance, example, torch = self.names("Balance", "example", "torch")
            axes = '{"observation": {0: "batch"}, "action": {0: "batch"}}'
            self.assertIn("`dynamic_axes=%s`" % axes, self.text)
            os.makedirs("others/traced/1")
            torch.onnx.export(balance([0.0, 0.0, 1.0, 0.0]).eval(), tuple(example.values()), "others/traced/1/model.onnx",
                              dynamo=False, input_names=["observation"], output_names=["action"], dynamic_axes=ast.literal_eval(axes))
            checks.append(check("others"))
        for said in checks:
            served = [line for line in said.splitlines() if line.startswith("served ")]
            self.assertTrue(served)
            for line in served:
                self.assertIn(PROVEN, line)

    def test_split(self):
        """Each episode goes where its id leads, and each version earns what it can."""
        play, = self.names("play")
        shown = [os.path.join(self.session.bin, "weft"), "traffic", "balance"]
        subprocess.run([*shown, "old:1=50", "new:2=50"], check=True, stdout=subprocess.DEVNULL)
        rewards, sure = {1: [], 2: []}, {1: 0, 2: 0}
        for n in range(10, 50):  # the first seeds were played before, and are led alike only by chance
            sure[{"old": 1, "new": 2}[led("balance", ("old", "new"), f"seed-{n}")]] += 1
        for episode in play(range(10, 50)):
            rewards[episode.version].append(episode.reward)
        self.assertEqual(sure, {version: len(r) for version, r in rewards.items()})
        self.assertLess(np.mean(rewards[1]), 60)
        self.assertGreater(np.mean(rewards[2]), 80)

    def test_answers(self):
        """Each version pushes as its gains say, and the versions are what the rollouts left."""
        client, = self.names("client")
        observations = np.random.default_rng(7).normal(size=(50, 4)).astype(np.float32)
        for version, gains in ((1, [0, 0, 1, 0]), (2, [0, 0, 1, 0.5]), (3, [0, 0, -1, 0])):
            wanted = (observations @ np.array(gains, np.float32) > 0).astype(np.int64)
            answer = client.predict("balance", {"observation": observations}, version=version)
            np.testing.assert_array_equal(wanted, answer["action"])
        for n in range(20):
            self.assertEqual(2, client.predict("balance", {"observation": observations}, episode=f"after-{n}").version)

    def test_rollouts(self):
        """The better version was promoted, and the worse one rolled back."""
        followed = [said for block, said in self.said if re.search(r"^roll_out\(", block.text, re.MULTILINE)]
        self.assertEqual(["balance: version 2 beside 1: promoted\n", "balance: version 3 beside 2: rolled back\n"], followed)
        for said in followed:
            self.assertIn("`%s`" % said.strip(), self.text)

    def test_memory(self):
        """The state stays: the answer to a step depends on the one before."""
        client, = self.names("client")
        wait(lambda: not lacks(client, "memory"))
        episode = client.episode("memory", "test", outputs=["next_hidden"])
        first, second = (episode.step({"observation": np.ones((1, 4), np.float32)})["next_hidden"] for _ in range(2))
        self.assertGreater(np.abs(second - first).max(), 0.01)
        if TORCH:
            import torch
            memory, = self.names("memory")
            hidden, observation = torch.zeros(1, 16), torch.ones(1, 4)
            _, hidden, cell = memory(observation, hidden, hidden)
            answer = client.predict("memory", {"observation": np.ones((1, 4), np.float32),
                                               "hidden": np.zeros((1, 16), np.float32), "cell": np.zeros((1, 16), np.float32)})
            np.testing.assert_allclose(hidden.detach(), answer["next_hidden"], atol=1e-6)
            np.testing.assert_allclose(cell.detach(), answer["next_cell"], atol=1e-6)

    @unittest.skipUnless(TORCH, "no torch")
    def test_exported(self):
        """The files for those without torch are what torch writes, but for its notes. WEFT_UPDATE=1 writes them anew."""
        kept = {("balance", 1), ("balance", 2), ("balance", 3), ("memory", 1)}
        for name, version in kept:
            model = onnx.load(f"models/{name}/{version}/model.onnx")
            file = EXPORTED / f"{name}-{version}.onnx"
            if os.environ.get("WEFT_UPDATE"):
                for noted in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output,
                              *model.graph.initializer, *model.graph.value_info):
                    del noted.metadata_props[:]
                onnx.save(model, file)
            self.assertEqual(*(([n.op_type for n in m.graph.node], [i.name for i in m.graph.input],
                                [o.name for o in m.graph.output]) for m in (model, onnx.load(file))))
        self.assertEqual(len(kept), len(list(EXPORTED.iterdir())))

    @unittest.skipUnless(SB3, "no stable_baselines3")
    def test_stable_baselines3(self):
        """The wrapper acts as predict does: spaces of both kinds, squashed and clipped, with normalised observations."""
        import stable_baselines3 as sb3
        from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
        client, export, deterministic, agent, torch = self.names("client", "export", "Deterministic", "agent", "torch")

        def normalised():
            return VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))

        quick = {"learning_starts": 10}
        agents = {
            "ppo": agent,
            "ppo-box": sb3.PPO("MlpPolicy", normalised(), n_steps=64).learn(128),
            "a2c": sb3.A2C("MlpPolicy", "Pendulum-v1").learn(64),
            "sac": sb3.SAC("MlpPolicy", "Pendulum-v1", **quick).learn(20),
            "td3": sb3.TD3("MlpPolicy", normalised(), **quick).learn(20),
            "dqn": sb3.DQN("MlpPolicy", "CartPole-v1", **quick).learn(20),
        }
        for name, made in agents.items():
            with self.subTest(name):
                size = made.observation_space.shape[0]
                if name != "ppo":
                    export(deterministic(made), f"{name}.onnx", {"observation": torch.zeros(2, size)}, ["action"])
                    weft.Client(self.session.server.admin).push(f"{name}.onnx", name)
                wait(lambda: not lacks(client, name))
                seen = np.random.default_rng(3).normal(scale=3, size=(40, size)).astype(np.float32)
                normalize = made.get_vec_normalize_env()
                wanted, _ = made.predict(normalize.normalize_obs(seen) if normalize else seen, deterministic=True)
                served = client.predict(name, {"observation": seen})["action"]
                np.testing.assert_allclose(wanted, served, atol=1e-5)
                self.assertEqual("BATCHING_PROOF_STRUCTURE", proof(client, name))
        torch.distributions.Distribution.set_default_validate_args(True)
        with self.assertRaises(torch.onnx.OnnxExporterError) as caught:
            export(deterministic(agent), "checked.onnx", {"observation": torch.zeros(2, 4)}, ["action"])
        self.quoted("_is_all_true", str(caught.exception))

    def test_faults(self):
        """The page quotes what clients are told."""
        client, = self.names("client")
        row = np.zeros((1, 4), np.float32)
        os.makedirs("models/slow/1")
        pathlib.Path("models/slow/model.yaml").write_text(echo.SLOW, encoding="utf-8")
        wait(lambda: not lacks(client, "slow"))
        for part, call in {
            "dtype: expected fp32, got fp64": lambda: client.predict("balance", {"observation": np.zeros((1, 4))}),
            "shape: expected [?,4], got [4]": lambda: client.predict("balance", {"observation": row[0]}),
            "there is 3, 2, 1": lambda: client.predict("balance", {"observation": row}, version=7),
            "DEADLINE_UNATTAINABLE": lambda: unattainable(client),
        }.items():
            with self.subTest(part):
                with self.assertRaises(weft.WeftError) as caught:
                    call()
                self.quoted(part, str(caught.exception), caught.exception.reason)
        for text, call in {  # which say by themselves what to do
            'INVALID_ARGUMENT: inputs["observation"]: expected a tensor of fp32 [?,4], got none of that name, but "obs"':
                lambda: client.predict("balance", {"obs": row}),
            'NOT_FOUND: no model is named "balanse"; there is "balance"':
                lambda: client.predict("balanse", {"observation": row}),
            "UNAVAILABLE: failed to connect to all addresses":
                lambda: weft.Client("127.0.0.1:1").predict("balance", {"observation": row}),
        }.items():
            with self.subTest(text):
                with self.assertRaises(weft.WeftError) as caught:
                    call()
                self.assertIn(text, str(caught.exception))

    def test_faults_of_rollouts(self):
        for text, arguments in {
            'model "balance" has no version 7 loaded':
                ["start", "balance", "--baseline", "7", "--candidate", "2", "--admin", self.session.server.admin],
            "no server answers at --admin 127.0.0.1:1": ["show", "balance", "--admin", "127.0.0.1:1"],
        }.items():
            with self.subTest(text):
                said = subprocess.run([os.path.abspath(serving.WEFT), "rollout", *arguments], check=False, capture_output=True,
                                      text=True)
                self.assertEqual(1, said.returncode)
                self.assertIn(text, said.stderr)

    @unittest.skipUnless(TORCH, "no torch")
    def test_faults_of_exports(self):
        """The page, and the one on models that are not batched, quote what weft check says of policies that are badly exported."""
        import torch

        class Samples(torch.nn.Linear):
            def forward(self, observation):
                pushed = super().forward(observation)
                return pushed + torch.randn_like(pushed)

        class Centres(torch.nn.Linear):
            def forward(self, observation):
                return super().forward(observation - observation.mean(0))

        rows = {"dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},)}
        for part, policy, choice in (
            ("no input has an open batch dimension", torch.nn.Linear(4, 2), {}),
            ("it draws random numbers", Samples(4, 2), rows),
            ("lets rows meet", Centres(4, 2), rows),
            ("no such file or directory", torch.nn.Linear(4, 2000), rows),
        ):
            with self.subTest(part):
                folder = tempfile.mkdtemp(dir=self.folder)
                os.makedirs(f"{folder}/bad/1")
                torch.onnx.export(policy, (torch.zeros(2, 4),), f"{folder}/bad/1/model.onnx", dynamo=True, verbose=False,
                                  input_names=["observation"], output_names=["action"], **choice)
                if part.startswith("no such"):
                    os.remove(f"{folder}/bad/1/model.onnx.data")
                page = re.sub(r"^```.*?^```$", "", NOT_BATCHED.read_text(encoding="utf-8"), flags=re.M | re.S)  # its tables
                page = None if part.startswith("no such") else page
                self.quoted(part, check(folder), page=page)

    def quoted(self, part, *said, page=None):
        """Wants a text to be said, and a text of the page's table, or of another page, that has the part to be said as it stands."""
        page = page or self.text[self.text.index("## Errors"):]
        quotes = [q for q in re.findall(r"`([^`]+)`", page) if part in q]
        self.assertTrue(quotes, part)
        for quote in quotes:
            said_so = re.compile(re.escape(quote).replace("…", ".*"))  # … stands for what differs from model to model
            self.assertTrue(any(said_so.search(s) for s in said), (quote, said))


def check(folder):
    """What weft check says of a repository."""
    return subprocess.run(["weft", "check", folder], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def unattainable(client):
    """Asks for what takes 50 ms within 20 until the server knows that it does, and refuses at once."""
    while True:
        try:
            client.predict("slow", {"x": np.zeros((1, 4), np.float32)}, timeout=0.02)
        except weft.WeftError as error:
            if error.reason:
                raise


def lacks(client, name):
    """Whether a server does not serve a model."""
    try:
        return not client.metadata(name).ready_versions
    except weft.WeftError:
        return True


def wait(happens):
    """Waits until something happens."""
    while not happens():
        time.sleep(0.05)


def proof(client, name):
    facts = client.metadata(name).batching
    return type(facts).DESCRIPTOR.fields_by_name["proof"].enum_type.values_by_number[facts.proof].name


if __name__ == "__main__":
    unittest.main()
