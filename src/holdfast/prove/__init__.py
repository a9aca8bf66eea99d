"""What proves: a plan's promises against recoveries measured on a real run."""
