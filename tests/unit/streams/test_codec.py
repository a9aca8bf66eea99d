"""The stored form of records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.deployment.slicefiles import GroupPart, SliceFile
from holdfast.errors import CorruptLogError
from holdfast.streams.codec import KINDS, decode, encode
from holdfast.streams.records import (
    Branch,
    Change,
    Child,
    Claim,
    Closing,
    Floor,
    Fork,
    ForkEnd,
    Range,
    Repair,
    Restart,
    Seal,
    Skip,
    Slice,
    Term,
    Turn,
    change_of,
    stream_of,
    unit_name,
)

pytestmark = pytest.mark.unit

FILE = SliceFile(
    name="f",
    schema_size=7,
    schema_crc=2**32 - 1,
    parts=(GroupPart(group=127, rows=3, offset=7, size=9, crc=1, digest=2**64 - 1),),
)
RECORDS = [
    Change(
        stream="count",
        number=2,
        how="run",
        children=(Child(unit="count.2#0", segment="count", groups=(0, 64)),),
        parents=("count.0#0", "count.0#1"),
        reason="two are enough",
        writer="w",
    ),
    Restart(
        number=1,
        changes=(
            Change(
                stream="out",
                number=0,
                how="run",
                children=(Child(unit="out.0#0", segment="out", groups=(0, 128)),),
                start=8,
                restart=1,
            ),
        ),
        reason="out",
        writer="w",
    ),
    Range(unit="count.0#0", number=7, after=3, upto=9, turn=6, source={"files": ["a"]}),
    Turn(unit="count.0#0", number=6, change=2, end=None),
    Slice(unit="count.0#0", number=6, after=3, upto=9, files={"count@word": (FILE,)}, skip="2"),
    Repair(unit="count.0#0", number=96, slice=6, files={"count@word": (("g", 1),)}, digest="d"),
    Seal(unit="count.0#0", number=7, change=2, how="run", end=9, batch=6, watermark_us=5),
    Closing(stream="score", number=0, end=12, next=3),
    Skip(unit="count.0#0", number=6, rows={"lines": (4, 9)}, reason="not a number"),
    Claim(unit="count.0#0", replica=1, number=3, writer="w"),
    Term(number=4, holder="c1"),
    Fork(number=3, units=("count+3.0#0",), silent=("lines.0#1",), patience_s=2.0, reason="gone"),
    ForkEnd(number=3, reason="the exact results have caught up"),
    Branch(unit="count+3.0#0", batch=7, epoch=9, decided=8, watermark_us=5, generation=2),
    Floor(number=12, epoch=40),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_a_record_survives_being_stored(record):
    """What is read is what was written, type by type."""
    assert decode(encode(record), path="here") == record


def test_all_kinds_are_tried():
    """A new kind of record needs a sample above."""
    assert {record.kind for record in RECORDS} == set(KINDS)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:-3], "is torn"),
        (lambda data: data[:-2] + b"xx", "was altered"),
        (lambda data: b"holdfast-record 1" + data[17:], "is a record of edition 1"),
        (lambda data: data.replace(b" floor ", b" flour "), "unknown kind 'flour'"),
        (lambda data: b"", "is not a Holdfast record"),
        (
            lambda data: data.replace(b"holdfast-record 2 floor ", b"holdfast-record 2 floor x"),
            "unreadable",
        ),
    ],
)
def test_a_damaged_record_is_named(damage, said):
    """Nothing damaged is ever taken for a record."""
    with pytest.raises(CorruptLogError, match=said) as error:
        decode(damage(encode(Floor(number=1))), path="units/x/ranges/3")
    assert "units/x/ranges/3" in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [
        Slice(unit="x.0#0", number=2, after="x", upto=3),
        Slice(unit="x.0#0", number=2, after=1, upto=None),
        Range(unit="x.0#0", number=True, after=1, upto=2),
        Change(stream=7, number=0, how="run", children=()),
    ],
    ids=repr,
)
def test_a_record_with_a_field_of_another_kind_is_refused(wrong):
    """Whole and with the right checksum, it would be found out in the middle of a decision."""
    with pytest.raises(CorruptLogError, match=f"is no {wrong.kind} record as edition 2 has it"):
        decode(encode(wrong), path="here")


@pytest.mark.parametrize(
    "record", [item for item in RECORDS if hasattr(item, "how")], ids=lambda record: record.kind
)
def test_a_change_of_another_kind_is_refused(record):
    """A log that is neither handed over nor halted would be taken for one of the two."""
    with pytest.raises(CorruptLogError, match=f"is no {record.kind} record as edition 2 has it"):
        decode(encode(replace(record, how="cut")), path="here")


@given(st.sampled_from(RECORDS), st.data())
def test_any_changed_or_missing_byte_is_detected(record, data):
    """A record with one byte changed or its end torn off is refused, by name."""
    stored = encode(record)
    place = data.draw(st.integers(0, len(stored) - 1))
    if data.draw(st.booleans()):
        damaged = stored[:place]
    else:
        damaged = stored[:place] + bytes([stored[place] ^ 1]) + stored[place + 1 :]
    with pytest.raises(CorruptLogError, match="somewhere"):
        decode(damaged, path="somewhere")


@pytest.mark.parametrize("stream", ["count", "a.b#c", "split@user,word", "7"])
def test_a_unit_is_named_by_the_change_that_made_it(stream):
    """Stream and change can be told from the name, whatever the stream is called."""
    name = unit_name(stream, 12, 3)
    assert (stream_of(name), change_of(name)) == (stream, 12)
