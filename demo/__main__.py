"""python -m demo: tell the story; exit code 0 only if the table is right, 130 after Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from demo.acts import Options, Story
from demo.display import Display, LiveDisplay, PlainDisplay
from demo.processes import DemoFailed
from demo.report import Report

INTERRUPTED = 130  # as a shell reports a process that SIGINT ended


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Real processes, kill -9 under load, and what was lost.")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load before all nodes are killed (20)")
    parser.add_argument("--nodes", type=int, choices=(3, 5), default=3)
    parser.add_argument("--plain", action="store_true", help="lines instead of a live picture")
    parser.add_argument(
        "--json", action="store_true", help="lines to standard error, one JSON object to standard output"
    )
    options = parser.parse_args(arguments)
    if not 1 <= options.seconds <= 3600:
        parser.error("--seconds: from 1 to 3600")
    return options


def display_for(options: argparse.Namespace) -> Display:
    if options.json:
        return PlainDisplay(sys.stderr)
    return PlainDisplay(sys.stdout) if options.plain or not sys.stdout.isatty() else LiveDisplay()


async def tell(options: argparse.Namespace, display: Display) -> Report:
    with tempfile.TemporaryDirectory(prefix="raftmeta-demo-") as folder:
        return await Story(Options(seconds=options.seconds, nodes=options.nodes), Path(folder), display).run()


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    try:
        with display_for(options) as display:
            report = asyncio.run(tell(options, display))
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
