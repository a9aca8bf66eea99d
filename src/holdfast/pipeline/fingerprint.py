"""A stable hash of what an operator does.

Resuming a run with other code would mix two programs' results, so each operator is hashed: its
options and its function's bytecode, constants, names, defaults, the values it closes over and the
module functions and constants it mentions. Line numbers, comments, docstrings and formatting do not
count. Objects without an inner structure we know (a compiled regular expression, a model) count by
their type and `repr`, with addresses removed; what lies in imported libraries does not count.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from holdfast.pipeline.api import Pipeline
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.tables import WithTables

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Variable arguments, generators and coroutines; the other flags say how a function was compiled.
_FLAGS = 0x2AC
_NAMED = {*dis.hasname, *dis.haslocal, *dis.hasfree, *dis.hascompare}
_DIGITS = 16
_MAX_DEPTH = 40
_LATER_FIELDS = {"max_shards", "shared_state", "hot_paths"}
"""Fields that operators of earlier runs did not have: unset, they count for nothing."""
_NO_CODE = {"priority"}
"""Fields that say nothing of what an operator does."""
_FORMER_NAMES: dict[type, str] = {PipelineOperator: "Operator"}


def fingerprints(pipeline: Pipeline) -> dict[str, str]:
    """Per operator, the hash of its code and options; a source includes the pipeline's clock."""
    return {
        operator.name: fingerprint(operator, context=_context(pipeline, operator))
        for operator in pipeline.operators
    }


def fingerprint(operator: PipelineOperator, *, context: tuple[Any, ...] = ()) -> str:
    """16 hexadecimal digits; equal for equal code and options on one Python version."""
    digest = hashlib.sha256()
    for token in _tokens((operator, context), _Walk()):
        digest.update(token.encode("utf-8", "surrogatepass") + b"\x00")
    return digest.hexdigest()[:_DIGITS]


def _context(pipeline: Pipeline, operator: PipelineOperator) -> tuple[Any, ...]:
    # The clock decides which rows a source makes and which of them are late.
    return (pipeline.epoch_s, pipeline.event_time) if operator.kind == "source" else ()


class _Walk:
    """Objects on the way down, so that a recursive function ends."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.seen_functions: dict[int, int] = {}


def _tokens(value: Any, walk: _Walk) -> Iterator[str]:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield f"{type(value).__name__}:{value!r}"
        return
    if id(value) in walk.path or len(walk.path) > _MAX_DEPTH:
        yield "recursion"
        return
    walk.path.append(id(value))
    yield from _compound(value, walk)
    walk.path.pop()


def _compound(value: Any, walk: _Walk) -> Iterator[str]:
    match value:
        case types.FunctionType():
            yield from _function(value, walk)
        case types.CodeType():
            yield from _code(value, walk)
        case types.MethodType():
            yield "method"
            yield from _tokens(value.__func__, walk)
            yield from _tokens(value.__self__, walk)
        case functools.partial():
            yield "partial"
            yield from _tokens((value.func, value.args, value.keywords), walk)
        case types.ModuleType():
            yield f"module:{value.__name__}"
        case enum.Enum() | PurePath() | re.Pattern():
            yield f"{type(value).__name__}:{value!r}"
        case Pipeline():
            yield "pipeline"
        case WithTables():
            # Where a run keeps the tables says nothing of what the operator does.
            yield "with tables"
            yield from _tokens((value.function, value.tables), walk)
        case type():
            yield from _class(value, walk)
        case Mapping():
            yield "mapping"
            yield from sorted("\x01".join(_tokens(pair, walk)) for pair in value.items())
        case set() | frozenset():
            yield "set"
            yield from sorted("\x01".join(_tokens(item, walk)) for item in value)
        case list() | tuple():
            yield f"{type(value).__name__}:{len(value)}"
            for item in value:
                yield from _tokens(item, walk)
        case _ if dataclasses.is_dataclass(value):
            # Runs are resumed by fingerprint: a renamed class must not look like changed code.
            name = _FORMER_NAMES.get(type(value), type(value).__qualname__)
            yield f"dataclass:{name}"
            for field in dataclasses.fields(value):
                if field.name in _LATER_FIELDS and getattr(value, field.name) == field.default:
                    continue
                if field.name in _NO_CODE and isinstance(value, PipelineOperator):
                    continue
                yield field.name
                yield from _tokens(getattr(value, field.name), walk)
        case _:
            yield from _object(value, walk)


def _function(function: types.FunctionType, walk: _Walk) -> Iterator[str]:
    if not _is_users(function.__module__):
        yield f"library:{function.__module__}.{function.__qualname__}"
        return
    if id(function) in walk.seen_functions:
        yield f"again:{walk.seen_functions[id(function)]}"
        return
    walk.seen_functions[id(function)] = len(walk.seen_functions)
    yield "function"
    yield from _code(function.__code__, walk)
    yield from _tokens((function.__defaults__, function.__kwdefaults__), walk)
    for cell in function.__closure__ or ():
        try:
            yield from _tokens(cell.cell_contents, walk)
        except ValueError:
            yield "empty cell"
    for name in sorted(set(_names(function.__code__))):
        if name in function.__globals__:
            yield f"global:{name}"
            yield from _tokens(function.__globals__[name], walk)


def _names(code: types.CodeType) -> Iterator[str]:
    """Global names a code object and the functions inside it mention."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _code(code: types.CodeType, walk: _Walk) -> Iterator[str]:
    """Instructions with what they refer to, not with its place in a table.

    An unused constant, which is what a docstring is, then leaves no trace.
    """
    yield f"code:{code.co_flags & _FLAGS}:{code.co_exceptiontable.hex()}"
    yield from _tokens((code.co_varnames, code.co_freevars), walk)
    yield from _tokens((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount), walk)
    for instruction in dis.get_instructions(code):
        yield instruction.opname
        if instruction.opcode in dis.hasconst:
            yield from _tokens(instruction.argval, walk)
        elif instruction.opcode in _NAMED:
            yield str(instruction.argval)
        elif instruction.arg is not None and instruction.opcode != dis.EXTENDED_ARG:
            yield str(instruction.arg)


def _class(value: type, walk: _Walk) -> Iterator[str]:
    yield f"class:{value.__qualname__}"
    if not _is_users(value.__module__):
        yield value.__module__
        return
    for base in value.__bases__:
        yield from _tokens(base, walk)
    for name, member in sorted(vars(value).items()):
        if isinstance(member, types.FunctionType | property | staticmethod | classmethod):
            yield name
            yield from _tokens(getattr(member, "fget", getattr(member, "__func__", member)), walk)
        elif not name.startswith("__"):
            yield name
            yield from _tokens(member, walk)


def _object(value: Any, walk: _Walk) -> Iterator[str]:
    kind = type(value)
    yield f"object:{kind.__module__}.{kind.__qualname__}"
    if _is_users(kind.__module__) and hasattr(value, "__dict__"):
        yield from _class(kind, walk)
        yield from _tokens(vars(value), walk)
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield from _tokens(value.__wrapped__, walk)
    elif callable(value) and hasattr(value, "func"):
        # A Spark UDF keeps the Python function it wraps there.
        yield from _tokens(value.func, walk)
        yield _ADDRESS.sub("", str(getattr(value, "returnType", "")))
    else:
        yield _ADDRESS.sub("", repr(value))


def _is_users(module: str | None) -> bool:
    """Whether a module is the user's own: neither standard library nor an installed package."""
    if module is None or module == "__main__":
        return True
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names or root == "holdfast":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not {"site-packages", "dist-packages"} & set(PurePath(file).parts)
