# Reads a model folder with transformers, on the processor, in 32 bits, and answers the cases of a reference file: logprobs of
# the last tokens given those before them, and greedy continuations. Started by verify.mjs in an environment that it created.

import json
import sys

import torch
import transformers

reference_path, answer_path = sys.argv[1:3]
with open(reference_path, encoding="utf-8") as file:
    reference = json.load(file)

torch.set_num_threads(1)
tokenizer = transformers.AutoTokenizer.from_pretrained(reference["folder"])
model = transformers.AutoModelForCausalLM.from_pretrained(reference["folder"], dtype=torch.float32)
model.eval()

answers = []
for case in reference["cases"]:
    ids = torch.tensor([case["ids"]])
    with torch.no_grad():
        logits = model(ids).logits[0]
        first = case["first"]
        rows = torch.log_softmax(logits[first - 1 : -1], dim=-1)
        logprobs = rows.gather(1, ids[0, first:, None])[:, 0]
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=32)
    encoded = tokenizer(case["text"], add_special_tokens=False)["input_ids"]
    answers.append(
        {
            "logprobs": logprobs.tolist(),
            "greedy": out[0, ids.shape[1] :].tolist(),
            "encodesEqually": encoded == case["ids"],
        }
    )

versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
with open(answer_path, "w", encoding="utf-8") as file:
    json.dump({"peer": versions, "answers": answers}, file)
