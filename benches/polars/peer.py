"""What `ringscope-benches analyze` compares with: Polars over zstd Parquet.

    peer.py write COLUMNS PARQUET           COLUMNS: a directory of start, duration, name, track
    peer.py group PARQUET ENGINE WHAT       ENGINE: in-memory or streaming; WHAT: percentiles or plain

File and query are as Polars makes them unasked. Names and tracks stay numbers:
grouping by text would take Polars longer. `group` prints one JSON object: the
rows, and the seconds that the query took, without starting Python.
"""

import json
import os
import sys
import time

import polars as pl

COLUMNS = {"start": "u8", "duration": "u8", "name": "u4", "track": "u4"}
PERCENTILES = {"p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99}


def write(columns, parquet):
    import numpy

    read = lambda name, kind: numpy.fromfile(os.path.join(columns, name), dtype="<" + kind)
    frame = pl.DataFrame({name: read(name, kind) for name, kind in COLUMNS.items()})
    frame.write_parquet(parquet)


def group(parquet, engine, what):
    duration = pl.col("duration")
    wanted = [
        pl.len().alias("count"),
        duration.sum().alias("total_ns"),
        duration.mean().alias("mean_ns"),
        duration.max().alias("max_ns"),
    ]
    if what == "percentiles":
        wanted += [
            duration.quantile(share, interpolation="linear").alias(key)
            for key, share in PERCENTILES.items()
        ]
    begin = time.perf_counter()
    grouped = pl.scan_parquet(parquet).group_by("name").agg(wanted).collect(engine=engine)
    seconds = time.perf_counter() - begin
    json.dump({"seconds": seconds, "rows": grouped.to_dicts()}, sys.stdout)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    {"write": write, "group": group}[what](*arguments)
