"""Another reader of a run directory, written from docs/reference/slice-log.md alone.

It knows nothing of Holdfast but what that page says, so it fails where the page is wrong or says
too little. Usage: another_reader.py RUN SINK STREAM [BOUNDARY]
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

SAFE = "@,#+= "
REPAIRS = 16


def word(name):
    return quote(name, safe=SAFE)


def record(path):
    """Kind and body of a record; raises ValueError naming a damaged one."""
    head, _, body = path.read_bytes().partition(b"\n")
    name, edition, kind, size, crc = head.split(b" ")
    if (name, edition) != (b"holdfast-record", b"2"):
        raise ValueError(f"{path}: not a record of the second edition")
    if len(body) != int(size) or zlib.crc32(body) != int(crc, 16):
        raise ValueError(f"{path}: torn or altered")
    return kind.decode(), json.loads(body)


def records(folder):
    """Number to kind and body, in order."""
    names = sorted(item.name for item in folder.glob("[0-9]*")) if folder.is_dir() else []
    return {int(name): record(folder / name) for name in names}


class Reader:
    def __init__(self, run):
        self.run = Path(run)

    def unit(self, name):
        return self.run / "units" / word(name)

    def of_stream(self, stream, kind):
        return [body for _, body in records(self.run / "streams" / word(stream) / kind).values()]

    def counting(self, stream):
        """Units of a stream, each with the epochs (after, upto] at which its slices count."""
        closings = self.of_stream(stream, "closings")
        for change in self.of_stream(stream, "changes"):
            number = change["number"]
            begun = [item for item in closings if item["next"] <= number]
            if begun:
                after = max(begun, key=lambda item: item["next"])["end"]
            else:
                first = self.of_stream(stream, "changes")[0]["start"]
                after = -1 if first is None else first
            upto = min((item["end"] for item in closings if item["next"] > number), default=None)
            for child in change["children"]:
                yield child["unit"], after, upto

    def rows(self, stream, after, upto, boundary):
        """The rows of a stream at the epochs (after, upto], which are ends."""
        found = []
        for unit, least, most in self.counting(stream):
            first, last = max(after, least), upto if most is None else min(upto, most)
            floors = records(self.unit(unit) / "slices-floor")
            floor = list(floors.values())[-1][1] if floors else {"number": 0, "epoch": -1}
            if first < min(floor["epoch"], last):
                raise ValueError(f"{unit}: trimmed up to epoch {floor['epoch']}")
            for number, (kind, body) in records(self.unit(unit) / "slices").items():
                if kind == "slice" and number >= floor["number"] and first < body["upto"] <= last:
                    found += self.slice_rows(unit, number, body, boundary)
        return found

    def slice_rows(self, unit, number, body, boundary):
        files = body["files"]
        for place in range(number * REPAIRS, (number + 1) * REPAIRS):
            path = self.unit(unit) / "repairs" / f"{place:010d}"
            if path.exists():
                files = record(path)[1]["files"]
        found = []
        for file in files.get(boundary, ()):
            path = self.unit(unit) / "data" / word(boundary) / file["name"]
            data = path.read_bytes()
            size = file["schema_size"]
            if zlib.crc32(data[:size]) != file["schema_crc"]:
                raise ValueError(f"{path}: its schema is torn or altered")
            for part in file["parts"]:
                message = data[part["offset"] : part["offset"] + part["size"]]
                if zlib.crc32(message) != part["crc"]:
                    raise ValueError(f"{path}: key group {part['group']} is torn or altered")
                # Any one of its record batches is a stream with the schema before it.
                with pa.ipc.open_stream(data[:size] + message) as stream:
                    rows = stream.read_all().to_pylist()
                if len(rows) != part["rows"]:
                    raise ValueError(f"{path}: has not the rows that its record says")
                found += rows
        return found

    def ranges(self, sink):
        """The ranges of the unit that delivers to a sink by now, oldest first."""
        unit = self.of_stream(sink, "changes")[-1]["children"][0]["unit"]
        found = records(self.unit(unit) / "ranges").values()
        return [body for kind, body in found if kind == "range"]


if __name__ == "__main__":
    run, sink, stream = sys.argv[1:4]
    reader = Reader(run)
    read = reader.ranges(sink)
    on = sys.argv[4] if len(sys.argv) > 4 else stream
    for row in reader.rows(stream, read[0]["after"], read[-1]["upto"], on):
        print(json.dumps(row, default=str))
