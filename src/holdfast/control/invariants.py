"""What must hold after every event, as executable text.

Used by tests after each step and by the simulator. It looks at every unit, so production does it
only when asked to (`HOLDFAST_VALIDATE=1`). Each broken rule is returned as one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.control.commands import (
    Command,
    Dismiss,
    EndFork,
    Fence,
    Finish,
    KeepPath,
    PutFork,
    Record,
    StartProbe,
    StartUnit,
    StopProbe,
    StopUnit,
    TakePath,
)
from holdfast.control.coordinator import Coordinator
from holdfast.control.facts import ForkPlaced, UnitPlaced
from holdfast.control.state import Recovery, State
from holdfast.errors import CheckFailedError


def validate(coordinator: Coordinator) -> None:
    """Raise if the coordinator's state breaks a rule."""
    broken = broken_rules(coordinator)
    if broken:
        story = "".join(f"\n  {fact}" for fact in coordinator.state.story())
        raise CheckFailedError(f"{'; '.join(broken)}; what led to it:{story}")


def broken_rules(coordinator: Coordinator) -> list[str]:
    state = coordinator.state
    return [
        *_units(state, coordinator.policy.max_units_per_node),
        *_replicas(state),
        *_paths(coordinator),
        *_nodes(coordinator),
        *_recoveries(state),
        *_forks(state),
        *_index(state),
        *_pool(coordinator),
        *_checks(coordinator),
    ]


def _replicas(state: State) -> Iterator[str]:
    """Replicas of one unit share no failure domain, and at most one of them is said to lead."""
    for record in state.units.values():
        partners = state.unit_state.partners(record.unit)
        if record.leads and any(other.leads for other in partners):
            yield f"{record.unit}: several replicas lead"
        home = state.nodes.get(record.node or "")
        for other in partners:
            there = state.nodes.get(other.node or "")
            if home is None or there is None:
                continue
            if home is there or (home.domain and home.domain == there.domain):
                yield f"{record.unit} and {other.unit} are in one failure domain"


def _paths(coordinator: Coordinator) -> Iterator[str]:
    """Units of splits are alone on their nodes, and an active path has a closed breaker; where a
    path is probed, no unit is.
    """
    state = coordinator.state
    for node in coordinator.paths.probed_on:
        for record in state.unit_state.on_node(node):
            yield f"{record.unit} is on {node}, where a path is probed"
    for record in state.units.values():
        if record.unit.segment in coordinator.policy.alone and record.node is not None:
            beside = state.unit_state.on_node(record.node)
            if len(beside) > 1:
                yield f"{record.unit} shares {record.node} with {len(beside) - 1} others"
    for name, split in state.path_state.splits.items():
        closed = [item.path for item in split.breakers if item.state == "closed"]
        if (split.active is None) == bool(closed) or (split.active or "") not in (*closed, ""):
            yield f"{name} is to take {split.active}, closed are {closed}"


def broken_commands(
    coordinator: Coordinator, commands: Sequence[Command], generations: Mapping[str, int]
) -> list[str]:
    """Rules of one result of `handle`, given the generations of all units before it."""
    state, vitals = coordinator.state, coordinator.vitals
    broken: list[str] = []
    known = dict(generations)
    for command in commands:
        match command:
            case Record(fact=UnitPlaced() as placed):
                if placed.generation <= known.get(str(placed.unit), 0):
                    broken.append(f"{placed.unit}: generation {placed.generation} is not new")
                known[str(placed.unit)] = placed.generation
            case Record(fact=ForkPlaced() as placed):
                known[str(placed.unit)] = placed.generation
            case StartUnit():
                unit = state.unit(command.unit) or state.fork_state.unit(command.unit)
                if not vitals.is_connected(command.node):
                    broken.append(f"{command.unit} is started on {command.node}, not connected")
                if unit is None or unit.node != command.node:
                    broken.append(f"{command.unit} is started where it is not placed")
                recorded = known.get(str(command.unit), unit.generation if unit else 0)
                if recorded != command.generation:
                    broken.append(f"{command.unit} is started before its placement is recorded")
            case StopUnit():
                unit = state.unit(command.unit)
                if not vitals.is_connected(command.node):
                    broken.append(f"{command.unit} is stopped on {command.node}, not connected")
                if unit is not None and (unit.node, unit.generation) == (
                    command.node,
                    command.generation,
                ):
                    broken.append(f"{command.unit}: its current generation is stopped")
            case Fence():
                live = state.nodes.get(command.node)
                if live is not None and live.pid == command.pid:
                    broken.append(f"{command.node} is fenced while live")
            case Dismiss(reason="fenced"):
                live = state.nodes.get(command.node)
                if live is not None and live.incarnation == command.incarnation:
                    broken.append(f"{command.node} is dismissed while live")
            case Finish():
                if state.nodes or not state.run.stopping:
                    broken.append("the run is finished with nodes left")
            case StartProbe():
                if not vitals.is_connected(command.node):
                    broken.append(f"a probe is started on {command.node}, not connected")
            case PutFork():
                fork = state.fork_state.live
                if fork is None or fork.number != command.fork:
                    broken.append(f"fork {command.fork} is put on record and does not live")
            case EndFork():
                fork = state.fork_state.live
                if fork is not None and fork.number == command.fork:
                    broken.append(f"fork {command.fork} lives and is ended on record")
            case Record() | Dismiss() | TakePath() | KeepPath() | StopProbe():
                pass
    return broken


def _units(state: State, room: int) -> list[str]:
    broken: list[str] = []
    loads: dict[str, int] = {}
    for name, unit in state.units.items():
        up = unit.phase in ("placed", "running")
        if up != (unit.node is not None):
            broken.append(f"{name} is {unit.phase} with node {unit.node}")
        if up and unit.generation < 1:
            broken.append(f"{name} is {unit.phase} without a generation")
        if unit.node is None:
            continue
        loads[unit.node] = loads.get(unit.node, 0) + 1
        node = state.nodes.get(unit.node)
        if node is None or node.incarnation != unit.incarnation:
            broken.append(f"{name} is on {unit.node}, which is not live")
        elif node.spare:
            broken.append(f"{name} is on {unit.node}, which is still counted as a spare")
    broken += [f"{node} has {load} units" for node, load in loads.items() if load > room]
    return broken


def _nodes(coordinator: Coordinator) -> list[str]:
    state, vitals = coordinator.state, coordinator.vitals
    fenced = set(state.node_state.fenced)
    broken = [
        f"{node.node} is live and fenced"
        for node in state.nodes.values()
        if node.incarnation in fenced
    ]
    if state.nodes.keys() != vitals.nodes.keys():
        broken.append(f"nodes {sorted(state.nodes)} have vitals {sorted(vitals.nodes)}")
    for name, known in vitals.units.items():
        if known.generation > state.units[name].generation:
            broken.append(f"{name} reports generation {known.generation} from the future")
    return broken


def _recoveries(state: State) -> list[str]:
    broken: list[str] = []
    open_units: set[str] = set()
    for recovery in state.recoveries:
        if not _in_order(recovery):
            broken.append(f"phases of recovery {recovery.id} are out of order: {recovery}")
        if recovery.outcome == "open":
            if str(recovery.unit) in open_units:
                broken.append(f"{recovery.unit} has two open recoveries")
            open_units.add(str(recovery.unit))
    for name, unit in state.units.items():
        if unit.down is not None and unit.phase != "held" and name not in open_units:
            broken.append(f"{name} is down ({unit.down}) without a recovery")
        if unit.phase == "held" and name in open_units:
            broken.append(f"{name} is held with an open recovery")
    return broken


def _forks(state: State) -> Iterator[str]:
    """What runs of a fork is on live nodes, and belongs to the one that lives."""
    for fork in state.fork_state.forks[:-1]:
        if fork.ended_at is None:
            yield f"fork {fork.number} lives beside a later one"
    live = state.fork_state.live
    for name, unit in live.units.items() if live else ():
        node = state.nodes.get(unit.node or "")
        if unit.node is not None and (node is None or node.incarnation != unit.incarnation):
            yield f"{name} is on {unit.node}, which is not live"
        if name in state.units:
            yield f"{name} of a fork passes for an exact unit"


def _index(state: State) -> list[str]:
    """The ways into the state lead where a look at all of it leads."""
    broken: list[str] = []
    nodes: dict[str, set[str]] = {}
    for name, unit in state.units.items():
        if unit.node is not None:
            nodes.setdefault(unit.node, set()).add(name)
    index = state.unit_state.index
    if index.by_node != nodes:
        broken.append(f"units by node are {nodes}, the index has {index.by_node}")
    if list(index.position) != list(state.units):
        broken.append("the index has another order of units")
    for name, unit in state.units.items():
        places = (name in index.ready, name in index.later, name in index.stuck)
        if sum(places) != (unit.phase == "waiting"):
            broken.append(f"{name} is {unit.phase} and waits in {places} of the index")
        if unit.phase == "waiting" and unit.announced != (name in index.stuck):
            broken.append(f"{name}: announced is {unit.announced}, unlike the index")
    return broken


def _pool(coordinator: Coordinator) -> list[str]:
    """Placement sees every connected node as it is."""
    state, vitals = coordinator.state, coordinator.vitals
    seen = {
        name: (node.incarnation, node.domain, node.spare, node.ready, node.load)
        for name, node in vitals.pool.nodes.items()
    }
    there = {
        name: (
            node.incarnation,
            node.domain,
            node.spare,
            vitals.nodes[name].ready,
            state.unit_state.load(name),
        )
        for name, node in state.nodes.items()
        if vitals.is_connected(name)
    }
    broken = [] if seen == there else [f"connected nodes are {there}, placement sees {seen}"]
    workers = sum(not spare for _, _, spare, _, _ in there.values())
    if vitals.pool.workers != workers:
        broken.append(f"{workers} workers are connected, placement counts {vitals.pool.workers}")
    return broken


def _checks(coordinator: Coordinator) -> list[str]:
    """Whatever may be given up for silence will be looked at."""
    state, vitals = coordinator.state, coordinator.vitals
    broken = [
        f"nobody looks at {name}" for name in vitals.nodes if name not in vitals.node_signs.checks
    ]
    for name, unit in state.units.items():
        if unit.node is None or not vitals.is_connected(unit.node):
            continue
        known = vitals.units.get(name)
        waits = unit.phase == "placed" or (
            known is not None and known.stall.deadline(unit.stalls) is not None
        )
        if waits and name not in vitals.unit_signs.checks:
            broken.append(f"nobody looks at {name}")
    return broken


def _in_order(recovery: Recovery) -> bool:
    """Phases set are a prefix of all phases, in the order of time."""
    stamps = (
        recovery.failed_at,
        recovery.detected_at,
        recovery.restored_at,
        recovery.caught_up_at,
    )
    reached = [stamp for stamp in stamps if stamp is not None]
    prefix = stamps[: len(reached)] == tuple(reached)
    closed = (recovery.outcome == "open") == (recovery.closed_at is None)
    done = (recovery.outcome == "caught up") == (recovery.caught_up_at is not None)
    return prefix and closed and done and reached == sorted(reached)
