"""Definitions of tokenizers of every kind, and the results of Hugging Face tokenizers for hostile texts and lists of ids.

Called by tokenizers.mjs: tokenizer_cases.py <output.jsonl> <texts> <lists>. Each line is a case: a name, a tokenizer.json (or the
reason why tokenizers refuses it), texts with their ids and their decoding, and lists of ids with their decodings.
"""

import json
import random
import sys
import tempfile

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenizer_texts import CORPUS, hostile_texts

SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def train(model, trainer, split):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = split
    tokenizer.train_from_iterator(CORPUS, trainer)
    return json.loads(tokenizer.to_str())["model"]


def with_tokens(model, tokens):
    """The same BPE with additional tokens before all others."""
    old = sorted(model["vocab"], key=model["vocab"].get)
    names = tokens + [name for name in old if name not in tokens]
    return {**model, "vocab": {name: id for id, name in enumerate(names)}}


def base_models():
    marked = pre_tokenizers.Metaspace()
    bpe = train(models.BPE(), trainers.BpeTrainer(vocab_size=400, show_progress=False), marked)
    prefixed = train(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
        trainers.BpeTrainer(vocab_size=300, continuing_subword_prefix="##", special_tokens=SPECIAL, show_progress=False),
        pre_tokenizers.Whitespace(),
    )
    suffixed = train(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(vocab_size=300, end_of_word_suffix="</w>", special_tokens=SPECIAL, show_progress=False),
        pre_tokenizers.Whitespace(),
    )
    byte_level = train(
        models.BPE(),
        trainers.BpeTrainer(
            vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>"], show_progress=False
        ),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    )
    unigram = train(
        models.Unigram(),
        trainers.UnigramTrainer(vocab_size=250, unk_token="<unk>", special_tokens=SPECIAL, show_progress=False),
        marked,
    )
    word_piece = train(
        models.WordPiece(unk_token="<unk>"),
        trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False),
        pre_tokenizers.BertPreTokenizer(),
    )
    word_level = train(
        models.WordLevel(unk_token="<unk>"),
        trainers.WordLevelTrainer(vocab_size=200, special_tokens=SPECIAL, show_progress=False),
        pre_tokenizers.Whitespace(),
    )
    sentencepiece_like = {**with_tokens(bpe, SPECIAL + BYTES), "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    unigram_bytes = {**unigram, "byte_fallback": True}
    unigram_bytes["vocab"] = unigram["vocab"][:3] + [[name, 0.0] for name in BYTES] + unigram["vocab"][3:]
    return {
        "bpe": {**with_tokens(bpe, SPECIAL), "unk_token": "<unk>"},
        "bpe-bytes": sentencepiece_like,
        "bpe-prefix": prefixed,
        "bpe-suffix": suffixed,
        "byte-level": byte_level,
        "unigram": unigram,
        "unigram-bytes": unigram_bytes,
        "word-piece": word_piece,
        "word-level": word_level,
    }


def charsmap(rule):
    """The table of replacements that SentencePiece compiles for one of its own rules."""
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_prefix=f"{folder}/m", vocab_size=120, normalization_rule_name=rule, minloglevel=2,
            hard_vocab_limit=False,
        )
        tokenizer = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/m.model")
        return precompiled_from(tokenizer.serialized_model_proto())


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def precompiled_from(proto):
    """Field 3 of the model is its normalizer; field 2 of that is the table."""
    import base64

    spec = dict(fields(dict(fields(proto))[3]))
    return base64.b64encode(spec[2]).decode()


def added(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False, **flags}


def definitions():
    base = base_models()
    specials = [added(text, special=True) for text in SPECIAL]
    chat = specials + [added("<|im_start|>", special=True), added("<|im_end|>", special=True), added("<tool_call>")]

    def definition(model, normalizer=None, pre=None, decoder=None, tokens=chat):
        model = base[model] if isinstance(model, str) else model
        return {
            "version": "1.0", "truncation": None, "padding": None, "normalizer": normalizer, "pre_tokenizer": pre,
            "post_processor": None, "decoder": decoder, "model": model,
            "added_tokens": [{"id": index, **token} for index, token in enumerate(tokens)],
        }  # fmt: skip

    def sequence(kind, *parts):
        return {"type": "Sequence", kind: list(parts)}

    def replace(pattern, content, kind="String"):
        return {"type": "Replace", "pattern": {kind: pattern}, "content": content}

    def split(pattern, behavior, invert=False, kind="String"):
        return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}

    def metaspace(scheme="always", split=True):
        return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}

    def strip(content, start, stop):
        return {"type": "Strip", "content": content, "start": start, "stop": stop}

    mark, unmark = replace(" ", "▁"), replace("▁", " ")
    fuse, bytes_ = {"type": "Fuse"}, {"type": "ByteFallback"}
    prepend = {"type": "Prepend", "prepend": "▁"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    prefixed = {**byte_level, "add_prefix_space": True, "use_regex": True}
    llama = sequence("decoders", unmark, bytes_, fuse, strip(" ", 1, 0))
    gemma = sequence("decoders", unmark, bytes_, fuse)
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    word_piece = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    nfkc = {"type": "Precompiled", "precompiled_charsmap": charsmap("nmt_nfkc")}
    nfkc_cf = {"type": "Precompiled", "precompiled_charsmap": charsmap("nmt_nfkc_cf")}

    # Chat models of today.
    yield "llama-2", definition("bpe-bytes", sequence("normalizers", prepend, mark), None, llama)
    yield "mistral", definition("bpe-bytes", None, metaspace("first", False), llama)
    yield "gemma", definition("bpe-bytes", mark, split(" ", "MergedWithPrevious"), gemma)
    yield "gemma-3", definition("bpe-bytes", mark, None, gemma)
    yield "llm-jp", definition("unigram-bytes", None, metaspace(), sequence("decoders", bytes_, metaspace(), fuse))
    yield "llm-jp-normalizer", definition("unigram-bytes", sequence("normalizers", prepend, mark), None, llama)
    yield "sarashina", definition("unigram-bytes", nfkc, metaspace("never", False), sequence("decoders", bytes_, metaspace("never"), fuse))
    yield "sarashina-replace", definition(
        "unigram-bytes", sequence("normalizers", nfkc, replace(" {2,}", "▁", "Regex")), metaspace("never"), metaspace("never")
    )
    yield "xlm-r", definition("unigram", nfkc, metaspace(), metaspace())
    yield "t5", definition("unigram", nfkc_cf, sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace()), metaspace())
    yield "bert", definition("word-piece", bert, {"type": "BertPreTokenizer"}, word_piece)
    yield "clip", definition(
        "bpe-suffix", sequence("normalizers", {"type": "NFC"}, {"type": "Lowercase"}), {"type": "Whitespace"},
        {"type": "BPEDecoder", "suffix": "</w>"},
    )  # fmt: skip
    yield "gpt-2-prefix-space", definition("byte-level", None, prefixed, byte_level, [added("<s>", special=True)])
    # Models.
    for fuses in (True, False):
        for fallback in (True, False):
            model = {**base["bpe-bytes"], "fuse_unk": fuses, "byte_fallback": fallback}
            yield f"bpe-fuse-{fuses}-bytes-{fallback}".lower(), definition(model, mark, None, gemma)
    lacking = {name: id for id, name in enumerate(n for n in base["bpe-bytes"]["vocab"] if n not in ("<0xE6>", "<0xF0>"))}
    yield "bpe-some-bytes", definition({**base["bpe-bytes"], "vocab": lacking}, mark, None, gemma)
    yield "bpe-no-unknown", definition({**base["bpe"], "unk_token": None}, mark, metaspace(), metaspace())
    yield "bpe-ignore-merges", definition({**base["bpe-bytes"], "ignore_merges": True}, None, metaspace(), metaspace())
    yield "bpe-dropout", definition({**base["bpe"], "dropout": 0.5}, None, metaspace(), metaspace())
    yield "bpe-dropout-zero", definition({**base["bpe"], "dropout": 0.0}, None, metaspace(), metaspace())
    yield "bpe-unknown-missing", definition({**base["bpe"], "unk_token": "[nope]"}, None, metaspace(), metaspace())
    yield "bpe-prefix", definition("bpe-prefix", None, {"type": "Whitespace"}, word_piece)
    yield "bpe-prefix-no-pre", definition("bpe-prefix", None, None, None)
    yield "bpe-suffix-bytes", definition({**base["bpe-bytes"], "end_of_word_suffix": "</w>"}, None, {"type": "Whitespace"}, gemma)
    yield "unigram-no-pre", definition("unigram", mark, None, metaspace())
    yield "unigram-bytes-no-pre", definition("unigram-bytes", mark, None, gemma)
    yield "unigram-no-unknown", definition({**base["unigram"], "unk_id": None}, None, metaspace(), metaspace())
    yield "word-piece-short", definition({**base["word-piece"], "max_input_chars_per_word": 4}, None, {"type": "Whitespace"}, {**word_piece, "cleanup": False})  # fmt: skip
    yield "word-level", definition("word-level", {"type": "Lowercase"}, {"type": "Whitespace"}, None)
    # Normalizers, before a model that knows every byte.
    whole = {"model": "bpe-bytes", "decoder": gemma}
    for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
        yield f"normalizer-{kind}", definition(normalizer={"type": kind}, **whole)
    yield "normalizer-nfkc-table", definition(normalizer=nfkc, **whole)
    yield "normalizer-nfkc-fold-table", definition(normalizer=nfkc_cf, **whole)
    for left, right in ((True, False), (False, True), (True, True)):
        yield f"normalizer-strip-{left}-{right}".lower(), definition(
            normalizer={"type": "Strip", "strip_left": left, "strip_right": right}, pre=metaspace("first"), **whole
        )
    yield "normalizer-replace-regex", definition(normalizer=replace(r"[\r\n]+|\d", "-", "Regex"), **whole)
    yield "normalizer-remove", definition(normalizer=replace("e", ""), pre=metaspace(), **whole)
    yield "normalizer-bert-cased", definition(normalizer={**bert, "lowercase": False, "strip_accents": True}, **whole)
    yield "normalizer-bert-plain", definition(normalizer={**bert, "clean_text": False, "handle_chinese_chars": False}, **whole)
    yield "normalizer-byte-level", definition("byte-level", {"type": "ByteLevel"}, None, byte_level, [added("<s>", special=True)])
    # Pre-tokenizers.
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield f"split-{behavior}", definition(pre=split(" ", behavior), **whole)
        yield f"split-inverted-{behavior}", definition(pre=split(r"\p{L}+", behavior, True, "Regex"), **whole)
        yield f"split-empty-matches-{behavior}", definition(pre=split(r"\p{N}*", behavior, False, "Regex"), **whole)
        yield f"byte-level-{behavior}", definition(
            "byte-level", None, sequence("pretokenizers", split(r"\s", behavior, False, "Regex"), byte_level), byte_level, [added("<s>", special=True)]
        )  # fmt: skip
        yield f"punctuation-{behavior}", definition(pre={"type": "Punctuation", "behavior": behavior}, **whole)
    for scheme in ("always", "first", "never"):
        for splits in (True, False):
            name = f"metaspace-{scheme}-{splits}".lower()
            yield name, definition("bpe-bytes", None, metaspace(scheme, splits), sequence("decoders", bytes_, metaspace(scheme)))
    yield "metaspace-first-after-table", definition("unigram-bytes", nfkc, metaspace("first"), metaspace("first"))
    yield "metaspace-first-after-split", definition(
        "unigram-bytes", None, sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("first")), metaspace("first")
    )
    yield "metaspace-old", definition("bpe-bytes", None, {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}, gemma)
    yield "metaspace-old-no-prefix", definition(
        "bpe-bytes", None, {"type": "Metaspace", "replacement": "▁", "add_prefix_space": False, "prepend_scheme": "never"}, gemma
    )
    yield "digits", definition(pre={"type": "Digits", "individual_digits": False}, **whole)
    yield "digits-individual", definition(pre={"type": "Digits", "individual_digits": True}, **whole)
    for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"):
        yield f"pre-{kind}", definition(pre={"type": kind}, **whole)
    yield "pre-delimiter", definition(pre={"type": "CharDelimiterSplit", "delimiter": "e"}, **whole)
    yield "pre-fixed-length", definition(pre={"type": "FixedLength", "length": 3}, **whole)
    yield "pre-words-regex", definition(pre=split(r"\w+|[^\w\s]+", "Isolated", False, "Regex"), **whole)
    # Decoders.
    yield "decoder-none", definition("bpe", None, metaspace(), None)
    yield "decoder-strip-each", definition("bpe-bytes", mark, None, sequence("decoders", unmark, strip(" ", 1, 0)))
    yield "decoder-strip-end", definition("bpe-bytes", mark, None, sequence("decoders", unmark, fuse, strip(" ", 1, 1)))
    yield "decoder-ctc", definition("bpe", None, metaspace(), {"type": "CTC", "pad_token": "<s>", "word_delimiter_token": "|", "cleanup": True})
    yield "decoder-replace-after-fuse", definition("bpe-bytes", mark, None, sequence("decoders", bytes_, fuse, unmark))
    yield "decoder-bytes-last", definition("bpe-bytes", mark, None, sequence("decoders", unmark, bytes_))
    yield "decoder-word-piece", definition("word-piece", None, {"type": "BertPreTokenizer"}, {**word_piece, "cleanup": False})
    yield "decoder-byte-level-among-names", definition("bpe-bytes", mark, None, byte_level)
    # Added tokens.
    flagged = [
        added("order", single_word=True), added("<l>", lstrip=True), added("<r>", rstrip=True), added("<b>", lstrip=True, rstrip=True),
        added("İstanbul", normalized=True), added("ΣΑΣ", normalized=True, single_word=True), added("Ωmega", normalized=True, special=True), added("  "), added("é"), added("the", single_word=True, rstrip=True),
    ]  # fmt: skip
    for name, model, normalizer, pre, decoder in (
        ("bpe", "bpe-bytes", {"type": "Lowercase"}, None, gemma),
        ("metaspace", "bpe-bytes", None, metaspace("first"), gemma),
        ("prepend", "bpe-bytes", sequence("normalizers", prepend, mark), None, llama),
        ("unigram", "unigram-bytes", nfkc_cf, metaspace(), sequence("decoders", bytes_, metaspace())),
        ("word-piece", "word-piece", bert, {"type": "BertPreTokenizer"}, word_piece),
        ("byte-level", "byte-level", {"type": "NFKC"}, byte_level, byte_level),
    ):
        yield f"added-{name}", definition(model, normalizer, pre, decoder, chat + flagged)
        late = [{**token, "normalized": not token["normalized"]} for token in flagged]
        yield f"added-{name}-other-way", definition(model, normalizer, pre, decoder, chat + late)


def attempt(action):
    try:
        return {"value": action()}
    except BaseException as error:  # A Rust panic is no Exception.
        return {"error": str(error)[:200]}


def id_lists(tokenizer, count, chooser):
    size = tokenizer.get_vocab_size()
    byte_ids = [id for id in map(tokenizer.token_to_id, BYTES) if id is not None]
    runs = ["日本", "é", "👍🏽", "\ufeff", "a"]
    for index in range(count):
        ids = [chooser.randrange(size + 3) for _ in range(chooser.randrange(12))]
        if len(byte_ids) == 256 and index % 2 == 0:
            for _ in range(chooser.randrange(1, 4)):
                run = [byte_ids[byte] for byte in chooser.choice(runs).encode()]
                if chooser.random() < 0.6:
                    run = run[chooser.randrange(2) : len(run) - chooser.randrange(2)] + chooser.sample(byte_ids, chooser.randrange(2))
                at = chooser.randrange(len(ids) + 1)
                ids[at:at] = run
        yield ids


def main(output, texts, lists):
    chooser = random.Random(33)
    with open(output, "w", encoding="utf8") as file:
        for name, definition in definitions():
            case = {"name": name, "definition": definition, "refusal": None, "texts": [], "lists": []}
            loaded = attempt(lambda: Tokenizer.from_str(json.dumps(definition)))
            if "error" in loaded:
                case["refusal"] = loaded["error"]
            else:
                tokenizer = loaded["value"]
                decode = lambda ids, skip: attempt(lambda: tokenizer.decode(ids, skip_special_tokens=skip))  # noqa: E731
                for text in hostile_texts(texts):
                    ids = attempt(lambda: tokenizer.encode(text, add_special_tokens=False).ids)
                    decoded = decode(ids["value"], False) if "value" in ids else None
                    case["texts"].append({"text": text, "ids": ids, "decoded": decoded})
                for ids in id_lists(tokenizer, lists, chooser):
                    case["lists"].append({"ids": ids, "decoded": decode(ids, False), "skipped": decode(ids, True)})
            file.write(json.dumps(case) + "\n")


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
