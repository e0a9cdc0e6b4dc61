"""Packs what build.sh has staged into the wheel weftserve, for pip and uv (wheel.py STAGE OUT).

A wheel is a zip file with a list of its files. No backend of builds is needed for one that holds a built program.
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from pathlib import Path

stage, out = map(Path, sys.argv[1:])
# PEP 440 has other forms of 0.0.0-dev.TIME.COMMIT and 1.2.3-rc.1.
version = re.sub(r"-dev\.(\d+)\.", r".dev\1+", os.environ["VERSION"])
version = re.sub(r"-(alpha|beta|rc)\.?(?=\d)", lambda m: {"alpha": "a", "beta": "b", "rc": "rc"}[m[1]], version)
machine = {"amd64": "x86_64", "arm64": "aarch64"}[os.environ["GOARCH"]]
tag = f"py3-none-manylinux_2_34_{machine}"  # the glibc of nfpm.yaml
name = f"weftserve-{version}"

metadata = f"""\
Metadata-Version: 2.4
Name: weftserve
Version: {version}
Summary: Weft, a gRPC and HTTP server for ONNX models, with ONNX Runtime
Project-URL: Source, https://github.com/weftserve/weft
License-Expression: Apache-2.0
License-File: LICENSE
License-File: NOTICE
License-File: THIRD_PARTY.txt
Requires-Python: >=3.8
Description-Content-Type: text/markdown

The program `weft`, which serves ONNX models over gRPC and HTTP, and the ONNX Runtime that it was made for:

    uvx --from weftserve weft serve REPOSITORY

`weftserve-client` is the client for Python. https://github.com/weftserve/weft has the documentation.
"""
files = {f"{name}.data/data/{f.relative_to(stage)}": f for f in stage.glob("share/**/*") if f.is_file()}
files |= {f"{name}.dist-info/licenses/{f}": stage / "doc" / f for f in ("LICENSE", "NOTICE", "THIRD_PARTY.txt")}
files |= {
    f"{name}.data/scripts/weft": stage / "bin/weft",
    f"{name}.data/data/lib/weft/libonnxruntime.so": stage / "lib/libonnxruntime.so",
    "weftserve/__main__.py": Path(__file__).parent / "weftserve/__main__.py",
}
entries = {path: file.read_bytes() for path, file in files.items()} | {
    f"{name}.dist-info/METADATA": metadata.encode(),
    f"{name}.dist-info/WHEEL": f"Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
}
record = f"{name}.dist-info/RECORD"
lines = [f"{record},,\n"]
for path, data in sorted(entries.items()):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    lines.append(f"{path},sha256={digest},{len(data)}\n")
entries[record] = "".join(sorted(lines)).encode()

when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
with zipfile.ZipFile(out / f"{name}-{tag}.whl", "w") as wheel:
    for path, data in sorted(entries.items(), key=lambda e: (".dist-info/" in e[0], e[0])):
        info = zipfile.ZipInfo(path, when)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
        wheel.writestr(info, data)
