"""What grades a class: worker processes that run notebooks, and one process that writes the gradebook."""
