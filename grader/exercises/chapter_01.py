"""Chapter 01: its exercises as data."""

EXERCISES = ()
