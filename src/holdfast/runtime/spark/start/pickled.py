"""A pipeline without a file of its own, from a notebook or a script, as an application for nodes.

Nodes load an application by its file. So the pipeline is pickled, its functions by value, beside a
small file that loads it and finds modules where the notebook found them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from pyspark import cloudpickle

from holdfast.errors import BadInputError
from holdfast.pipeline import Files, Pipeline, StaticTable, Table
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.tables import WithTables

_PROGRAM = '''"""Written by Holdfast: the pipeline {name!r} of a notebook or script."""

import sys
from pathlib import Path

sys.path.extend(path for path in {paths!r} if path not in sys.path)

from pyspark import cloudpickle  # noqa: E402

pipeline = cloudpickle.loads((Path(__file__).parent / "pipeline.pickle").read_bytes())
'''


def write_app(pipeline: Pipeline, folder: Path) -> Path:
    """The file of an application that is this pipeline."""
    folder.mkdir(parents=True, exist_ok=True)
    here = Path.cwd()
    try:
        data = cloudpickle.dumps(  # type: ignore[no-untyped-call]
            pipeline.replaced(lambda one: _absolute(one, here))
        )
    except Exception as error:
        raise BadInputError(
            f"cannot be sent to other processes: {type(error).__name__}: {error}",
            where=pipeline.name,
            hint="put it into a file and give its path",
        ) from error
    paths = [str(Path(path or here).resolve()) for path in sys.path]
    _put(folder / "pipeline.pickle", data)
    program = folder / "app.py"
    _put(program, _PROGRAM.format(name=pipeline.name, paths=paths).encode())
    return program


def _absolute(operator: PipelineOperator, here: Path) -> PipelineOperator:
    """Relative paths begin at an application's file, and this one is not where its author was."""
    if isinstance(operator.source, Files):
        path = str(here / operator.source.path)
        return replace(operator, source=replace(operator.source, path=path))
    if isinstance(operator.function, WithTables):
        tables = tuple(_absolute_table(table, here) for table in operator.function.tables)
        return replace(operator, function=WithTables(operator.function.function, tables))
    return operator


def _absolute_table(table: StaticTable, here: Path) -> StaticTable:
    content = table.table.content
    if not isinstance(content, str) or "://" in content:
        return table
    found: Table = replace(table.table, content=str(here / content))
    return StaticTable(table.name, found)


def _put(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)
