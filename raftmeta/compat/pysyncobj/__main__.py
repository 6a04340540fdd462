"""python -m raftmeta.compat.pysyncobj [--folder FOLDER] -- program.py arguments   (or: -- -m module arguments)"""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from raftmeta.compat import pysyncobj
from raftmeta.compat.pysyncobj.files import set_folder


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m raftmeta.compat.pysyncobj", description="Run a program that was written for PySyncObj."
    )
    parser.add_argument(
        "--folder", help="keep the state of objects that name no file in FOLDER/ADDRESS, across kills and power cuts"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- program.py arguments, or -- -m module arguments")
    given = parser.parse_args()
    program = given.program[1:] if given.program[:1] == ["--"] else given.program
    is_module = program[:1] == ["-m"]
    program = program[is_module:]
    if not program:
        parser.error("which program?")
    if given.folder is not None:
        set_folder(given.folder)
    pysyncobj.install()
    sys.argv = program
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(program[0])))
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
