"""Running code that nobody has read: generated programs and the test suites of projects.

`runner` is the way in. `jail` and `init` run in processes of their own and use the standard library alone.
"""
