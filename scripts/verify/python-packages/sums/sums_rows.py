"""Questions that both environments ask. The endpoint of the verification answers 5, and refuses the broken question."""

rows = [("What is 2 + 3?", "5"), ("What is 2 + 4?", "6"), ("broken", "1")]
