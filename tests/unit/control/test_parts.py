"""Each machine of the coordinator sees only what is its own.

What it may decide and command is a type, which mypy checks (`tests/typed/outlets.py` shows that it
does); what it may import, of facts, commands and other machines, is this list.
"""

import ast
from pathlib import Path
from typing import get_args

import pytest

from holdfast.control import commands as c
from holdfast.control import facts as f

pytestmark = pytest.mark.unit

CONTROL = Path(__file__).parents[3] / "src" / "holdfast" / "control"
KINDS = {
    "run": f.RunFact,
    "membership": f.NodeFact,
    "units": f.UnitFact,
    "placement": f.PlacementFact,
    "replication": f.ReplicaFact,
    "recovery": f.RecoveryFact,
    "handover": f.HandoverFact,
    "paths": f.PathFact,
    "forking": f.ForkFact,
}
COMMANDS = {
    "run": {"Finish"},
    "membership": {"Dismiss", "Fence"},
    "units": {"StartUnit", "StopUnit"},
    "placement": {"StartUnit"},
    "replication": set(),
    "recovery": set(),
    "handover": set(),
    "paths": {"KeepPath", "StartProbe", "StopProbe", "TakePath"},
    "forking": {"StartUnit", "StopUnit", "PutFork", "EndFork"},
}
# Modules of control that each may import besides events, facts, commands and outlet.
MODULES = {
    "run": {"state.run_state"},
    "membership": {"state.node_state", "vitals", "pool", "units"},
    "units": {"state.unit_state", "vitals", "recovery", "replication", "handover"},
    "replication": {"state.unit_state", "state.node_state", "vitals", "pool"},
    "placement": {"state.unit_state", "pool", "units"},
    "recovery": {"state.recovery_state"},
    "handover": {"state.unit_state"},
    "paths": {"state.path_state", "state.unit_state", "hot", "lingering", "probing"},
    "forking": {"concern", "state.fork_state", "state.recovery_state", "state.unit_state"},
}
# Of modules that hold more than one machine's.
NAMES = {
    ("membership", "vitals"): {"NodeSigns", "NodeVitals"},
    ("membership", "pool"): {"Candidate"},
    ("membership", "units"): {"Overdue"},
    ("units", "vitals"): {"UnitSigns", "UnitVitals"},
    ("units", "recovery"): {"RecoveryLife"},
    ("units", "handover"): {"HandoverLife"},
    ("units", "replication"): {"Replication"},
    ("replication", "vitals"): {"UnitVitals"},
    ("replication", "state.unit_state"): {"UnitRecord"},
    ("replication", "state.node_state"): {"NodeRecord"},
    ("replication", "pool"): {"Elsewhere"},
    ("paths", "probing"): {"Places", "ProbeLife"},
    ("paths", "hot"): {"HotLife", "HotPaths"},
    ("paths", "lingering"): {"FORGET_S", "LeftUnits"},
    ("paths", "state.unit_state"): {"UnitRecord", "UnitState"},
    ("forking", "state.recovery_state"): {"Recovery"},
    ("forking", "state.unit_state"): {"UnitRecord"},
    ("placement", "units"): {"start_command"},
    ("placement", "state.unit_state"): {"UnitRecord"},
}
PARTS = (
    "state/run_state.py",
    "state/node_state.py",
    "state/unit_state.py",
    "state/recovery_state.py",
    "state/path_state.py",
    "state/fork_state.py",
)


def imported(path):
    """Module of control to the names that a file imports from it."""
    found = {}
    for node in ast.walk(ast.parse((CONTROL / path).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast.control"):
            module = node.module.removeprefix("holdfast.control").removeprefix(".")
            found.setdefault(module, set()).update(alias.name for alias in node.names)
    return found


def names(union):
    return {kind.__name__ for kind in get_args(union) or (union,)}


def test_each_kind_of_fact_is_decided_by_one_machine():
    """Together they decide all kinds, and none is decided by two."""
    decided = [name for kinds in KINDS.values() for name in names(kinds)]
    assert len(decided) == len(set(decided))
    assert set(decided) == names(f.Fact)


def test_each_command_is_given_by_a_machine():
    """All but the record of a fact, which the ledger makes."""
    assert set().union(*COMMANDS.values()) | {"Record"} == names(c.Command)


@pytest.mark.parametrize("machine", KINDS)
def test_a_machine_imports_only_what_is_its_own(machine):
    """Its facts, its commands, its part; of others what the list names."""
    found = imported(f"{machine}.py")
    known = names(f.Fact)
    assert found.pop("facts") & known <= names(KINDS[machine])
    assert found.pop("commands", set()) == COMMANDS[machine]
    assert found.pop("outlet") == {"Moment", "Outlet"}
    found.pop("events", None)
    assert set(found) == MODULES[machine]
    for module, allowed in NAMES.items():
        if module[0] == machine:
            assert found[module[1]] == allowed


@pytest.mark.parametrize("path", PARTS)
def test_a_part_knows_no_other(path):
    """What a fact of one machine means for the part of another stands in the whole alone."""
    allowed = {"facts", "events", "state.illegal", "state.index"}
    assert set(imported(path)) <= allowed
