"""`holdfast.plan`, `profile`, `run` and `prove` for notebooks and scripts.

They do what the commands of the same names do, take a pipeline as well as the path of one, and give
back values: a plan shows itself as a drawing in Jupyter.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import BadInputsError, CheckFailedError
from holdfast.pipeline import Parquet, Pipeline, Sqlite, inspect_pipeline

if TYPE_CHECKING:
    from holdfast.plan import Plan
    from holdfast.planners.planning import Objective
    from holdfast.predict.statistics import Statistics
    from holdfast.prove.result import Proof
    from holdfast.topology.graph import Topology

App: TypeAlias = Pipeline | str | Path
"""A pipeline, or where one is: FILE.py, FILE.py:NAME or MODULE:NAME."""
_HOME = Path(".holdfast")
_TOPOLOGIES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShownPlan:
    """A plan with what it is of; in Jupyter it is drawn."""

    plan: Plan
    topology: Topology
    grounds: str
    """What its numbers rest on."""

    def __str__(self) -> str:
        from holdfast.cli.sentences import sentence  # noqa: PLC0415 - see holdfast/__init__

        return "\n".join(filter(None, (sentence(self.topology, self.plan), self.grounds)))

    def __repr__(self) -> str:
        """What a Python shell shows: all fields of a plan and its topology are pages."""
        return str(self)

    def _repr_svg_(self) -> str:
        from holdfast.draw import draw_svg, plan_marks  # noqa: PLC0415 - see holdfast/__init__

        return draw_svg(self.topology, plan_marks(self.topology, self.plan))

    def _repr_html_(self) -> str:
        said = html.escape(str(self)).replace("\n", "<br>")
        return f"<p>{said}</p>{self._repr_svg_()}"

    def save(self, path: str | Path) -> Path:
        """Write it as a plan file, for `holdfast run --plan`."""
        path = Path(path)
        path.write_text(json.dumps(self.plan.to_json(), indent=1) + "\n", encoding="utf-8")
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that has stopped; starting it again with the same directory resumes it."""

    run_dir: Path
    pipeline: Pipeline

    def rows(self, sink: str) -> list[dict[str, Any]]:
        """What a Parquet or Sqlite sink holds; of upserts the newest versions."""
        operator = self.pipeline.operator(sink)
        match operator.sink:
            case Parquet(path=path):
                key = self.pipeline.operator(operator.inputs[0]).upsert_key
                return _parquet_rows(self.run_dir / path, key)
            case Sqlite(path=path, table=table):
                return _sqlite_rows(self.run_dir / path, table)
        raise CheckFailedError(f"{sink}: only Parquet and Sqlite keep rows")


def plan(
    app: App | Topology,
    *,
    max_recovery: str | float | None = None,
    max_latency: str | float | None = None,
    max_overhead: str | float | None = None,
    replicas: float | None = None,
    objective: Objective = "cheapest",
    method: str | None = None,
    stats: str | Path | None = None,
    time_limit_s: float | None = 30.0,
) -> ShownPlan:
    """Plan a pipeline by its profile, or a topology by its own numbers; see `holdfast plan`.

    A path that ends in .yaml, .yml or .json is that of a topology.
    """
    from holdfast.cli.profiles import grounds, refuse_unknown  # noqa: PLC0415 - as above
    from holdfast.clock import SystemClock  # noqa: PLC0415 - as above
    from holdfast.planners import planning  # noqa: PLC0415 - as above
    from holdfast.planners.interface import PlanRequest  # noqa: PLC0415 - as above
    from holdfast.planners.registry import planner as find  # noqa: PLC0415 - as above
    from holdfast.predict.statistics import load_statistics  # noqa: PLC0415 - as above
    from holdfast.quantities import parse_share, parse_time  # noqa: PLC0415 - as above
    from holdfast.topology.files import load_topology  # noqa: PLC0415 - as above
    from holdfast.topology.graph import Topology  # noqa: PLC0415 - as above

    if isinstance(app, (str, Path)) and Path(app).suffix in _TOPOLOGIES:
        app = load_topology(app)
    said = ""
    given = None if stats is None else Path(stats)
    if isinstance(app, Topology):
        planner, topology = find(method or "ftc"), app
        statistics = None if given is None else load_statistics(given)
    else:
        pipeline = _pipeline(app)
        planner, topology = find(method or "joint"), pipeline.topology()
        found = grounds(_place(app), pipeline, given, planner.method)
        refuse_unknown(found, max_overhead=max_overhead)
        statistics, said = found.statistics, found.said
        topology, statistics = planning.as_units(planner, topology, statistics)
    unit = topology.unit.time

    def bound(value: str | float | None, name: str) -> float | None:
        return None if value is None else parse_time(value, unit=unit, where=name)

    request = PlanRequest(
        max_recovery=bound(max_recovery, "max_recovery"),
        max_latency=bound(max_latency, "max_latency"),
        max_overhead=None if max_overhead is None else parse_share(str(max_overhead)),
        replicas=replicas,
        statistics=statistics,
    )
    topology, request = planning.as_measured(planner, topology, request)
    clock = SystemClock()
    solve = planning.make_solve(clock, time_limit_s=time_limit_s)
    result = planning.make_best_plan(planner, topology, request, solve, clock, objective=objective)
    return ShownPlan(plan=result, topology=topology, grounds=said)


def profile(
    app: App, *, duration: str | float = "20s", quick: bool = False, thorough: bool = False
) -> Statistics:
    """Measure a pipeline, and this machine if it is not known; kept where `plan` finds it."""
    from holdfast.cli.profile import profile as command  # noqa: PLC0415 - as above
    from holdfast.cli.profiles import profile_path  # noqa: PLC0415 - as above
    from holdfast.predict.statistics import load_statistics  # noqa: PLC0415 - as above

    pipeline = _pipeline(app)
    out = profile_path(_place(app), pipeline.name)
    out.parent.mkdir(exist_ok=True)
    options = {"quick": quick, "thorough": thorough}
    _call(command, app=_file(app), duration=_text(duration), out=out, **options)
    return load_statistics(out)


def run(
    app: App,
    *,
    plan: ShownPlan | str | Path | None = None,
    duration: str | float | None = None,
    nodes: int | None = None,
    spares: int | None = None,
    run_dir: str | Path | None = None,
    keep_input: bool = False,
) -> Run:
    """Run a pipeline on this machine for so long, or until it is interrupted."""
    from holdfast.cli.run import run as command  # noqa: PLC0415 - as above

    pipeline = _pipeline(app)
    where = Path(run_dir) if run_dir is not None else Path("runs") / pipeline.name
    _call(
        command,
        app=_file(app),
        plan=_plan_file(plan, pipeline),
        duration=None if duration is None else _text(duration),
        nodes=nodes,
        spares=spares,
        run_dir=where,
        keep_input=keep_input,
    )
    return Run(run_dir=where, pipeline=pipeline)


def prove(
    app: App,
    plan: ShownPlan | str | Path,
    *,
    faults: int = 20,
    nodes: int | None = None,
    spares: int | None = None,
    seed: int = 0,
    run_dir: str | Path | None = None,
) -> Proof:
    """Run a plan, kill nodes, and hold every recovery against the prediction."""
    import tempfile  # noqa: PLC0415 - as above

    from holdfast.cli.check import note, sound_pipeline  # noqa: PLC0415 - as above
    from holdfast.cli.prove import made_proving  # noqa: PLC0415 - as above
    from holdfast.plan.document import load_plan  # noqa: PLC0415 - as above
    from holdfast.prove.result import Audience  # noqa: PLC0415 - as above
    from holdfast.prove.run import prove as run_proof  # noqa: PLC0415 - as above

    file = _file(app)
    pipeline = sound_pipeline(file, note)
    planned = plan.plan if isinstance(plan, ShownPlan) else load_plan(Path(plan))
    proving = made_proving(
        file, pipeline, planned, faults=faults, nodes=nodes, spares=spares, seed=seed
    )
    where = run_dir or tempfile.mkdtemp(prefix=f"holdfast-prove-{pipeline.name}-")
    return run_proof(proving, Path(where), Audience())


# -- applications ---------------------------------------------------------------------------------


def _pipeline(app: App) -> Pipeline:
    if isinstance(app, Pipeline):
        app.validate()
        return app
    pipeline, problems = inspect_pipeline(str(app))
    if pipeline is None or problems:
        raise BadInputsError(problems)
    return pipeline


def _place(app: App) -> str:
    """What profiles are found by: the application, or the current directory."""
    return "" if isinstance(app, Pipeline) else str(app)


def _file(app: App) -> str:
    """A file that nodes can load."""
    if not isinstance(app, Pipeline):
        from holdfast.rundir.application import absolute_app  # noqa: PLC0415 - as above

        return absolute_app(str(app))
    from holdfast.runtime.spark.start.pickled import write_app  # noqa: PLC0415 - as above

    return str(write_app(app, _HOME / "apps" / app.name).resolve())


def _plan_file(plan: ShownPlan | str | Path | None, pipeline: Pipeline) -> Path | None:
    if isinstance(plan, ShownPlan):
        _HOME.mkdir(exist_ok=True)
        return plan.save(_HOME / f"{pipeline.name}.plan.json")
    return None if plan is None else Path(plan)


def _call(command: Any, **options: Any) -> None:
    """A command of the command line; what it would exit with is raised."""
    import typer  # noqa: PLC0415 - as above

    try:
        command(**options)
    except typer.Exit as ended:
        if ended.exit_code:
            raise CheckFailedError(
                f"{command.__name__} ended with exit code {ended.exit_code}"
            ) from None


def _text(duration: str | float) -> str:
    return duration if isinstance(duration, str) else f"{duration}s"


def _parquet_rows(folder: Path, key: tuple[str, ...]) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    files = sorted(folder.glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return list({tuple(row[name] for name in key): row for row in rows}.values()) if key else rows


def _sqlite_rows(path: Path, table: str) -> list[dict[str, Any]]:
    import sqlite3  # noqa: PLC0415 - as above
    from contextlib import closing  # noqa: PLC0415 - as above

    with closing(sqlite3.connect(path)) as base:
        base.row_factory = sqlite3.Row
        return [dict(row) for row in base.execute(f"SELECT * FROM {table}")]  # noqa: S608 - checked
