"""Python side of trainable-agents. This file imports nothing; each module imports its own dependencies."""
