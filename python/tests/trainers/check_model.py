"""The server and the learner of real models, with a random Qwen2 of two layers: the learner trains on exactly the sampled
tokens, adapters and GGUF files can be written and read, and invalid requests are refused. Requires torch, transformers, peft
and gguf; takes seconds.
"""

from __future__ import annotations

import json
import platform
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import gguf
import numpy
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from trainable_agents.errors import ConfigurationError
from trainable_agents.gguf_model import GgufModel, load_weights, write_adapter, write_tokenizer
from trainable_agents.torch_learner import CORRECTED_FROM, FewRowsLinear, Learner, LossOptions, LossSequence, trees
from trainable_agents.torch_protocol import TorchServer
from trainable_agents.torch_sampler import Call, Sampling, draw

torch.set_num_threads(1)
VOCABULARY = 100


def tiny(**settings: Any) -> Any:
    torch.manual_seed(0)
    shape = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    config = Qwen2Config(
        **shape, vocab_size=VOCABULARY, initializer_range=0.3, eos_token_id=None, bos_token_id=None, **settings
    )
    return Qwen2ForCausalLM(config).eval()


def stirred(learner: Learner) -> Learner:
    """An adapter with nonzero values; initially they are zero."""
    for name, parameter in learner.wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    return learner


def logprobs_of(model: Any, tokens: list[int]) -> torch.Tensor:
    """[tokens - 1, vocabulary]: logprobs of the next token after each token but the last, for one sequence without a cache."""
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor([tokens])).logits[0, :-1].float(), -1)


class Served(unittest.TestCase):
    def setUp(self) -> None:
        self.model = tiny()
        self.learner = stirred(Learner(self.model, rank=4, most_tokens=200))
        # There are fewer rows than calls, and the cache cannot hold everything.
        self.server = TorchServer(self.learner, path="tiny", context=128, rows=5, cache_bytes=60_000, version="v0")
        self.addCleanup(self.server.close)
        self.port = self.server.listen()
        self.random = random.Random(1)

    def post(self, path: str, body: Any) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)) as answer:
            return json.loads(answer.read() or b"null")

    def refusal(self, path: str, body: Any) -> tuple[int, str]:
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.post(path, body)
        with caught.exception as error:
            return error.code, json.loads(error.read())["error"]["message"]

    def sample(self, count: int) -> list[tuple[list[int], Any]]:
        """Concurrent calls with common prefixes."""
        common = [self.random.randrange(VOCABULARY) for _ in range(30)]
        prompts = [
            common[: self.random.randrange(1, 30)]
            + [self.random.randrange(VOCABULARY) for _ in range(self.random.randrange(9))]
            for _ in range(count)
        ]
        lengths = [self.random.randrange(1, 30) for _ in prompts]
        replies: dict[int, Any] = {}

        def call(place: int) -> None:
            sampling = {"max_new_tokens": lengths[place], "stop_token_ids": [7], "sampling_seed": place}
            replies[place] = self.post(
                "/generate", {"input_ids": prompts[place], "sampling_params": sampling, "return_logprob": True}
            )

        threads = [threading.Thread(target=call, args=(place,)) for place in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [(prompts[place], replies[place]) for place in range(count)]

    def sequences(self, sampled: list[tuple[list[int], Any]]) -> list[dict[str, Any]]:
        return [
            {
                "tokens": prompt + reply["output_ids"],
                "targets": list(range(len(prompt), len(prompt) + len(reply["output_ids"]))),
                "weights": [0.01] * len(reply["output_ids"]),
                "advantages": [self.random.uniform(-1, 1)] * len(reply["output_ids"]),
                "sampled_logprobs": [entry[0] for entry in reply["meta_info"]["output_token_logprobs"]],
            }
            for prompt, reply in sampled
        ]

    def test_sampled_logprobs_are_those_of_the_model(self) -> None:
        sampled = self.sample(40)
        for prompt, reply in sampled:
            meta, output = reply["meta_info"], reply["output_ids"]
            rows = logprobs_of(self.model, prompt + output)
            for place, (logprob, token, _) in enumerate(meta["output_token_logprobs"]):
                self.assertEqual(token, output[place])
                self.assertAlmostEqual(logprob, float(rows[len(prompt) + place - 1, token]), places=4)
            self.assertEqual(
                (meta["prompt_tokens"], meta["completion_tokens"], meta["weight_version"]), (len(prompt), len(output), "v0")
            )
            self.assertNotIn(7, output[:-1])
            self.assertEqual(
                meta["finish_reason"]["type"],
                "stop" if output[-1] == 7 and meta["finish_reason"]["type"] == "stop" else "length",
            )
        self.assertGreater(sum(reply["meta_info"]["cached_tokens"] for _, reply in sampled), 100)

    def test_a_prompt_that_was_computed_is_not_computed_again(self) -> None:
        prompt = list(range(40))
        for expected in (0, 39):
            reply = self.post("/generate", {"input_ids": prompt, "sampling_params": {"max_new_tokens": 1, "temperature": 0}})
            self.assertEqual(reply["meta_info"]["cached_tokens"], expected)
        self.post("/update_weight_version", {"new_version": "v1"})
        meta = self.post("/generate", {"input_ids": prompt, "sampling_params": {"max_new_tokens": 1}})["meta_info"]
        self.assertEqual((meta["cached_tokens"], meta["weight_version"]), (0, "v1"))

    def test_a_call_is_aborted_while_it_waits_and_while_it_runs(self) -> None:
        self.post("/pause_generation", {})
        replies: list[Any] = []
        body = {"rid": "one", "input_ids": [1, 2], "sampling_params": {"max_new_tokens": 5}}
        thread = threading.Thread(target=lambda: replies.append(self.post("/generate", body)))
        thread.start()
        while self.server.sampler.load != (0, 1):
            pass
        self.assertEqual(self.refusal("/generate", body), (400, "Duplicate request ID detected: one"))
        self.post("/abort_request", {"rid": "one"})
        thread.join()
        self.assertEqual((replies[0]["meta_info"]["finish_reason"]["type"], replies[0]["output_ids"]), ("abort", []))
        self.post("/continue_generation", {})
        self.assertEqual(self.post("/generate", {**body, "rid": "one"})["meta_info"]["completion_tokens"], 5)

    def test_gradients_are_those_of_each_sequence_alone(self) -> None:
        sequences = self.sequences(self.sample(30))
        reply = self.post("/learner/accumulate", {"sequences": sequences, "loss": {}})
        self.assertLess(reply["mismatch_kl"], 1e-8)
        self.assertEqual(reply["corrected"], 0)
        parameters = [one for one in self.learner.wrapped.parameters() if one.requires_grad]
        found = [one.grad.clone() for one in parameters]
        self.learner.wrapped.zero_grad()
        loss = torch.zeros(())
        for one, outcome in zip(sequences, reply["sequences"], strict=True):
            rows = torch.log_softmax(self.model(torch.tensor([one["tokens"]])).logits[0], -1)
            for place, target in enumerate(one["targets"]):
                logprob = rows[target - 1, one["tokens"][target]]
                self.assertAlmostEqual(outcome["logprobs"][place], float(logprob.detach()), places=4)
                loss = loss - one["weights"][place] * one["advantages"][place] * logprob
        loss.backward()
        self.assertAlmostEqual(reply["loss"], float(loss.detach()), places=4)
        for mine, parameter in zip(found, parameters, strict=True):
            torch.testing.assert_close(mine, parameter.grad, atol=1e-5, rtol=1e-3)

    def test_tokens_whose_logprobs_differ_are_weighed_by_the_truncated_ratio(self) -> None:
        [one] = self.sequences(self.sample(1))
        true = one["sampled_logprobs"]
        base = {"clip_low": None, "clip_high": None}
        for shift, weight in ((CORRECTED_FROM / 2, 1.0), (-0.1, 0.9048), (3.0, 2.0)):
            wrong = LossSequence(
                one["tokens"], one["targets"], one["weights"], [1.0] * len(true), [value - shift for value in true]
            )
            right = LossSequence(one["tokens"], one["targets"], one["weights"], [1.0] * len(true), true)
            shifted, exact = (self.learner.accumulate([given], LossOptions(**base)) for given in (wrong, right))
            self.assertAlmostEqual(shifted["loss"] / exact["loss"], weight, places=3)
            self.assertEqual(shifted["corrected"], 0 if weight == 1 else len(true))

    def test_an_update_makes_good_tokens_likelier_and_a_checkpoint_brings_it_back(self) -> None:
        sequences = [{**one, "advantages": [1.0] * len(one["targets"])} for one in self.sequences(self.sample(4))]
        before = self.post("/learner/evaluate", {"sequences": sequences})
        base = self.post("/learner/evaluate", {"sequences": sequences, "base": True})
        self.post("/learner/accumulate", {"sequences": sequences, "loss": {}})
        self.assertGreater(self.post("/learner/update", {"learning_rate": 1e-2, "max_gradient_norm": 1})["gradient_norm"], 0)
        after = self.post("/learner/evaluate", {"sequences": sequences})
        total = {
            name: sum(sum(one["logprobs"]) for one in reply["sequences"])
            for name, reply in (("before", before), ("after", after))
        }
        self.assertGreater(total["after"], total["before"])
        self.assertEqual(self.post("/learner/evaluate", {"sequences": sequences, "base": True}), base)
        with tempfile.TemporaryDirectory() as folder:
            self.post("/learner/save", {"folder": folder})
            self.post("/learner/accumulate", {"sequences": sequences, "loss": {}})
            self.post("/learner/update", {"learning_rate": 1e-1})
            self.post("/learner/load", {"folder": folder})
            self.assertEqual(self.post("/learner/evaluate", {"sequences": sequences}), after)
            # Samples with the same adapter by name, while a different one is trained.
            self.post("/load_lora_adapter", {"lora_name": "kept", "lora_path": folder})
            self.post("/learner/accumulate", {"sequences": sequences, "loss": {}})
            self.post("/learner/update", {"learning_rate": 1e-1})
            call = {
                "input_ids": sequences[0]["tokens"][:5],
                "sampling_params": {"max_new_tokens": 3, "temperature": 0},
                "return_logprob": True,
            }
            kept = self.post("/generate", {**call, "lora_path": "kept"})
            self.assertNotEqual(
                kept["meta_info"]["output_token_logprobs"], self.post("/generate", call)["meta_info"]["output_token_logprobs"]
            )
            self.post("/learner/load", {"folder": folder})
            self.assertEqual(kept["output_ids"], self.post("/generate", call)["output_ids"])

    def test_wrong_requests_are_refused_with_their_reason(self) -> None:
        for path, body, status, reason in (
            ("/generate", {"input_ids": []}, 400, "cannot be empty"),
            ("/generate", {"input_ids": [VOCABULARY]}, 400, "integers from 0 to 99"),
            ("/generate", {"input_ids": [True]}, 400, "integers from 0 to 99"),
            ("/generate", {"input_ids": list(range(64)) * 2}, 400, "context length"),
            ("/generate", {"input_ids": [1], "sampling_params": {"temperature": -1}}, 400, "temperature"),
            ("/generate", {"input_ids": [1], "sampling_params": {"stop": "x"}}, 400, "stop is not supported"),
            ("/generate", {"input_ids": [1], "lora_path": "none"}, 400, "not loaded"),
            ("/generate", b"[1]", 400, "must be an object"),
            ("/generate", b"{", 400, "not JSON"),
            ("/learner/accumulate", {"sequences": [{"tokens": [1, 2], "targets": [0]}]}, 400, "ascending"),
            ("/learner/accumulate", {"sequences": [{"tokens": [1, 2], "targets": [1], "weights": []}]}, 400, "one number"),
            ("/learner/update", {"learning_rate": 1}, 400, "no gradients"),
            ("/learner/load", {"folder": "/nowhere"}, 400, "Cannot load the adapter"),
            ("/nowhere", {}, 404, "Not Found"),
        ):
            with self.subTest(path=path, body=body):
                code, message = self.refusal(path, body)
                self.assertEqual(code, status)
                self.assertIn(reason, message)

    def test_a_page_in_a_browser_is_refused_before_anything_is_done(self) -> None:
        for headers in ({"Origin": "https://example.com"}, {"Origin": "null"}, {"Host": "example.com"}):
            for path, data in (("/learner/save", b"{}"), ("/pause_generation", b"{}"), ("/model_info", None)):
                with self.subTest(headers=headers, path=path):
                    request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
                    with self.assertRaises(urllib.error.HTTPError) as caught:
                        urllib.request.urlopen(request)
                    self.assertEqual(caught.exception.code, 403)
                    caught.exception.close()
        self.assertFalse(self.server.sampler.is_paused)


class Draws(unittest.TestCase):
    def test_tokens_are_drawn_as_often_as_their_chances_say(self) -> None:
        chances = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05])
        for sampling, expected in (
            (Sampling(), chances),
            (Sampling(top_k=2), torch.tensor([0.625, 0.0, 0.375, 0.0, 0.0])),
            (Sampling(temperature=0.0), torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])),
        ):
            call = Call("one", [0], sampling, generator=torch.Generator().manual_seed(0))
            counts = torch.zeros(5)
            for _ in range(4000):
                token, logprob = draw(chances.log(), call)
                counts[token] += 1
                self.assertAlmostEqual(logprob, float(chances[token].log()), places=5)
            # Four standard deviations of a share.
            bounds = 4 * (expected * (1 - expected) / 4000).sqrt() + 1e-9
            self.assertTrue(bool(((counts / 4000 - expected).abs() <= bounds).all()), f"{counts / 4000} of {expected}")


class FewRows(unittest.TestCase):
    def test_the_layer_of_decoding_computes_what_torch_computes(self) -> None:
        for bias in (True, False):
            layer = torch.nn.Linear(48, 80, bias=bias)
            expected = {shape: layer(torch.ones(shape)).detach() for shape in ((1, 48), (32, 1, 48), (2, 90, 48), (0, 48))}
            layer.__class__ = FewRowsLinear
            for shape, wanted in expected.items():
                with torch.inference_mode():
                    found = layer(torch.ones(shape))
                torch.testing.assert_close(found.clone(), wanted)
                self.assertTrue(found.is_contiguous())


class Trees(unittest.TestCase):
    def test_what_sequences_begin_with_is_in_a_tree_once(self) -> None:
        sequences = [
            LossSequence(tokens, [len(tokens) - 1], [1.0], [1.0])
            for tokens in ([1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 3, 5, 7], [9, 9])
        ]
        [tree] = trees(sequences, 100)
        self.assertEqual(tree.tokens.tolist(), [1, 2, 3, 5, 9])
        self.assertEqual(tree.positions.tolist(), [0, 1, 2, 3, 0])
        self.assertEqual(tree.sees[3].tolist(), [True, True, True, True, False])
        self.assertEqual(tree.sees[4].tolist(), [False, False, False, False, True])
        self.assertEqual(len(list(trees(sequences, 4))), 2)


class Gguf(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, model: Any, architecture: str = "qwen2") -> Path:
        """Writes the model in the form that llama.cpp stores: matrices in Q8_0, and one in F16."""
        path = self.folder / f"{architecture}.gguf"
        writer, config = gguf.GGUFWriter(path, architecture), model.config
        writer.add_embedding_length(config.hidden_size)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_context_length(512)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list([chr(33 + place) for place in range(VOCABULARY - 1)] + ["<end>"])
        writer.add_token_types([1] * (VOCABULARY - 1) + [3])
        writer.add_token_merges(["a b"])
        writer.add_eos_token_id(VOCABULARY - 1)
        writer.add_chat_template("{{ messages }}")
        back = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
        parts = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
        parts |= {f"self_attn.{one}_proj": f"attn_{'output' if one == 'o' else one}" for one in "qkvo"}
        parts |= {f"mlp.{one}_proj": f"ffn_{one}" for one in ("gate", "up", "down")}
        for name, value in model.state_dict().items():
            stem, kind = name.rsplit(".", 1)
            layer = stem.split(".")[2] if stem.startswith("model.layers.") else None
            wanted = back[stem] if layer is None else f"blk.{layer}.{parts[stem.split('.', 3)[3]]}"
            values = value.numpy()
            quantized = (
                None
                if values.ndim == 1
                else gguf.GGMLQuantizationType.F16
                if stem == "lm_head"
                else gguf.GGMLQuantizationType.Q8_0
            )
            data = values if quantized is None else gguf.quants.quantize(values, quantized)
            writer.add_tensor(f"{wanted}.{kind}", data, raw_dtype=quantized)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def test_the_weights_of_a_file_are_the_models(self) -> None:
        model = tiny()
        found = load_weights(GgufModel(self.write(model)))
        tokens = [3, 1, 4, 1, 5, 9, 2, 6]
        # Q8_0 rounds to 1/127 of the largest of 32 values.
        difference = (logprobs_of(model, tokens) - logprobs_of(found, tokens)).abs().max()
        self.assertLess(float(difference), 0.2)
        self.assertGreater(float(difference), 0)
        for name, value in model.state_dict().items():
            torch.testing.assert_close(found.state_dict()[name], value, atol=float(value.abs().max()) / 100, rtol=0)

    def test_the_tokenizer_of_a_file_has_its_tokens(self) -> None:
        write_tokenizer(GgufModel(self.write(tiny())), self.folder / "tokenizer")
        files = {path.name: json.loads(path.read_text()) for path in (self.folder / "tokenizer").iterdir()}
        self.assertEqual(len(files["tokenizer.json"]["model"]["vocab"]), VOCABULARY - 1)
        self.assertEqual([one["content"] for one in files["tokenizer.json"]["added_tokens"]], ["<end>"])
        self.assertEqual(files["tokenizer_config.json"]["chat_template"], "{{ messages }}")
        self.assertEqual(files["generation_config.json"], {"eos_token_id": [VOCABULARY - 1]})

    def test_an_adapter_is_written_for_llama_cpp(self) -> None:
        learner = stirred(Learner(tiny(), rank=4))
        learner.save(self.folder / "adapter")
        write_adapter(self.folder / "adapter", self.folder / "adapter.gguf", architecture="qwen2")
        reader = gguf.GGUFReader(self.folder / "adapter.gguf")
        facts = {name: reader.fields[name].contents() for name in ("general.type", "adapter.type", "adapter.lora.alpha")}
        self.assertEqual(facts, {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0})
        self.assertEqual(len(reader.tensors), 2 * 2 * 7)
        down = learner.model.model.layers[1].mlp.down_proj
        [side_b] = [one for one in reader.tensors if one.name == "blk.1.ffn_down.weight.lora_b"]
        numpy.testing.assert_allclose(side_b.data, down.lora_B["default"].weight.detach().numpy())

    def test_other_files_are_refused_by_name(self) -> None:
        with self.assertRaisesRegex(ConfigurationError, 'architecture is "llama"'):
            GgufModel(self.write(tiny(), "llama"))
        path = self.write(tiny())
        for length in (3, 100, path.stat().st_size // 2):
            cut = self.folder / f"cut-{length}.gguf"
            cut.write_bytes(path.read_bytes()[:length])
            with self.assertRaisesRegex(ConfigurationError, "Cannot"):
                load_weights(GgufModel(cut))


HOLES = """
import sys, torch
from trainable_agents.torch_server import return_freed_memory
if sys.argv[1] == "returned":
    return_freed_memory()
torch.zeros(2**21)  # The first free of a large block moves the threshold of glibc above its size.
kept, freed = [], []
for _ in range(100):
    freed.append(torch.ones(2**20))
    kept.append(torch.ones(2**17))
freed.clear()
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmRSS:")))
"""


@unittest.skipUnless(platform.libc_ver()[0] == "glibc", "only glibc keeps freed blocks in a heap that the server can set")
class Memory(unittest.TestCase):
    def test_freed_activations_are_returned_to_the_system(self) -> None:
        sizes = {how: int(subprocess.check_output([sys.executable, "-c", HOLES, how])) for how in ("kept", "returned")}
        # 100 blocks of 4 MB, each beside one of 0.5 MB that is still in use.
        self.assertGreater(sizes["kept"] - sizes["returned"], 300)


if __name__ == "__main__":
    unittest.main()
