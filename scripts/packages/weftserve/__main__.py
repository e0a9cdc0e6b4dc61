"""Runs the program that came with this package: python -m weftserve serve REPOSITORY."""

import os
import sys
import sysconfig
from pathlib import Path

# Where pip puts programs: of this environment, of the user, and of --target.
folders = (
    sysconfig.get_path("scripts"),
    sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")) if sys.version_info >= (3, 10) else "",
    Path(__file__).parents[1] / "bin",
)
for folder in folders:
    if folder and os.access(program := Path(folder) / "weft", os.X_OK):
        os.execv(program, ["weft", *sys.argv[1:]])
sys.exit(f"weftserve: the program weft is in none of {[str(f) for f in folders]}: install weftserve anew")
