"""Python side of trainable-agents. Nothing is imported here; each module imports what it needs."""
