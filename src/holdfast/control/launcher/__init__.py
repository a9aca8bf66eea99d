"""The launcher's decisions: which processes of a run to start, to replace, to kill, to give up."""
