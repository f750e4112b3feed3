# Records Cohen's kappa of made-up ratings as scikit-learn computes it, every task weighing the same:
# python scripts/verify/record-kappa.py tests/goldens/statistics/kappa.jsonl
import json
import math
import random
import sys
import warnings

import sklearn
from sklearn.metrics import cohen_kappa_score

warnings.simplefilter("ignore")
draw = random.Random(7)
cases = []
for number in range(40):
    labels = ["right", "wrong"] if number % 2 == 0 else ["agent", "user", "environment", "infrastructure"]
    count = draw.choice([2, 3, 5, 12, 40])
    spread = draw.choice([1, 2, count])
    tasks = [f"t{draw.randrange(math.ceil(count / spread))}" for _ in range(count)]
    first = [draw.choice(labels) for _ in range(count)]
    agreement = draw.random()
    second = [one if draw.random() < agreement else draw.choice(labels) for one in first]
    if number % 10 == 9:
        first = second = [labels[0]] * count
    weights = [1 / tasks.count(task) for task in tasks]
    kappa = cohen_kappa_score(first, second, sample_weight=weights)
    cases.append({"tasks": tasks, "first": first, "second": second, "kappa": None if math.isnan(kappa) else kappa})
with open(sys.argv[1], "w") as file:
    file.writelines(json.dumps(case) + "\n" for case in cases)
print(f"{len(cases)} cases by scikit-learn {sklearn.__version__}")
