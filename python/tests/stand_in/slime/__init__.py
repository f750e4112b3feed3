"""Stand-in for slime if no checkout is available: reimplements the parts that our code uses, with the same behaviour.

SLIME_REPO=<checkout> makes the same tests use slime's own modules instead.
"""
