"""One suite for every back end of the storage.

Another back end is one line in `BACK_ENDS`; it is done when this passes. An object store is there
as a sketch, to see that the interface asks for nothing that one does not have. What only a
directory has (links, temporary files, what is synced when) is in `test_local`.
"""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.storage.objects import ObjectStorage

from holdfast.storage import Storage
from holdfast.storage.interface import Cloning
from holdfast.storage.local import LocalStorage
from holdfast.storage.memory import MemoryStorage

pytestmark = pytest.mark.unit

BACK_ENDS = {
    "local": lambda folder, **options: LocalStorage(folder / "root", **options),
    "memory": lambda _folder, **options: MemoryStorage(clock=lambda: 5.0, **options),
    "objects": lambda _folder, **options: ObjectStorage(**options),
}


@pytest.fixture(params=BACK_ENDS)
def make(request, tmp_path):
    """Makes the back end; all that it is given is passed on."""
    return lambda **options: BACK_ENDS[request.param](tmp_path, **options)


@pytest.fixture
def store(make) -> Storage:
    return make()


# Records


def test_the_first_put_wins(store):
    """A second put changes nothing and returns what is there."""
    assert store.put_if_absent("a/b/n1", b"one") == b"one"
    assert store.put_if_absent("a/b/n1", b"two") == b"one"
    assert store.get("a/b/n1") == b"one"


def test_repeating_ones_own_put_counts_as_success(store):
    """A writer whose answer was lost puts again and finds its own bytes."""
    store.put_if_absent("n", b"mine")
    assert store.put_if_absent("n", b"mine") == b"mine"


def test_what_is_absent_is_told_so(store):
    """Missing records, data and folders are not errors."""
    assert store.get("x/y") is store.read("x/y") is store.put_time("x/y") is None
    assert store.read_ranges("x/y", [(0, 1)]) is None
    assert not store.exists("x/y")
    assert store.names("x") == store.folders("x") == store.checkpoints("x") == []
    assert store.sizes("x") == {}
    assert store.remove_leftovers("x", before=1e12) == 0
    store.delete("x/y")
    store.remove_folder("x", aside=".gone")
    store.remove_unfinished("x", lambda _: True)


def test_an_empty_record_is_a_record(store):
    """A mark needs no content."""
    assert store.put_if_absent("mark", b"") == b""
    assert store.exists("mark")
    assert store.get("mark") == b""
    assert store.put_if_absent("mark", b"late") == b""


def test_names_are_sorted_and_of_one_folder(store):
    """Listing gives the members of a folder only, and none that begin with a dot."""
    for name in ("f/t0-2", "f/t0-1", "f/g/t0-9", "other/t0-3", "f/.hidden"):
        store.put_if_absent(name, b"")
    assert store.names("f") == ["t0-1", "t0-2"]
    assert store.exists("f/g/t0-9")


def test_a_deleted_record_is_gone(store):
    """After deletion a name is free again; floors keep it from being used."""
    store.put_if_absent("f/a", b"1")
    store.delete("f/a")
    assert store.get("f/a") is store.put_time("f/a") is None
    assert store.names("f") == []
    assert store.put_if_absent("f/a", b"2") == b"2"


def test_many_writers_agree_on_one_value(store):
    """Whatever the interleaving, all writers see the same winner."""
    seen: list[bytes] = []
    barrier = threading.Barrier(8)

    def write(index: int) -> None:
        barrier.wait()
        seen.append(store.put_if_absent("race/n", b"%d" % index))

    threads = [threading.Thread(target=write, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert store.get("race/n") == seen[0]


def test_the_time_of_a_put_is_that_of_the_one_that_won(store):
    """Seconds of a wall clock, for measuring; a put that changed nothing does not count."""
    store.put_if_absent("f/a", b"1")
    first = store.put_time("f/a")
    store.put_if_absent("f/a", b"2")
    assert store.put_time("f/a") == first > 0


def test_whoever_wants_to_hear_of_puts_does(make):
    """By address, also of those through a folder, and of one that only found what is there."""
    heard = []
    store = make(told=heard.append)
    store.put_if_absent("f/a", b"1")
    store.below("f").put_if_absent("b", b"1")
    store.put_if_absent("f/a", b"2")
    store.put_data("f/data", [b"1"])
    assert heard == [store.address(name) for name in ("f/a", "f/b", "f/a")]


# Data


def test_data_are_read_by_range(store):
    """As many parts as were asked for, in that order; beyond the end there is less, or nothing."""
    store.put_data("f/data", [b"abc", memoryview(b"def"), b"", b"ghij"])
    store.sync("f")
    assert store.read("f/data") == b"abcdefghij"
    found = store.read_ranges("f/data", [(3, 3), (0, 1), (8, 5), (10, 1), (50, 3), (2, 0)])
    assert [bytes(part) for part in found] == [b"def", b"a", b"ij", b"", b"", b""]
    assert store.read_ranges("f/data", []) == []
    assert store.sizes("f") == {"data": 10}


def test_parts_of_data_may_be_made_while_they_are_written(store):
    """A large slice is never in memory twice."""
    made = []

    def parts():
        for number in range(3):
            made.append(number)
            yield b"%d" % number

    store.put_data("data", parts())
    assert (store.read("data"), made) == (b"012", [0, 1, 2])


def test_empty_data_can_be_read(store):
    """A file that a power cut has emptied is there, and short."""
    store.put_data("data", [])
    assert store.read("data") == b""
    assert [bytes(part) for part in store.read_ranges("data", [(0, 4)])] == [b""]


def test_what_was_read_stays_when_it_is_removed(store):
    """A trim does not take rows from under a batch that reads them."""
    store.put_data("data", [b"abc"])
    (part,) = store.read_ranges("data", [(0, 3)])
    store.delete("data")
    assert bytes(part) == b"abc"


def test_a_file_is_replaced_whole(store):
    """The last one counts, where nothing decides anything."""
    store.replace("f/a", b"long ago")
    store.replace("f/a", memoryview(b"now"))
    assert store.read("f/a") == b"now"
    assert store.names("f") == ["a"]


def test_sizes_are_those_of_all_folders_below(store):
    """By name relative to the folder; what begins with a dot is nobody's."""
    for name in ("s/1", "s/a/b/2", "s/a/.2.crc", "s/.x/3", "t/4"):
        store.put_data(name, [b"x" * int(name[-1], 36)])
    assert store.sizes("s") == {"1": 1, "a/b/2": 2}
    assert store.sizes("") == {"s/1": 1, "s/a/b/2": 2, "t/4": 4}


def test_who_holds_a_name_lives_until_it_lets_go(store):
    """Whoever never held it does not."""
    assert not store.is_held("alive/w")
    let_go = store.hold("alive/w")
    assert store.is_held("alive/w")
    assert store.names("alive") == ["w"]
    let_go()
    assert not store.is_held("alive/w")
    assert store.names("alive") == []


def test_syncing_what_is_not_there_is_no_error(store):
    """Spark writes a checksum beside some files, and not beside others."""
    store.put_data("f/a", [b"1"])
    store.sync("f", "a", ".a.crc")


# Checkpoints


def whole(store, folder):
    return {name: store.read(f"{folder}/{name}") for name in store.sizes(folder)}


def fill(store, folder, names):
    """A checkpoint with some files."""
    store.make_checkpoint(folder)
    for name in names:
        store.put_data(f"{folder}/{name}", [name.encode()])


def clone(store, source, target, **how):
    store.clone(source, target, Cloning(**how))


def test_a_clone_stays_as_it_was_made(store):
    """What is added, replaced or removed in the source later does not show."""
    fill(store, "c/1", ("commits/0", "offsets/0", "state/0/1.zip"))
    before = whole(store, "c/1")
    clone(store, "c/1", "c/2")
    store.put_data("c/1/commits/1", [b"later"])
    store.replace("c/1/offsets/0", b"other")
    store.delete("c/1/state/0/1.zip")
    assert whole(store, "c/2") == before
    assert store.checkpoints("c") == ["1", "2"]


def test_a_clone_that_is_there_is_left_alone(store):
    """A generation that starts again goes on with what it has."""
    fill(store, "c/1", ("a",))
    fill(store, "c/2", ("b",))
    clone(store, "c/1", "c/2")
    assert whole(store, "c/2") == {"b": b"b"}


def test_files_are_cloned_in_the_order_asked_for(store):
    """First those named, then the others; temporary files of whoever writes there are left out."""
    fill(store, "c/1", ("b/2", "b/1", "a", "z/1", "m", "z/2.tmp"))
    order = []

    def edit(name):
        order.append(name)

    clone(store, "c/1", "c/2", first=("z", "nowhere", "m"), edit=edit)
    assert [name for name in order if not name.endswith(".tmp")] == ["z/1", "m", "a", "b/1", "b/2"]
    assert "z/2.tmp" not in whole(store, "c/2")


def test_a_clone_may_differ_in_files_that_name_their_place(store):
    """They are made anew, or left out; the source keeps its own."""
    fill(store, "c/1", ("keep", "change", "drop"))
    edits = {"change": lambda data: data + b"d", "drop": lambda _: None}
    clone(store, "c/1", "c/2", edit=edits.get)
    assert whole(store, "c/2") == {"keep": b"keep", "change": b"changed"}
    assert store.read("c/1/change") == b"change"


class KilledError(BaseException):
    """Stands for SIGKILL, as far as Python lets it."""


def test_half_a_clone_is_none(store):
    """Whoever dies in between leaves nothing that passes for a checkpoint."""
    fill(store, "c/1", ("a", "b", "c"))
    seen = []

    def die(done):
        seen.append((done, store.checkpoints("c")))
        if done == 1:
            raise KilledError

    with pytest.raises(KilledError):
        clone(store, "c/1", "c/2", step=die)
    assert seen == [(0, ["1"]), (1, ["1"])]
    assert store.checkpoints("c") == ["1"]
    clone(store, "c/1", "c/2")
    assert whole(store, "c/2") == whole(store, "c/1")


def test_a_folder_is_removed_with_all_in_it(store):
    """Its neighbours stay, also those whose names begin like it."""
    fill(store, "c/1", ("a", "b/c"))
    fill(store, "c/10", ("a",))
    store.remove_folder("c/1", aside="c/.1-gone")
    assert store.checkpoints("c") == ["10"]
    assert store.sizes("c/1") == {}
    assert not store.exists("c/1/a")
    store.remove_unfinished("c", lambda _: True)
    assert whole(store, "c/10") == {"a": b"a"}


def test_a_cloner_that_was_given_up_does_not_finish(store):
    """It may have slept for an hour; what it copies after that never passes for a checkpoint."""
    fill(store, "c/1", ("a", "b", "c"))
    asleep = threading.Event()

    def sleep(done):
        if done == 1 and not asleep.is_set():
            asleep.set()
            store.remove_unfinished("c", lambda name: name == "2")

    if isinstance(store, MemoryStorage):
        pytest.skip("a clone appears at once, so none is ever unfinished")
    with pytest.raises(FileNotFoundError):
        clone(store, "c/1", "c/2", step=sleep)
    assert store.checkpoints("c") == ["1"]
    assert store.sizes("c/2") == {}


def test_only_stale_clones_are_given_up(store):
    """A newer generation may be cloning at this moment."""
    fill(store, "c/1", ("a", "b"))
    clone(store, "c/1", "c/2", step=lambda _: store.remove_unfinished("c", lambda name: name < "2"))
    assert whole(store, "c/2") == {"a": b"a", "b": b"b"}


def test_a_checkpoint_that_is_made_is_there(store):
    """Spark is given one to write its first checkpoint to; making it twice does no harm."""
    for _ in range(2):
        store.make_checkpoint("c/000001")
    assert store.checkpoints("c") == ["000001"]
    assert store.names("c/000001") == []


# Places


def test_a_storage_can_be_seen_from_a_folder(store):
    """The same records, under shorter names."""
    inner = store.below("a").below("b")
    inner.put_if_absent("c/n", b"1")
    assert store.get("a/b/c/n") == b"1"
    assert inner.names("c") == ["n"]
    assert inner.folders("") == ["c"]
    assert inner.sizes("") == {"c/n": 1}
    assert inner.address("c/n") == store.address("a/b/c/n") == inner.below("c/n").address("")
    inner.remove_folder("c", aside=".c")
    assert store.get("a/b/c/n") is None


WORDS = st.sampled_from(["a", "b", "c@k", "0000000001", "x y"])
NAMES = st.lists(WORDS, min_size=3, max_size=3).map("/".join)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put_if_absent"), NAMES, st.binary(max_size=3)),
        st.tuples(st.just("replace"), NAMES, st.binary(max_size=3)),
        st.tuples(st.just("get"), NAMES),
        st.tuples(st.just("read"), NAMES),
        st.tuples(st.just("exists"), NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("names"), st.lists(WORDS, min_size=1, max_size=2).map("/".join)),
        st.tuples(st.just("sizes"), st.lists(WORDS, max_size=2).map("/".join)),
    ),
    max_size=25,
)


@given(OPERATIONS)
def test_all_back_ends_answer_alike(tmp_path_factory, operations):
    """Whatever the order of operations: what holds in memory holds on disk."""
    folder = tmp_path_factory.mktemp("alike")
    stores = [make(folder) for make in BACK_ENDS.values()]
    for name, *arguments in operations:
        answers = [getattr(store, name)(*arguments) for store in stores]
        assert all(answer == answers[0] for answer in answers), (name, arguments)


def assemble(store, target, files, *, step=lambda _: None):
    store.assemble(target, files, step=step)


def test_a_checkpoint_is_assembled_of_parts_of_others(store):
    """Stored files under other names, and new ones; what is gone meanwhile is left out."""
    fill(store, "c/1", ("state/0/a", "state/1/b"))
    fill(store, "d/1", ("state/0/c",))
    parts = {
        "state/0/a": "c/1/state/0/a",
        "state/1/c": "d/1/state/0/c",
        "state/2/x": "d/1/state/9/x",
        "commits/0": b"new",
    }
    assemble(store, "e/000001", parts)
    store.delete("c/1/state/0/a")
    store.replace("d/1/state/0/c", b"other")
    found = whole(store, "e/000001")
    assert found == {"state/0/a": b"state/0/a", "state/1/c": b"state/0/c", "commits/0": b"new"}
    assemble(store, "e/000001", {"z": b"z"})
    assert whole(store, "e/000001") == found


def test_half_an_assembled_checkpoint_is_none(store):
    """Whoever dies in between leaves nothing that passes for a checkpoint."""
    parts = {name: name.encode() for name in ("a", "b", "c")}

    def die(done):
        if done == 1:
            raise KilledError

    with pytest.raises(KilledError):
        assemble(store, "c/2", parts, step=die)
    assert store.checkpoints("c") == []
    assemble(store, "c/2", parts)
    assert store.checkpoints("c") == ["2"]
