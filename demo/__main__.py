"""python -m demo: tell the story; exit code 0 only if the table is right, 130 after Ctrl-C."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from demo.acts import Options, perform
from demo.display import Display, LiveDisplay, PlainDisplay
from demo.processes import DemoFailed
from demo.report import Report

INTERRUPTED = 130  # as a shell reports a process that SIGINT ended


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="demo", description="Real brokers, what happens to brokers, and what was lost."
    )
    parser.add_argument("--brokers", type=int, choices=(3, 5), default=3)
    parser.add_argument("--topics", type=int, default=1000, help="with 3 partitions each (1000)")
    parser.add_argument("--gil-seconds", type=float, default=5.0, help="how long a host holds its GIL (5)")
    parser.add_argument("--no-peer", action="store_true", help="without PySyncObj beside it")
    parser.add_argument("--web", action="store_true", help="show the acts on a page in a browser, too")
    parser.add_argument("--plain", action="store_true", help="lines instead of a live picture")
    parser.add_argument(
        "--json", action="store_true", help="lines to standard error, one JSON object to standard output"
    )
    options = parser.parse_args(arguments)
    if not 1 <= options.topics <= 10_000:
        parser.error("--topics: from 1 to 10000")
    if not 0.1 <= options.gil_seconds <= 60:
        parser.error("--gil-seconds: from 0.1 to 60")
    return options


def display_for(options: argparse.Namespace) -> Display:
    if options.json:
        return PlainDisplay(sys.stderr)
    return PlainDisplay(sys.stdout) if options.plain or not sys.stdout.isatty() else LiveDisplay()


def tell(options: argparse.Namespace, display: Display) -> Report:
    with tempfile.TemporaryDirectory(prefix="raftmeta-demo-") as folder:
        acts = Options(
            brokers=options.brokers,
            topics=options.topics,
            gil_s=options.gil_seconds,
            with_peer=not options.no_peer,
            with_web=options.web,
        )
        return perform(acts, Path(folder), display)


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    try:
        with display_for(options) as display:
            report = tell(options, display)
            display.verdict(report)
    except DemoFailed as failure:
        print(f"demo: {failure}", file=sys.stderr)
        if options.json:
            print(json.dumps({"right": False, "error": str(failure)}))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if options.json:
        print(json.dumps(report.as_json()))
    return 0 if report.is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
