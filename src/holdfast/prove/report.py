"""The report of a proof as one HTML page that needs nothing else: no network, no scripts.

Light, for screens of any width and for paper. All drawings are inline SVG.
"""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Sequence
from html import escape

from holdfast import __version__
from holdfast.draw import draw_svg
from holdfast.plan import JointPlan
from holdfast.prove.judge import PHASES, Comparison, as_planned, most_broken
from holdfast.prove.plots import phases_plot, recovery_plot, timeline_plot
from holdfast.prove.result import Proof
from holdfast.topology.graph import Topology

_STYLE = """
:root{color-scheme:light;--ink:#1c2733;--muted:#5b6b7b;--line:#dde3e9;--good:#1b7f4d;--bad:#b3261e;
--soft:#f5f7f9}
*{box-sizing:border-box}
body{margin:0 auto;max-width:56rem;padding:2.2rem 1.2rem 4rem;color:var(--ink);background:#fff;
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
h1{font-size:1.65rem;line-height:1.25;margin:0 0 .3rem;letter-spacing:-.01em}
h2{font-size:1.12rem;margin:2.6rem 0 .7rem;padding-top:1.1rem;border-top:1px solid var(--line)}
p{margin:.5rem 0;max-width:42rem}.muted,figcaption{color:var(--muted);font-size:.9rem}
.verdict{font-weight:650}.good{color:var(--good)}.bad{color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.8rem;
margin:1.5rem 0 0}
.tile{background:var(--soft);border-radius:.6rem;padding:.8rem 1rem}
.tile b{display:block;font-size:1.45rem;line-height:1.3;font-weight:650;
font-variant-numeric:tabular-nums}
.tile span{color:var(--muted);font-size:.88rem}
.wide{overflow-x:auto}figure{margin:1rem 0}svg{max-width:100%;height:auto}
.drawing{text-align:center}.plot{overflow-x:auto}.plot svg{width:100%;min-width:36rem}
table{border-collapse:collapse;width:100%;font-size:.93rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.38rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:550;color:var(--muted);font-size:.85rem;vertical-align:bottom}
th:first-child,td:first-child,.left{text-align:left!important}
td:first-child{white-space:normal}
tr.group th{border-bottom:0;padding-bottom:0;text-align:center;color:var(--ink)}
code,pre{font:.86rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{background:var(--soft);border-radius:.6rem;padding:.8rem 1rem;overflow-x:auto;
white-space:pre-wrap}
@media print{body{max-width:none;padding:0;font-size:11pt}h2{break-after:avoid}
figure,table,.tiles{break-inside:avoid}.tile,pre{border:1px solid var(--line)}}
"""


def report_html(proof: Proof, topology: Topology, *, command: Sequence[str] = ()) -> str:
    """The page; `command` reproduces it."""
    title = f"{topology.name}: {_verdict(proof)}"
    parts = [
        _head(proof, topology),
        _section("The plan", _plan(proof, topology)),
        _section("Predicted and measured", _compared(proof)),
        _section("What recovery is spent on", _phases(proof)),
        _section("Faults", _timeline(proof)),
        _section("Results", _results(proof)),
        _section("Do it again", _again(proof, command)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def bound_rule(comparisons: Sequence[Comparison]) -> str:
    """How many broken bounds are too many, in words."""
    judged = [item for item in comparisons if item.recoveries]
    if not judged:
        return "Nothing was measured."
    share = "The plan bounds the 95th percentile, so one recovery in twenty may take longer"
    sizes = sorted({len(item.recoveries) for item in judged})
    allowed = {n: most_broken(n, len(judged)) for n in sizes}
    if all(n <= allowed[n] for n in sizes):
        return f"{share}; so few recoveries cannot refute it."
    said = ", ".join(f"{allowed[n]} of {n}" for n in sizes)
    return (
        f"{share}. A segment refutes it with more than {said} beyond the bound: so many by bad "
        "luck have a chance of 5% or less"
        f"{' over all segments together' if len(judged) > 1 else ''}."
    )


def _verdict(proof: Proof) -> str:
    if proof.ok:
        kept = as_planned(proof.comparisons)
        return "the plan keeps its promise" if kept else "the plan's promise is not refuted"
    if not proof.recoveries:
        return "nothing was measured"
    if proof.verdict is not None and not proof.verdict.ok:
        return "results are wrong"
    if proof.gave_way:
        return "the run did not recover"
    return "not proved" if proof.kept else "the plan breaks its bound"


def _head(proof: Proof, topology: Topology) -> str:
    measured = len(proof.recoveries)
    within = measured - proof.broken
    when = dt.datetime.fromtimestamp(proof.started_at, dt.UTC).strftime("%d %B %Y, %H:%M UTC")
    mood = "good" if proof.ok else "bad"
    exact = _exact_words(proof)
    tiles = [
        (f"{len(proof.struck)} of {proof.asked}", "faults injected (kill -9 of a node)"),
        (f"{within} of {measured}", f"recoveries within {_bounds(proof)}"),
        exact,
        (f"{proof.nodes} + {proof.spares}", "nodes and warm spares"),
    ]
    note = f'<p class="bad">{escape(proof.note)}</p>' if proof.note else ""
    return (
        f'<h1>{escape(topology.name)}: <span class="{mood}">{escape(_verdict(proof))}</span></h1>'
        f'<p class="muted">Holdfast {__version__}, {when}</p>{note}<div class="tiles">'
        + "".join(
            f'<div class="tile"><b>{escape(big)}</b><span>{escape(small)}</span></div>'
            for big, small in tiles
        )
        + "</div>"
    )


def _bounds(proof: Proof) -> str:
    bounds = sorted({item.promise.bound for item in proof.comparisons})
    if len(bounds) == 1:
        return f"the bound of {bounds[0]:.3g} s"
    return "the predicted 95th percentile"


def _exact_words(proof: Proof) -> tuple[str, str]:
    if proof.verdict is None:
        return "not checked", "results: the pipeline has no expected computation"
    if proof.verdict.ok:
        return "exact", f"{proof.verdict.compared:,} result rows, each exactly once"
    return "wrong", "rows are missing, doubled or altered"


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _plan(proof: Proof, topology: Topology) -> str:
    plan = proof.plan
    # The page is light whatever its surroundings, and so must the drawing be.
    drawing = draw_svg(topology, plan).replace("(prefers-color-scheme:dark)", "not all")
    figure = f'<figure class="drawing wide">{drawing}</figure>'
    return figure + (_promised(plan) if isinstance(plan, JointPlan) else "")


def _promised(plan: JointPlan) -> str:
    said = [
        f"{name} ≤ {format(value, form)}{unit}"
        for name, value, form, unit in (
            ("recovery", plan.max_recovery, "g", " s"),
            ("overhead", plan.max_overhead, ".0%", ""),
            ("latency", plan.max_latency, "g", " s"),
        )
        if value is not None
    ]
    asked = f"Planned for {', '.join(said)}. " if said else ""
    facts = []
    if plan.end_to_end_latency is not None:
        facts.append(f"results {plan.end_to_end_latency:.2g} s after their input")
    if plan.cpu is not None:
        facts.append(f"{plan.cpu:.2g} cores in use")
    if plan.overhead is not None:
        facts.append(f"{plan.overhead:.0%} more than uncut")
    promised = f"Predicted: {', '.join(facts)}." if facts else ""
    rows = [
        [
            escape(", ".join(segment.operators)),
            f"{segment.batch_interval:g} s",
            "–" if segment.snapshot_interval is None else f"{segment.snapshot_interval:g} s",
        ]
        for segment in plan.segments
    ]
    return f"<p>{escape(asked + promised)}</p>" + _table(
        ["segment", "batch every", "snapshot every"], rows
    )


def _compared(proof: Proof) -> str:
    if not proof.recoveries:
        return "<p>Nothing was measured.</p>"
    head = (
        '<tr class="group"><th></th><th colspan="2">predicted</th><th colspan="3">measured</th>'
        "<th></th><th></th></tr>"
    )
    rows = []
    for item in (*proof.comparisons, proof.results):
        n = len(item.recoveries)
        error = "–" if item.error is None else f"{item.error:+.0%}"
        rows += [
            [
                escape(operator),
                _seconds(item.promise.median),
                _seconds(item.promise.p95),
                _seconds(item.median),
                _seconds(item.p95),
                str(n),
                error,
                f"{n - item.broken} of {n} in {item.promise.bound:.3g} s",
            ]
            for operator in item.promise.operators
        ]
    columns = ["operator", "median", "p95", "median", "p95", "n", "error", "kept"]
    return (
        f"{_table(columns, rows, head=head)}"
        '<p class="muted">A recovery ends when nothing is missing any more that would be there '
        "without the fault, by the put times of the slices alone. Operators of one segment share "
        "one recovery. All results: until none is missing, with the waiting for operators that "
        f"were lost too. {escape(bound_rule(proof.comparisons))}{_failovers(proof)}</p>"
        f'<figure class="plot">{recovery_plot(proof)}</figure>'
    )


def _failovers(proof: Proof) -> str:
    if proof.failovers is None:
        return ""
    return (
        " Operators with a hot follower are not recovered: their time is by how much a slice was "
        f"later than usual. {escape(proof.failovers.words()).capitalize()}."
    )


def _phases(proof: Proof) -> str:
    if not any(item.phases for item in proof.comparisons):
        return "<p>Nothing was measured.</p>"
    rows = []
    for item in proof.comparisons:
        if item.phases is None:
            continue
        promised = item.promise.phases
        rows.append(
            [
                escape(", ".join(item.promise.operators)),
                *(
                    f"{'–' if promised is None else f'{promised[name]:.2f}'} / "
                    f"{item.phases[name]:.2f}"
                    for name in PHASES
                ),
            ]
        )
    columns = ["predicted / measured, s", "detection", "restore", "load and replay", "catch-up"]
    return f'<figure class="plot">{phases_plot(proof)}</figure>{_table(columns, rows)}'


def _timeline(proof: Proof) -> str:
    if not proof.struck:
        return "<p>No fault was injected.</p>"
    times = {
        fault.number: [item for item in proof.recoveries if item.fault == fault.number]
        for fault in proof.struck
    }
    rows = [
        [
            f"{fault.number + 1}",
            f"{fault.killed_at - proof.started_at:.0f} s",
            escape(fault.node),
            f"{escape(fault.aim.unit)} at {fault.phase:.0%}",
            escape(
                ", ".join(f"{item.unit} {_seconds(item.seconds)}" for item in times[fault.number])
            ),
        ]
        for fault in proof.struck
    ]
    columns = ["fault", "at", "node", "aimed at (share of a batch)", "recovered"]
    table = _table(columns, rows)
    if len(rows) > 12:
        table = f"<details><summary>All {len(rows)} faults</summary>{table}</details>"
    return f'<figure class="plot">{timeline_plot(proof)}</figure>{table}'


def _results(proof: Proof) -> str:
    verdict = proof.verdict
    if verdict is None:
        return "<p>Not checked: the pipeline has no expected computation.</p>"
    rows = [
        [
            f"{finding.kind} {escape(finding.name)}",
            "right" if finding.ok else "WRONG",
            escape(str(finding.difference)),
        ]
        for finding in verdict.findings
    ]
    mood = "good" if verdict.ok else "bad"
    said = (
        "Every row exactly once, and every value right."
        if verdict.ok
        else "The results are not proved right."
    )
    examples = [line for finding in verdict.findings for line in finding.difference.examples]
    shown = f"<pre>{escape(chr(10).join(examples))}</pre>" if examples else ""
    return (
        f'<p class="verdict {mood}">{said}</p><p class="muted">What was delivered, against an '
        "independent computation in plain Python over the kept input.</p>"
        f"{_table(['what', 'verdict', ''], rows)}{shown}"
    )


def _again(proof: Proof, command: Sequence[str]) -> str:
    line = f"<pre>{escape(shlex.join(command))}</pre>" if command else ""
    return (
        f"{line}<p>Run directory: <code>{escape(str(proof.run_dir))}</code>; its results can be "
        f"checked again with</p><pre>holdfast verify {escape(shlex.quote(str(proof.run_dir)))}"
        "</pre>"
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, head: str = "") -> str:
    """Cells are HTML already."""
    names = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead>{head}<tr>{names}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"
