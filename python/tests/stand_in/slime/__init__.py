"""Stands in for slime where its checkout is not at hand: what our code touches, behaving as slime's own does, in our words.

SLIME_REPO=<checkout> makes the same tests use slime's own modules instead.
"""
