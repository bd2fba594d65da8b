"""The judge: a student's functions run in a sandboxed kernel, and only plain data comes back to be compared."""
