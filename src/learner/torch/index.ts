// Training of a real language model in PyTorch: finds or installs a Python, starts the server of
// `python/trainable_agents/torch_server.py`, and speaks to its learner. Sampling goes through the
// engine for SGLang, whose protocol the server has.

export { type FoundPython, findPython, type PythonOptions } from "./find-python.ts";
export { startTorch, type TorchFacts, type TorchOptions, type TorchProcess } from "./torch-process.ts";
export { createTorchTrainer, type TorchTrainer } from "./torch-trainer.ts";
