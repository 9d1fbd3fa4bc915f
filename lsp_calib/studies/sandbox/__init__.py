"""Runs unreviewed code: generated programs and the test suites of projects.

`runner` is the entry point. `jail` and `init` run in separate processes and use only the standard library.
"""
