"""The run directory: everything in it is named here, and nowhere else.

`contents` names what belongs to a run and its processes, `layout` what belongs to units and the
slice log; `spec` and `endpoint` read and write the two files that processes find each other by. The
reference is docs/reference/slice-log.md.
"""
