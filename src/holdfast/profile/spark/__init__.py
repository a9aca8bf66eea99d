"""The part of a profile that needs a Spark session; `holdfast.profile` is the rest."""
