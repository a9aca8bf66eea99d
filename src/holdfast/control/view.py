"""What people and programs are shown, made of state and vitals; see `control.status`."""

from __future__ import annotations

from holdfast.control.coordinator import Coordinator
from holdfast.control.events import UnitReport
from holdfast.control.state import NodeRecord, Recovery, UnitRecord
from holdfast.control.state.fork_state import ForkRecord
from holdfast.control.status import (
    ForkUnitView,
    ForkView,
    NodeView,
    PathView,
    RecoveryView,
    RunStatus,
    RunView,
    SplitView,
    UnitView,
)
from holdfast.deployment import PATH_MARK


def status_of(coordinator: Coordinator) -> RunStatus:
    """The whole run in one word."""
    state = coordinator.state
    # A hot path that is held is tried again when its breaker says so; what counts is its split.
    records = [
        record
        for record in state.units.values()
        if record.phase != "held" or record.unit.segment not in coordinator.hot
    ]
    if state.run.stopping:
        return "stopping"
    splits = [state.path_state.splits[name] for name in _splits(coordinator)]
    down = [split for split in splits if split.active is None]
    lost = any(all(item.state == "failed" for item in split.breakers) for split in down)
    if any(record.phase == "held" for record in records) or lost:
        return "failed"
    if not state.run.begun:
        return "gathering"
    if down or any(record.down is not None for record in records):
        return "recovering"
    if all(record.phase == "running" for record in records):
        return "running"
    return "starting"


def view(
    coordinator: Coordinator, now: float, *, timeline: int = 50, followers: tuple[str, ...] = ()
) -> RunView:
    """Everything, newest facts last; `followers`: coordinators that are ready to take over."""
    state = coordinator.state
    return RunView(
        pipeline=state.run.pipeline,
        launch=state.run.launch,
        status=status_of(coordinator),
        now=now,
        opened_at=state.run.opened_at,
        trouble=state.run.trouble or None,
        units=tuple(_unit(coordinator, record, now) for record in state.units.values()),
        nodes=tuple(
            _node(coordinator, state.nodes[name], now)
            for name in sorted(state.nodes, key=_by_number)
        ),
        recoveries=tuple(recovery_view(recovery) for recovery in state.recoveries),
        timeline=tuple(state.timeline[-timeline:]),
        term=state.run.term,
        coordinators=(*filter(None, [state.run.coordinator]), *followers),
        splits=tuple(_split(coordinator, name, now) for name in _splits(coordinator)),
        forks=tuple(_fork(coordinator, fork) for fork in state.fork_state.forks),
    )


def _splits(coordinator: Coordinator) -> list[str]:
    """Those of the pipeline that are open; the state may know others, of a pipeline before."""
    return [name for name in coordinator.state.path_state.splits if name in coordinator.splits]


def _split(coordinator: Coordinator, name: str, now: float) -> SplitView:
    known = coordinator.state.path_state.splits[name]
    return SplitView(
        split=name,
        active=known.active,
        carried=coordinator.paths.carries(name),
        preferred=known.preferred,
        paths=tuple(
            PathView(
                path=item.path,
                state=item.state,
                for_s=round(now - item.since, 3),
                why=item.why,
                by_hand=item.by_hand,
                on_probation=item.on_probation,
                bad_probes=item.bad_probes,
                probe_in_s=None if item.probe_at is None else round(item.probe_at - now, 3),
            )
            for item in known.breakers
        ),
    )


def _fork(coordinator: Coordinator, fork: ForkRecord) -> ForkView:
    reports = coordinator.forks.reports if fork.ended_at is None else {}
    return ForkView(
        fork=fork.number,
        began_at=fork.began_at,
        ended_at=fork.ended_at,
        reason=fork.reason,
        why=fork.why,
        silent=tuple(map(str, fork.silent)),
        fidelity=dict(fork.fidelity),
        units=tuple(
            ForkUnitView(
                unit=name,
                node=unit.node if fork.ended_at is None else None,
                generation=unit.generation,
                running=unit.running and fork.ended_at is None,
                epoch=reports[name].epoch if name in reports else None,
            )
            for name, unit in fork.units.items()
        ),
    )


def recovery_view(recovery: Recovery) -> RecoveryView:
    """One recovery with the durations of its phases, seconds."""

    def span(start: float | None, end: float | None) -> float | None:
        return None if start is None or end is None else round(end - start, 6)

    return RecoveryView(
        id=recovery.id,
        unit=str(recovery.unit),
        reason=recovery.reason,
        cause=recovery.cause,
        outcome=recovery.outcome,
        from_node=recovery.from_node,
        to_node=recovery.to_node,
        generation=recovery.generation,
        epoch=recovery.epoch,
        failed_at=recovery.failed_at,
        detected_at=recovery.detected_at,
        restored_at=recovery.restored_at,
        caught_up_at=recovery.caught_up_at,
        detect_s=span(recovery.failed_at, recovery.detected_at),
        restore_s=span(recovery.detected_at, recovery.restored_at),
        catch_up_s=span(recovery.restored_at, recovery.caught_up_at),
        total_s=span(recovery.failed_at, recovery.caught_up_at),
    )


def _unit(coordinator: Coordinator, record: UnitRecord, now: float) -> UnitView:
    vitals = coordinator.vitals.units.get(str(record.unit))
    report = vitals.report if vitals is not None else None
    return UnitView(
        unit=str(record.unit),
        phase=record.phase,
        generation=record.generation,
        node=record.node,
        down=record.down,
        operator=record.operator,
        error=record.error,
        failures=len(record.errors) + len(record.crashes) + len(record.shortages),
        batch=report.batch if report else None,
        epoch=report.epoch if report else None,
        waiting=report.waiting if report else None,
        rows_in=report.rows_in if report else None,
        rows_out=report.rows_out if report else None,
        rate_in=round(vitals.rate_in, 3) if vitals else None,
        rate_out=round(vitals.rate_out, 3) if vitals else None,
        batch_ms=report.batch_ms if report else None,
        state_bytes=report.state_bytes if report else None,
        age_s=round(now - vitals.heard_at, 3) if vitals else None,
        doing=report.doing if report else None,
        leads=_leads(coordinator, record, report),
        path=PATH_MARK.join(coordinator.hot.get(record.unit.segment, ())) or None,
    )


def _leads(coordinator: Coordinator, record: UnitRecord, report: UnitReport | None) -> bool | None:
    if not coordinator.state.unit_state.partners(record.unit):
        return None
    return report.leads if report is not None else False


def _node(coordinator: Coordinator, record: NodeRecord, now: float) -> NodeView:
    vitals = coordinator.vitals.nodes.get(record.node)
    return NodeView(
        node=record.node,
        incarnation=record.incarnation,
        domain=record.domain,
        pid=record.pid,
        spare=record.spare,
        connected=vitals.connected if vitals else False,
        ready=vitals.ready if vitals else False,
        silence_s=round(vitals.detector.silence_s(now), 3) if vitals else None,
        cpu=vitals.gauges.cpu if vitals else None,
        memory_bytes=vitals.gauges.memory_bytes if vitals else None,
        processes=vitals.gauges.processes if vitals else None,
        units=tuple(str(unit.unit) for unit in coordinator.state.unit_state.on_node(record.node)),
    )


def _by_number(name: str) -> tuple[str, int, str]:
    """n2 before n10, whichever joined first."""
    return name.rstrip("0123456789"), len(name), name
