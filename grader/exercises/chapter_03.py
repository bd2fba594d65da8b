"""Chapter 03: its exercises as data."""

EXERCISES = ()
