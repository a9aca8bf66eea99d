"""Find the pipeline a user means: a `.py` file or `module:attribute`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from holdfast.errors import BadInputError
from holdfast.pipeline.api import Pipeline
from holdfast.pipeline.problems import collecting


def load_pipeline(app: str | Path) -> Pipeline:
    """The pipeline of `path/to/app.py`, `path/to/app.py:name` or `package.module:name`.

    Without a name it is the attribute `pipeline`, or else the only Pipeline in the module.
    """
    target, _, attribute = str(app).partition(":")
    module = _load_file(Path(target)) if _is_file(target) else _load_module(target)
    if attribute:
        return _named(module, attribute, str(app))
    if isinstance(getattr(module, "pipeline", None), Pipeline):
        return _named(module, "pipeline", str(app))
    found = {name: value for name, value in vars(module).items() if isinstance(value, Pipeline)}
    if len({id(value) for value in found.values()}) != 1:
        what = f"has {len(found)} pipelines ({', '.join(found)})" if found else "has no Pipeline"
        raise BadInputError(what, where=str(app), hint=f"name one: {target}:NAME")
    return next(iter(found.values()))


def inspect_pipeline(app: str | Path) -> tuple[Pipeline | None, list[BadInputError]]:
    """The pipeline as far as it can be made, and every mistake in how it is made.

    None if the application could not be run to its end.
    """
    with collecting() as problems:
        try:
            pipeline = load_pipeline(app)
        except BadInputError as problem:
            return None, [*problems, problem]
    return pipeline, problems


def _is_file(target: str) -> bool:
    return target.endswith(".py") or "/" in target or Path(target).is_file()


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise BadInputError("no such file", where=str(path))
    # Named by its path, so that two files of one name are two modules.
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    name = f"holdfast_app_{path.stem.replace('-', '_')}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInputError("is not a Python file", where=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before = set(sys.modules)
    # Files next to the application can be imported by it, as when Python runs it.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BadInputError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failed(error, str(path)) from error
    finally:
        sys.path.remove(str(path.parent))
    _send_by_value([name, *(set(sys.modules) - before)], path.parent)
    return module


def _send_by_value(names: list[str], folder: Path) -> None:
    """Have Spark send the functions of these modules to its workers whole, not by name.

    Workers cannot import a file that is on no path of theirs. Spark's pickler is used only if the
    application has loaded it, so that planning needs no Spark.
    """
    pickler = sys.modules.get("pyspark.cloudpickle")
    for name in names if pickler else ():
        module = sys.modules[name]
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(folder) and "site-packages" not in file:
            pickler.register_pickle_by_value(module)  # type: ignore[union-attr]


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except BadInputError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadInputError(
                "no such module", where=name, hint="give a .py file or module:attribute"
            ) from None
        raise _failed(error, name) from error
    except (Exception, SystemExit) as error:
        raise _failed(error, name) from error


def _failed(error: BaseException, where: str) -> BadInputError:
    """One line for an application that cannot even be imported, with the place in its own file."""
    if isinstance(error, SyntaxError):
        return BadInputError(f"{error.msg}", where=f"{error.filename or where}:{error.lineno}")
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if where in frame.filename
    ]
    place = f"{where}:{frames[-1].lineno}" if frames else where
    hint = ""
    if "SESSION_OR_CONTEXT_NOT_EXISTS" in str(error):
        hint = "no session exists yet: do this inside an operator's function, or name a UDF's type "
        hint += "by its class, e.g. IntegerType()"
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("pyspark"):
        hint = "pip install 'holdfast[spark]'"
    if isinstance(error, SystemExit):
        hint = 'what a script does goes below if __name__ == "__main__"'
    text = (str(error).splitlines() or [""])[0]
    return BadInputError(f"{type(error).__name__}: {text}", where=place, hint=hint)


def _named(module: ModuleType, attribute: str, where: str) -> Pipeline:
    value = getattr(module, attribute, None)
    if not isinstance(value, Pipeline):
        what = "is not a Pipeline" if hasattr(module, attribute) else "does not exist"
        raise BadInputError(f"{attribute!r} {what}", where=where)
    value.validate()
    return value
