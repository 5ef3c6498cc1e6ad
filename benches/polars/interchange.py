"""What `ringscope-benches interchange` compares with.

    interchange.py parse FILE WITH          WITH: json, orjson or duckdb
    interchange.py write PARQUET OUT        the rows of PARQUET, written again by Polars

Prints one JSON object with the seconds that the work took, without starting Python and, for `write`,
without reading the rows. Texts are given to Polars as its categories, which it writes quicker
than strings; the file is as it writes one unasked, with zstd and row groups of 262,144.
"""

import json
import os
import sys
import time


def parse(file, with_):
    if with_ == "duckdb":
        import duckdb

        query = f"SELECT count(*) FROM (SELECT unnest(traceEvents) FROM read_json('{file}', maximum_object_size=1000000000))"
        work = lambda: duckdb.sql(query).fetchall()[0][0]
    else:
        load = json.load
        if with_ == "orjson":
            import orjson

            load = lambda opened: orjson.loads(opened.read())
        work = lambda: len(load(open(file, "rb"))["traceEvents"])
    begin = time.perf_counter()
    events = work()
    return {"seconds": time.perf_counter() - begin, "events": events}


def write(parquet, out):
    import polars as pl

    frame = pl.read_parquet(parquet)
    texts = [name for name, kind in frame.schema.items() if kind == pl.String and name != "fields"]
    frame = frame.with_columns(pl.col(texts).cast(pl.Categorical)).rechunk()
    begin = time.perf_counter()
    frame.write_parquet(out, compression="zstd", row_group_size=262_144)
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "rows": frame.height, "bytes": os.path.getsize(out)}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    json.dump({"parse": parse, "write": write}[what](*arguments), sys.stdout)
