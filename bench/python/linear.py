"""One JSON line per shape of a layer and number of rows: seconds of `torch.nn.functional.linear` and of the trained model's layer
for the same input, interleaved, the median of the rounds. The weights of 24 layers take turns, so that no cache keeps them."""

import json
import statistics
import sys
import time

import torch

from trainable_agents.torch_learner import FewRowsLinear

LAYERS = 24
SHAPES = [(896, 4864), (4864, 896), (896, 896)]
"""Inputs and outputs of layers of Qwen2.5-0.5B."""


def seconds(layers: list[torch.nn.Linear], rows: torch.Tensor, way: type[torch.nn.Linear]) -> float:
    begin = time.perf_counter()
    for layer in layers:
        way.forward(layer, rows)
    return time.perf_counter() - begin


def main(rounds: int) -> None:
    with torch.inference_mode():
        for inputs, outputs in SHAPES:
            layers = [FewRowsLinear(inputs, outputs, bias=False) for _ in range(LAYERS)]
            for count in (1, 8, 32, 64, 128, 512):
                rows = torch.randn(count, inputs)
                taken = [(seconds(layers, rows, torch.nn.Linear), seconds(layers, rows, FewRowsLinear)) for _ in range(rounds + 1)]
                theirs, ours = (statistics.median(one[way] for one in taken[1:]) for way in (0, 1))
                facts = {"inputs": inputs, "outputs": outputs, "rows": count, "torch": theirs / LAYERS, "ours": ours / LAYERS}
                print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
