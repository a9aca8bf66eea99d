"""JSON forms of everything that leaves the coordinator: facts, state, messages.

pydantic reads the frozen dataclasses as they are, so there is no second description of any of them
to fall out of step. Unit ids are written as `count.0#0`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import Field, TypeAdapter

from holdfast.control import events as e
from holdfast.control.commands import NodeCommand
from holdfast.control.facts import Fact
from holdfast.control.state import State
from holdfast.control.state.journaled import JournaledState, journaled, restored


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    term: int
    command: Annotated[NodeCommand, Field(discriminator="kind")]


NodeMessage: TypeAlias = e.NodeHello | e.Heartbeat
"""What a node may say."""

_FACT: TypeAdapter[Fact] = TypeAdapter(Annotated[Fact, Field(discriminator="kind")])
_STATE: TypeAdapter[JournaledState] = TypeAdapter(JournaledState)
_ORDER: TypeAdapter[_Order] = TypeAdapter(_Order)
_MESSAGE: TypeAdapter[NodeMessage] = TypeAdapter(
    Annotated[NodeMessage, Field(discriminator="kind")]
)


def fact_to_json(fact: Fact) -> dict[str, Any]:
    return _as_object(_FACT.dump_python(fact, mode="json"))


def fact_from_json(data: Mapping[str, Any]) -> Fact:
    return _FACT.validate_python(data)


def state_to_line(state: State) -> bytes:
    """One line of JSON, written without a Python object in between."""
    return _STATE.dump_json(journaled(state))


def state_from_json(data: Mapping[str, Any]) -> State:
    return restored(_STATE.validate_python(data))


def order_to_json(term: int, command: NodeCommand) -> dict[str, Any]:
    """A command as a node gets it: with the term of who gives it."""
    return _as_object(_ORDER.dump_python(_Order(term=term, command=command), mode="json"))


def order_from_json(data: Mapping[str, Any]) -> tuple[int, NodeCommand]:
    """Term and command."""
    order = _ORDER.validate_python(data)
    return order.term, order.command


def message_to_json(message: NodeMessage) -> dict[str, Any]:
    return _as_object(_MESSAGE.dump_python(message, mode="json"))


def message_from_json(data: Mapping[str, Any]) -> NodeMessage:
    return _MESSAGE.validate_python(data)


def message_from_line(data: bytes) -> NodeMessage:
    """The same from a line as it came, read without a Python object in between."""
    return _MESSAGE.validate_json(data)


def _as_object(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise TypeError("expected a JSON object")
    return data
