"""The training corpus of small vocabularies, and texts that tokenizers encode differently."""

import random

CORPUS = [
    "The order #W1234567 was delivered to the customer on Friday.",
    "I would like to return the book and get my money back, please.",
    "Your total is 42.50 dollars; the refund takes 5 to 7 days.",
    "hello world, the weather in Paris is nice and the people are kind",
    '{"name": "get_order", "arguments": {"order_id": "#W1234567"}}',
    "I don't know what it's about, but we've got to do it, and they'll help.",
    "日本語の文章を書きます。注文は明日届きます。",
    "今日は天気がいいです。本を返品したいのですが。",
    "order order order the the the book book customer customer",
    "café naïve résumé über straße ναι σας",
] * 3

TEXTS = [
    "",
    " ",
    "  ",
    "\n",
    "\u0085",
    "\ufeff",
    "hello world",
    " hello  world ",
    "a\u0085b\u0085 c",
    "\ufefforder the\ufeffbook\ufeff",
    "a\u00a0b\u3000c\u2003d\u200be\u202f!",
    "ΣΑΣ ΌΔΟΣ Σ σας ΣΑΣ.",
    "İstanbul DIŞ ß ẞ ŉ ﬁ ſ K Å",
    "<s>order</s> <unk>the<|im_start|>user\nhi<|im_end|>",
    "order reorder order, orders preorder _order order1 order",
    "the thethe the. other the\u200dx \u0301the the\u0301",
    "x <l> y <r> z  <b>  w<l><r><b> Ωmega ωmega",
    "  <b>\n\n<l>\t\t<r>  ",
    "é e\u0301 \u0301 café cafe\u0301",
    "日本語の文章、本を返品",
    "𠮷野家 鬱 龘",
    "👍🏽 👩‍👩‍👧 🇯🇵🇫 ❤️",
    "<0x41><0xE2> <0x0A> 0x41",
    "▁▁order▁ ▁the",
    "don't it's we've they'll I'm DON'T",
    "1234567 ١٢٣ Ⅷ ½ ² 第３回 ４２",
    "a.b,c!d?e;f:g-h_i(j)[k]{l}",
    "$5+3=8 ^ ` ~ | < > © ™ € « » “q” ‘r’ …",
    "tab\there\r\nnew\n\n\nlines\x0b\x0c end",
    "\x00\x01\x02\x7f\x8f\x9f\u00ad\u200e\u2060",
    "\ufffd\ufffe \ue000 \U0010ffff \U000e0001",
    "אבג دعا हिन्दी ไทย 한국어 각 ᄀ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "ee e  eee   e",
    "Ａｂｃ ㍿ ﾊﾟ ① ㎏ ﬃ ｶﾞ",
    "q̣̇ ạ̇ Ā̊ ͏",
    '{"name": "get_order", "arguments": {"id": null, "n": 1.50}}',
    "xyz zzz qqq ж щ ø þ",
    "the  <tool_call>  \n the<tool_call>order",
    "a\u2028b\u2029c\u1680d\u180ee",
]

PIECES = ["order", " the", "  ", "é", "日本", "<l>", " <r>", "<b>", "Σ", "▁", "\u0085", "\ufeff", "\n", "123", "<s>", "👍🏽", "İ", "Ωmega", "ΣΑΣ", "İstanbul", "x", ".", "'s", "\u0301", "ﬁ"]


def hostile_texts(count):
    """Handwritten texts first, then random ones; always the same."""
    chooser = random.Random(34)
    texts = list(TEXTS)
    while len(texts) < count:
        texts.append("".join(chooser.choice(PIECES) for _ in range(chooser.randrange(1, 12))))
    return texts[:count]
