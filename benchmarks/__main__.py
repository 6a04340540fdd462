"""The benchmarks' command line: `./build.sh bench` is `python -m benchmarks run` with all that it needs.

python -m benchmarks run [SUITE ...] [-k REGEX] [--trial]    measure, write JSON and the page
python -m benchmarks against FOLDER [SUITE ...] [-k REGEX]   the same rows in another tree by turns, with ratios
python -m benchmarks page                                    make the page anew from the JSON
python -m benchmarks readme                                  write the README's table from the JSON
python -m benchmarks list                                    suites and what they measure
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import against, readme, results
from benchmarks.bench import Bench, Suite, all_suites, chosen_suites
from benchmarks.page import write_page
from benchmarks.table import lines_of

CONSOLE = Console(highlight=False, soft_wrap=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, write JSON and the page")
    run.add_argument(
        "suites", nargs="*", metavar="SUITE", help="of those that `list` shows; all but the long ones by default"
    )
    run.add_argument("-k", default="", metavar="REGEX", help='rows to measure, searched in "suite: row"')
    run.add_argument("--trial", action="store_true", help="one short round of each: is everything there, does it work?")
    run.add_argument("--noisy", action="store_true", help="go on although other programs use the machine")
    run.add_argument(
        "--folder", type=Path, default=results.SCRATCH, help="where nodes keep their data; its disk is what is measured"
    )
    beside = commands.add_parser("against", help="the same rows in another tree by turns, with the ratio of the two")
    beside.add_argument("other", type=Path, metavar="FOLDER", help="a tree of another commit, with built extensions")
    beside.add_argument(
        "suites", nargs="*", metavar="SUITE", default=["puts", "reads"], help="puts and reads by default"
    )
    beside.add_argument("-k", default=".", metavar="REGEX", help='rows to measure, searched in "suite: row"')
    beside.add_argument("--turns", type=int, default=3, help="how often each tree runs; 3 by default")
    beside.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    for name, text in (("page", "make the page anew"), ("readme", "write the README's table")):
        commands.add_parser(name, help=text).add_argument("--results", type=Path, default=results.RESULTS)
    commands.add_parser("list", help="suites and what they measure")
    return parser.parse_args()


def refusal(options: argparse.Namespace, busy: float) -> str:
    """Why nothing is measured, in words; empty when nothing is in the way. busy: processors that others use."""
    if unknown := set(options.suites) - set(all_suites()):
        return f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(all_suites())}"
    if results.file_system_of(options.folder) == "tmpfs":
        return f"{options.folder} lies in memory, where a sync costs nothing: choose another with --folder"
    if busy > results.BUSY_MAX and not (options.trial or options.noisy):
        return f"other programs use {busy:.2f} processors: wait until they end, or see --noisy and --trial"
    return ""


def run(options: argparse.Namespace) -> int:
    options.folder.mkdir(parents=True, exist_ok=True)
    busy = results.busy_processors()
    if why := refusal(options, busy):
        CONSOLE.print(why)
        return 2
    is_whole_result = not options.trial and not options.k and busy <= results.BUSY_MAX
    folder = results.RESULTS if is_whole_result else results.TRIALS
    began_s = time.monotonic()
    failed = []
    with tempfile.TemporaryDirectory(prefix="run-", dir=options.folder) as scratch:
        for name, suite in chosen_suites(options.suites).items():
            try:
                measure(name, suite, options, Path(scratch), folder, busy)
            except Exception as error:  # one suite that fails is told, and must not cost the others' minutes
                CONSOLE.print_exception(max_frames=6)
                failed.append(f"{name}: {error}")
    page = write_page(results.read_all(folder), folder)
    CONSOLE.print(f"{time.monotonic() - began_s:.0f} s; {page}")
    for line in failed:
        CONSOLE.print(f"failed: {line}")
    return 1 if failed else 0


def run_against(options: argparse.Namespace) -> int:
    other = options.other.resolve()
    if not (other / "benchmarks" / "__main__.py").exists():
        CONSOLE.print(f"{other}: no tree of this project: it has no benchmarks/__main__.py")
        return 2
    if options.turns < 1:
        CONSOLE.print("--turns: at least 1")
        return 2
    columns = (TextColumn("{task.description:60}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=CONSOLE, transient=True, refresh_per_second=1) as progress:
        task = progress.add_task("", total=2 * options.turns)
        try:
            pairs = against.compare(
                other,
                options.suites,
                options.k,
                turns=options.turns,
                step=lambda what: progress.update(task, description=what, advance=1),
            )
        except against.TreeFailed as error:
            CONSOLE.print(str(error))
            return 1
    Console(width=max(CONSOLE.width, against.TABLE_WIDTH)).print(against.table_of(pairs, other))
    if options.json:
        options.json.write_text(json.dumps([pair.to_json() for pair in pairs], indent=1) + "\n")
    return 0


def measure(
    name: str, suite: Suite, options: argparse.Namespace, scratch: Path, folder: Path, busy_before: float
) -> None:
    """Run one suite, show its table, and write its file."""
    columns = (TextColumn("{task.description:60}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=CONSOLE, transient=True, refresh_per_second=1) as progress:
        task = progress.add_task(name, total=None)
        bench = Bench(
            scratch,
            selection=options.k,
            is_trial=options.trial,
            progress=lambda what: progress.update(task, description=f"{name}: {what}"),
        )
        bench.suite = name
        rows = suite.run(bench)
    if not rows:
        return
    command = " ".join(["./build.sh bench", *sys.argv[2:]])
    busy = (busy_before, results.busy_processors())
    found = results.report(name, suite.TITLE, rows, command=command, busy=busy, folder=scratch)
    path = results.write(found, folder)
    CONSOLE.print(f"\n{suite.TITLE}{' (noisy: no result)' if found['is_noisy'] else ''}   {path}")
    for line in lines_of(found["rows"]):
        CONSOLE.print(line)


def main() -> int:
    options = arguments()
    if options.command == "run":
        return run(options)
    if options.command == "against":
        return run_against(options)
    if options.command == "list":
        for name, suite in all_suites().items():
            CONSOLE.print(f"{name:10} {suite.TITLE}")
        return 0
    found = results.read_all(options.results)
    if options.command == "page":
        CONSOLE.print(write_page(found, options.results))
        return 0
    try:
        readme.write_table(found)
    except readme.NoResult as error:
        CONSOLE.print(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
