"""The calibration studies repeated: tasks and data, a sandbox, scores, tables, figures and a page."""
