"""The part of a profile that needs Spark; `holdfast.runtime.profile` is the rest."""
