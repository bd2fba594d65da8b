"""The instructor's side: release the chapters, take submissions in, grade them, report. Built on nbgrader."""
