"""Writes a row at every PostgreSQL that takes it, again and again, and says which were acknowledged.

python row_recorder.py PORT ...         by psycopg; PGPASSWORD is the superuser's

A line for each: "mark PORT ROW TIMELINE BEGUN ENDED". The timeline is that of the server as the row was written, in
hexadecimal digits; times are those of one clock. A row whose connection broke is not said: nobody knows.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import psycopg

PAUSE_S = 0.05
CONNECT_S = 3
ROWS_MAX = 10**9  # of a port
INSERT = "insert into marks values (%s) returning substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"


def record(port: int, number: int, ended: threading.Event) -> None:
    row = number * ROWS_MAX
    while not ended.wait(PAUSE_S):
        try:
            with psycopg.connect(
                host="127.0.0.1",
                port=port,
                user="postgres",
                dbname="postgres",
                connect_timeout=CONNECT_S,
                autocommit=True,
            ) as connection:
                while not ended.wait(PAUSE_S):
                    row += 1
                    begun_s = time.monotonic()
                    told = connection.execute(INSERT, (row,)).fetchone()
                    assert told is not None
                    sys.stdout.write(f"mark {port} {row} {told[0]} {begun_s:.6f} {time.monotonic():.6f}\n")
                    sys.stdout.flush()
        except psycopg.Error:
            continue


def main() -> None:
    ended = threading.Event()
    for number, port in enumerate(sys.argv[1:], start=1):
        threading.Thread(target=record, args=(int(port), number, ended), daemon=True).start()
    ended.wait()


if __name__ == "__main__":
    os.umask(0o077)
    main()
