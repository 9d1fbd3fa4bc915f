"""Runs unread code: generated programs and the test suites of projects.

`bwrap` is the entry point. `harness` and `suite` are the programs that run inside, by the standard library.
"""
