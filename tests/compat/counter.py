"""A program written for PySyncObj: a counter on several nodes. It answers each line that it reads with one line.

counter.py JOURNAL ADDRESS OTHER OTHER        JOURNAL may be "-"
"""

from __future__ import annotations

import sys

from pysyncobj import SyncObj, SyncObjConf, SyncObjException, replicated
from pysyncobj.batteries import ReplDict


class Counter(SyncObj):
    def __init__(self, journal, address, others, consumers):
        conf = SyncObjConf(journalFile=None if journal == "-" else journal, appendEntriesUseBatch=False)
        super().__init__(address, others, conf, consumers=consumers)
        self.total = 0

    @replicated
    def add(self, number):
        if number < 0:
            raise ValueError("it only grows")
        self.total += number
        return self.total


def answer(counter, names, words):
    if words[0] == "add":
        return str(counter.add(int(words[1]), sync=True, timeout=float(words[2])))
    if words[0] == "name":
        names.set(words[1], words[2], sync=True, timeout=10)
        return "ok"
    if words[0] == "ready":
        return str(counter.isReady())
    return f"{counter.total} {sorted(names.items())} {counter.raftLastApplied}"


def main():
    names = ReplDict()
    counter = Counter(sys.argv[1], sys.argv[2], sys.argv[3:], [names])
    for line in sys.stdin:
        try:
            print(answer(counter, names, line.split()), flush=True)
        except SyncObjException as error:
            print(f"SyncObjException {error.errorCode}", flush=True)
    counter.destroy()


if __name__ == "__main__":
    main()
