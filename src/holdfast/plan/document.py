"""Plan files: read once into the frozen plan of the method, or refused in one clear line.

Every plan file names its format and version. A file without that line was written before there was
one; its fields are those of version 1, and so is how it is read. Every other format, a method that
is not known and a field too many are refused: an unknown field is a decision that would silently
not be carried out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from holdfast.errors import BadInputError
from holdfast.inputs import decode, parse_json, read_input, refusal
from holdfast.plan.base import FORMAT, Plan
from holdfast.plan.fastrecover import FastRecoverPlan
from holdfast.plan.ftc import FtcPlan
from holdfast.plan.joint import JointPlan
from holdfast.plan.ppa import RecoveryPlan, ReplicationPlan

_HINT = "`holdfast plan --out FILE` writes one"
_BY_METHOD: Mapping[str, type[Plan]] = {
    kind.method: kind for kind in (FtcPlan, FastRecoverPlan, JointPlan, ReplicationPlan)
}


def load_plan(path: str | Path) -> Plan:
    """Read a plan file."""
    origin = str(path)
    text = decode(read_input(path), origin)
    return parse_plan(parse_json(text, origin=origin, hint=_HINT), origin=origin)


def parse_plan(data: Any, *, origin: str = "plan") -> Plan:
    """The plan that a plan file's JSON describes; `origin` is what messages call it."""
    if not isinstance(data, Mapping):
        raise BadInputError("is not a plan", where=origin, hint=_HINT)
    own = dict(data)
    _check_format(own.pop("format", FORMAT), origin)
    kind = _kind(own, origin)
    del own["method"]
    try:
        # As JSON, where a list can only be a tuple, types are checked strictly.
        return TypeAdapter(kind).validate_json(json.dumps(own))
    except ValidationError as error:
        raise refusal(error, origin, unknown="remove it, or plan again") from None


def _check_format(found: Any, origin: str) -> None:
    if found == FORMAT:
        return
    name, _, version = str(found).rpartition("-")
    if name == FORMAT.rpartition("-")[0] and version.isdigit():
        what = f"is a plan of format {found}, and this version of Holdfast reads {FORMAT}"
        raise BadInputError(what, where=origin, hint="plan again, or use the version that wrote it")
    raise BadInputError(f"is not a plan: its format is {found!r}", where=origin, hint=_HINT)


def _kind(data: Mapping[str, Any], origin: str) -> type[Plan]:
    method = data.get("method")
    if "points" in data:
        raise BadInputError("is a trade-off curve, not a plan", where=origin, hint=_HINT)
    if not isinstance(method, str) or method not in _BY_METHOD:
        what = "names no method" if method is None else f"the method {method!r} is not known"
        raise BadInputError(what, where=origin, hint=f"one of {', '.join(_BY_METHOD)}")
    # PPA answers two questions; only an order of recovery has one.
    return RecoveryPlan if method == "ppa" and "order" in data else _BY_METHOD[method]
