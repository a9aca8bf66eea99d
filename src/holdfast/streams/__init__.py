"""How a stream changes hands: the decisions of the record protocol's second edition, free of I/O.

A *stream* is an operator's output as its consumers see it; a *log*, written by one *unit*, carries
it for a while and for some key groups. These modules say what carries a stream where, where a unit
begins and ends, and what may be trimmed. Every decision is a generator that yields the operations
it needs on the records (`steps`), so the same code runs over a folder, in a simulator and in a
model that stops it between any two operations (`holdfast.testing.hands`).
"""
