"""When an operator gets more shards or fewer, and which: pure policies over load reports."""
