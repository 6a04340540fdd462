"""python -m tests.fuzz.one TARGET [options of libFuzzer] [folders or files]: one fuzzer, in this process.

With a file instead of a folder it executes that input once: so a finding is looked at.
"""

from __future__ import annotations

import ctypes
import sys

from tests.faces.fuzz import address
from tests.fuzz.certificates import prepare
from tests.lint.sources import ROOT


def main(target: str, arguments: list[str]) -> int:
    prepare()
    driver = ctypes.CDLL(str(ROOT / "driver.so"))
    words = [b"fuzz", *(argument.encode() for argument in arguments)]
    array = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    driver.fuzz.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return int(driver.fuzz(address(target), len(words), ctypes.addressof(array)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
